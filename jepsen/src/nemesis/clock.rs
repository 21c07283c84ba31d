//! Wrong wall clocks. The monotonic clocks stay right, as they do on a machine whose time is set.

use fastrand::Rng;
use serde_json::json;

use super::{Facts, Nemesis, facts};
use crate::cluster::{Cluster, ClusterError};

/// Values for `faults.c`: an offset in seconds, or a second at which the clock stops.
const CLOCKS: &[&str] = &[
    "+5",
    "-5",
    "+60",
    "-60",
    "+3600",
    "-3600",
    "+86400",
    "-86400",
    "=1000000000",
];

/// Jumps forward, and back at the end.
#[derive(Debug, Default)]
pub(super) struct Clock(Vec<u64>);

impl Nemesis for Clock {
    fn begin(
        &mut self,
        cluster: &mut Cluster,
        rng: &mut Rng,
    ) -> Result<Option<Facts>, ClusterError> {
        let ids = cluster.ids();
        let count = rng.usize(1..=ids.len());
        let mut jumps = Vec::new();
        for id in rng.choose_multiple(ids, count) {
            let clock = CLOCKS[rng.usize(..CLOCKS.len())];
            self.0.push(id);
            cluster.faults()?.set_clock(id, clock);
            jumps.push(json!([id, clock]));
        }
        Ok(Some(facts([
            ("members", json!(self.0)),
            ("clocks", json!(jumps)),
        ])))
    }

    fn end(&mut self, cluster: &mut Cluster) -> Result<Facts, ClusterError> {
        let members = std::mem::take(&mut self.0);
        for &id in &members {
            cluster.faults()?.set_clock(id, "+0");
        }
        Ok(facts([("members", json!(members))]))
    }
}
