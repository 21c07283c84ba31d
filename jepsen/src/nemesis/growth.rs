//! A growth from three servers to five by their files, in the wrong order: the leader is the first
//! that gets the list of five. Meanwhile the members with the list of three elect another leader.
//! When the old leader returns, the members with the list of five are a quorum of it. Then there
//! are two leaders, and all clients use the leader of the old list. It is killed, and the clients
//! move to the other one.
//!
//! `zoarium.membershipGuard` prevents this while the leader of the old list answers; see
//! docs/COMPATIBILITY.md. Other faults may end this leader, so this fault runs alone.

use std::time::Duration;

use fastrand::Rng;
use serde_json::json;
use tests::wait_until;

use super::{Facts, Nemesis, facts};
use crate::cluster::{Cluster, ClusterError};

/// Its name on the command line.
pub const NAME: &str = "growth";
/// Time limit for an election among the others with the old list.
const ELECTION_LIMIT: Duration = Duration::from_secs(10);
/// Time limit for an election among the members with the new list.
const SECOND_LIMIT: Duration = Duration::from_secs(15);
/// Time limit for a server's own end.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// The growth in progress. At the end all members get their previous lists.
#[derive(Debug, Default)]
pub(super) struct Growth(Option<Grown>);

#[derive(Debug)]
struct Grown {
    /// The member that got the new list too early.
    early: u64,
    /// The leader of the old list, if there were two leaders.
    killed: Option<u64>,
}

impl Nemesis for Growth {
    fn begin(
        &mut self,
        cluster: &mut Cluster,
        _rng: &mut Rng,
    ) -> Result<Option<Facts>, ClusterError> {
        let old = Cluster::before_growth();
        let Some(early) = cluster.leader().filter(|leader| old.contains(leader)) else {
            return Ok(None);
        };
        let killed = None;
        self.0 = Some(Grown { early, killed });
        cluster.stop_member(early, STOP_LIMIT);
        cluster.list_all(early);
        let next = wait_until(ELECTION_LIMIT, || cluster.leader());
        if next.is_none() {
            // Nobody leads with the old list, so nothing would prevent a quorum of the new list,
            // and the others would lose what it acknowledges.
            cluster.list_before_growth(early);
            cluster.start_member(early);
            self.0 = None;
            return Ok(None);
        }
        cluster.start_member(early);
        let two = || Some(cluster.leaders()).filter(|leaders| leaders.len() > 1);
        let two = wait_until(SECOND_LIMIT, two);
        let killed = next.filter(|next| two.is_some() && cluster.kill_member(*next));
        self.0 = Some(Grown { early, killed });
        Ok(Some(facts([
            ("members", json!([early])),
            ("next_leader", json!(next)),
            ("leaders", json!(two)),
            ("killed", json!(killed)),
        ])))
    }

    fn end(&mut self, cluster: &mut Cluster) -> Result<Facts, ClusterError> {
        let Some(Grown { early, killed }) = self.0.take() else {
            return Ok(Facts::new());
        };
        cluster.stop_member(early, STOP_LIMIT);
        cluster.list_before_growth(early);
        for id in [Some(early), killed].into_iter().flatten() {
            cluster.start_member(id);
        }
        Ok(facts([("members", json!([early]))]))
    }
}
