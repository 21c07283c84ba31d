//! Growth from three servers to five by their files, in the wrong order: the leader is the first to
//! be given the list of five. Those with the list of three elect another one meanwhile, and those
//! with the list of five are a quorum of it once the old leader is back.
//!
//! `zoarium.membershipGuard` is what keeps them from it; see docs/COMPATIBILITY.md.

use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::json;

use super::{Facts, Nemesis, facts};
use crate::cluster::{Cluster, ClusterError};

/// Its name on the command line.
pub const NAME: &str = "growth";
/// How long the others with the old list have to elect one of them.
const ELECTION_LIMIT: Duration = Duration::from_secs(10);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);
/// How long a server has to end by itself.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// One member that has the new list too early. At the end it has the old one again.
#[derive(Debug, Default)]
pub(super) struct Growth(Option<u64>);

impl Nemesis for Growth {
    fn begin(
        &mut self,
        cluster: &mut Cluster,
        _rng: &mut Rng,
    ) -> Result<Option<Facts>, ClusterError> {
        let old = Cluster::before_growth();
        let Some(leader) = cluster.leader().filter(|leader| old.contains(leader)) else {
            return Ok(None);
        };
        self.0 = Some(leader);
        cluster.stop_member(leader, STOP_LIMIT);
        cluster.list_all(leader);
        let deadline = Instant::now() + ELECTION_LIMIT;
        let mut next = cluster.leader();
        while next.is_none() && Instant::now() < deadline {
            std::thread::sleep(LOOK);
            next = cluster.leader();
        }
        cluster.start_member(leader);
        Ok(Some(facts([
            ("members", json!([leader])),
            ("next_leader", json!(next)),
        ])))
    }

    fn end(&mut self, cluster: &mut Cluster) -> Result<Facts, ClusterError> {
        let Some(id) = self.0.take() else {
            return Ok(Facts::new());
        };
        let leaders = cluster.leaders();
        cluster.stop_member(id, STOP_LIMIT);
        cluster.list_before_growth(id);
        cluster.start_member(id);
        Ok(facts([
            ("members", json!([id])),
            ("leaders", json!(leaders)),
        ]))
    }
}
