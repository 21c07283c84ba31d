//! Processes that are killed, and processes that are paused.

use std::time::Duration;

use fastrand::Rng;
use serde_json::json;
use tests::ensemble::Role;
use tests::wait_until;

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

/// Time limit for the return of a restarted member. It is sufficient for a busy machine.
const RETURN_LIMIT: Duration = Duration::from_secs(20);

/// Kills one follower, and starts it again while the others continue. The end of the fault reports
/// whether it serves again.
#[derive(Debug, Default)]
pub(super) struct Restart(Option<u64>);

impl Nemesis for Restart {
    fn begin(
        &mut self,
        cluster: &mut Cluster,
        rng: &mut Rng,
    ) -> Result<Option<Facts>, ClusterError> {
        self.0 = rng.choice(cluster.in_role(Role::Follower));
        self.0 = self.0.filter(|&id| cluster.kill_member(id));
        Ok(self.0.map(|id| facts([("members", json!([id]))])))
    }

    fn end(&mut self, cluster: &mut Cluster) -> Result<Facts, ClusterError> {
        let Some(id) = self.0.take() else {
            return Ok(Facts::new());
        };
        cluster.start_member(id);
        let serves = || {
            let role = cluster.ensemble().member(id).role();
            role.filter(|role| *role != Role::ReadOnly)
        };
        let serves = wait_until(RETURN_LIMIT, serves).is_some();
        Ok(facts([("members", json!([id])), ("serves", json!(serves))]))
    }
}
