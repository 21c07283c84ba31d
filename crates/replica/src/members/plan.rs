//! Construction of the new member list for a client's reconfig, or of the error code for the
//! client.
//!
//! `tree::Overlay::prepare_reconfig` checks whether reconfig is enabled and the client has
//! permission. It uses the result of this module between its own checks.
//!
//! Differs from Apache ZooKeeper. A list that is too long for a notification is refused, because no
//! server could be elected any more. A follower that became an observer without knowing it yet is
//! not counted in the synchronised quorum.
//!
//! Source: PrepRequestProcessor (reconfig), Leader.isQuorumSynced.

use std::collections::BTreeSet;

use config::members::MemberRole;
use config::membership::Membership;
use proto::notification::CONFIG_BYTES_MAX;
use proto::request::ReconfigRequest;
use proto::{ConfigVersion, ErrorCode, Sid, Zxid};

use super::MemberLists;

/// Version in a request that accepts any version.
const ANY_VERSION: i64 = -1;
/// Maximum number of participants with which an oracle can help.
const ORACLE_VOTERS_MAX: usize = 2;

/// State on which a plan depends, in addition to the lists.
#[derive(Debug, Clone)]
pub struct PlanFacts {
    /// Zxid of the reconfiguration, which becomes the version of the list.
    pub zxid: Zxid,
    /// Learners that connected as followers, listed or not, are synchronised, and have acknowledged
    /// within `syncLimit`. Observers are excluded, even if they are to be promoted.
    pub synced_followers: BTreeSet<Sid>,
    /// Whether the oracle allows one of two members to continue alone (`oraclePath`).
    pub oracle_grants: bool,
}

impl MemberLists {
    /// Constructs the new list for a reconfiguration, for this server as leader.
    ///
    /// It does not change the lists. If the reconfiguration is proposed, call [`MemberLists::see`]
    /// first.
    ///
    /// # Errors
    /// The code for the client, from the first check that fails.
    pub fn plan(
        &self,
        request: &ReconfigRequest,
        facts: &PlanFacts,
    ) -> Result<Membership, ErrorCode> {
        if let Some(seen) = &self.last_seen {
            log_limiter::limited!(info, version = %seen.version, "reconfig refused: another reconfiguration is in progress");
            return Err(ErrorCode::ReconfigInProgress);
        }
        let version = self.committed.version;
        if request.config_version != ANY_VERSION && request.config_version != version.0 {
            let expected = ConfigVersion(request.config_version);
            log_limiter::limited!(info, %version, %expected, "reconfig refused: the member list has another version");
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
                "reconfig refused: the member list does not fit into a notification"
            );
            return Err(ErrorCode::BadArguments);
        }
        if !self.is_quorum_synced(&list, facts) {
            let synced = &facts.synced_followers;
            log_limiter::limited!(
                info,
                ?synced,
                "reconfig refused: no quorum of the new member list is in sync"
            );
            return Err(ErrorCode::NewConfigNoQuorum);
        }
        Ok(list)
    }

    fn is_quorum_synced(&self, list: &Membership, facts: &PlanFacts) -> bool {
        let quorum = list.quorum();
        let voters = quorum.voters();
        // A connected follower that is an observer in the committed list does not know its new role
        // yet. It leaves the leader as soon as it learns the role, when the quorum may still need
        // it.
        let is_observer_now = |sid: Sid| {
            let member = self.committed.members.get(&sid);
            member.is_some_and(|member| member.role == MemberRole::Observer)
        };
        let has_synced = |sid: Sid| facts.synced_followers.contains(&sid) && !is_observer_now(sid);
        let is_synced = |sid: Sid| voters.contains(&sid) && (sid == self.me || has_synced(sid));
        quorum.is_quorum(&is_synced) || (facts.oracle_grants && voters.len() <= ORACLE_VOTERS_MAX)
    }
}
