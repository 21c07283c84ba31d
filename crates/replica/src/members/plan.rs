//! From a client's reconfig to the member list it makes, or the code it is refused with.
//!
//! Whether reconfig is on, and whether the client may, is for `tree::Overlay::prepare_reconfig`,
//! which takes what this says in the middle of its own checks.
//!
//! Differs from Apache ZooKeeper: a list that is too long for a notification is refused, as nobody
//! could be elected any more; and a follower that was made an observer, and has not heard of it yet,
//! does not count for the quorum that is in sync.
//!
//! Source: PrepRequestProcessor (reconfig), Leader.isQuorumSynced.

use std::collections::BTreeSet;

use config::members::MemberRole;
use config::membership::Membership;
use proto::notification::CONFIG_BYTES_MAX;
use proto::request::ReconfigRequest;
use proto::{ConfigVersion, ErrorCode, Sid, Zxid};

use super::MemberLists;

/// A request that takes any version.
const ANY_VERSION: i64 = -1;
/// Most participants of an ensemble that has an oracle's help.
const ORACLE_VOTERS_MAX: usize = 2;

/// What a plan depends on besides the lists.
#[derive(Debug, Clone)]
pub struct PlanFacts {
    /// The transaction that the reconfiguration is to be: the version of the list.
    pub zxid: Zxid,
    /// The learners that came as followers, listed or not, are synchronised, and have
    /// acknowledged within `syncLimit`. Observers are not among them, even those that are to be
    /// promoted.
    pub synced_followers: BTreeSet<Sid>,
    /// The oracle lets one of two go on alone (`oraclePath`).
    pub oracle_grants: bool,
}

impl MemberLists {
    /// The list that a reconfiguration would make, for this server as leader.
    ///
    /// Nothing has changed after it. If the reconfiguration is proposed, the list is to be seen
    /// first ([`MemberLists::see`]).
    ///
    /// # Errors
    /// The code for the client, of the first check that fails.
    pub fn plan(
        &self,
        request: &ReconfigRequest,
        facts: &PlanFacts,
    ) -> Result<Membership, ErrorCode> {
        if let Some(seen) = &self.last_seen {
            log_limiter::limited!(info, version = %seen.version, "reconfig refused: another is in progress");
            return Err(ErrorCode::ReconfigInProgress);
        }
        let version = self.committed.version;
        if request.config_version != ANY_VERSION && request.config_version != version.0 {
            let expected = ConfigVersion(request.config_version);
            log_limiter::limited!(info, %version, %expected, "reconfig refused: another version");
            return Err(ErrorCode::BadVersion);
        }
        let planned = match &request.new_members {
            Some(text) => Membership::replacement(text, self.rules),
            None => self.committed.changed(
                request.joining.as_deref(),
                request.leaving.as_deref(),
                self.rules,
            ),
        };
        let mut list = planned.map_err(|fault| {
            let code = fault.code();
            log_limiter::limited!(info, code = code.name(), reason = %fault, "reconfig refused");
            code
        })?;
        list.version = ConfigVersion(facts.zxid.0);
        let len = list.node_data().len();
        if len > CONFIG_BYTES_MAX {
            log_limiter::limited!(
                info,
                len,
                "reconfig refused: no notification has room for the list"
            );
            return Err(ErrorCode::BadArguments);
        }
        if !self.is_quorum_synced(&list, facts) {
            let synced = &facts.synced_followers;
            log_limiter::limited!(
                info,
                ?synced,
                "reconfig refused: no quorum of the new list is in sync"
            );
            return Err(ErrorCode::NewConfigNoQuorum);
        }
        Ok(list)
    }

    fn is_quorum_synced(&self, list: &Membership, facts: &PlanFacts) -> bool {
        let quorum = list.quorum();
        let voters = quorum.voters();
        // It leaves as soon as it hears of its role. If it ended before it heard of the new one, it would
        // be needed for a quorum, and look for the leader as an observer does.
        let is_observer_now = |sid: Sid| {
            let member = self.committed.members.get(&sid);
            member.is_some_and(|member| member.role == MemberRole::Observer)
        };
        let has_synced = |sid: Sid| facts.synced_followers.contains(&sid) && !is_observer_now(sid);
        let is_synced = |sid: Sid| voters.contains(&sid) && (sid == self.me || has_synced(sid));
        quorum.is_quorum(&is_synced) || (facts.oracle_grants && voters.len() <= ORACLE_VOTERS_MAX)
    }
}
