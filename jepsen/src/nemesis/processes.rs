//! Processes that are killed, and processes that are paused.

use fastrand::Rng;
use serde_json::json;

use super::{Facts, Nemesis, facts, one_or_majority};
use crate::cluster::{Cluster, ClusterError};

/// Kills processes, and starts them again at the end.
#[derive(Debug, Default)]
pub(super) struct Kill(Vec<u64>);

impl Nemesis for Kill {
    fn begin(
        &mut self,
        cluster: &mut Cluster,
        rng: &mut Rng,
    ) -> Result<Option<Facts>, ClusterError> {
        let mut chosen = match rng.u8(..8) {
            0 => cluster.ids(),
            _ => one_or_majority(cluster, rng),
        };
        chosen.retain(|&id| cluster.kill_member(id));
        self.0 = chosen;
        let members = facts([("members", json!(self.0))]);
        Ok((!self.0.is_empty()).then_some(members))
    }

    fn end(&mut self, cluster: &mut Cluster) -> Result<Facts, ClusterError> {
        let members = std::mem::take(&mut self.0);
        for &id in &members {
            cluster.start_member(id);
        }
        Ok(facts([("members", json!(members))]))
    }
}

/// Pauses processes: their connections stay open without any answer.
#[derive(Debug, Default)]
pub(super) struct Pause(Vec<u64>);

impl Nemesis for Pause {
    fn begin(
        &mut self,
        cluster: &mut Cluster,
        rng: &mut Rng,
    ) -> Result<Option<Facts>, ClusterError> {
        let mut chosen = one_or_majority(cluster, rng);
        chosen.retain(|&id| cluster.pause_member(id));
        self.0 = chosen;
        let members = facts([("members", json!(self.0))]);
        Ok((!self.0.is_empty()).then_some(members))
    }

    fn end(&mut self, cluster: &mut Cluster) -> Result<Facts, ClusterError> {
        let members = std::mem::take(&mut self.0);
        for &id in &members {
            cluster.resume_member(id);
        }
        Ok(facts([("members", json!(members))]))
    }
}
