//! Disks that are slow, full or failing, and disks that lose unsynced data.

use fastrand::Rng;
use serde_json::json;
use tests::ensemble::Role;

use super::{Facts, Nemesis, facts, one, one_or_majority};
use crate::cluster::{Cluster, ClusterError, DATA};

/// Syncs of one member that take long, wait, or fail.
#[derive(Debug, Default)]
pub(super) struct Fsync(Option<u64>);

impl Nemesis for Fsync {
    fn begin(
        &mut self,
        cluster: &mut Cluster,
        rng: &mut Rng,
    ) -> Result<Option<Facts>, ClusterError> {
        let Some(id) = one(cluster, rng) else {
            return Ok(None);
        };
        self.0 = Some(id);
        let faults = cluster.faults()?;
        let form = match rng.u8(..3) {
            0 => {
                faults.slow_syncs(id, DATA, rng.u64(1..20));
                "slow"
            }
            1 => {
                faults.hold_syncs(id, DATA);
                "held"
            }
            _ => {
                faults.fail_syncs(id, DATA);
                "failing"
            }
        };
        Ok(Some(facts([
            ("members", json!([id])),
            ("form", json!(form)),
        ])))
    }

    /// A server whose sync failed cannot know the contents of its disk, and ends. It is started
    /// again.
    fn end(&mut self, cluster: &mut Cluster) -> Result<Facts, ClusterError> {
        let Some(id) = self.0.take() else {
            return Ok(Facts::new());
        };
        cluster.faults()?.end_sync_faults(id);
        cluster.start_member(id);
        Ok(facts([("members", json!([id]))]))
    }
}

/// A disk that blocks every sync: in turn that of a leader, of a follower, and of an observer.
#[derive(Debug, Default)]
pub(super) struct Hold {
    turn: usize,
    held: Option<u64>,
}

/// Roles in the order in which their disks are held.
const ROLES: [Role; 3] = [Role::Leader, Role::Follower, Role::Observer];

impl Nemesis for Hold {
    fn begin(
        &mut self,
        cluster: &mut Cluster,
        rng: &mut Rng,
    ) -> Result<Option<Facts>, ClusterError> {
        // A role that no member has is left out.
        let found = (0..ROLES.len()).find_map(|_| {
            let role = ROLES[self.turn % ROLES.len()];
            self.turn += 1;
            Some((role, rng.choice(cluster.in_role(role))?))
        });
        let Some((role, id)) = found else {
            return Ok(None);
        };
        self.held = Some(id);
        cluster.faults()?.hold_syncs(id, DATA);
        Ok(Some(facts([
            ("members", json!([id])),
            ("role", json!(format!("{role:?}"))),
        ])))
    }

    fn end(&mut self, cluster: &mut Cluster) -> Result<Facts, ClusterError> {
        let Some(id) = self.held.take() else {
            return Ok(Facts::new());
        };
        let faults = cluster.faults()?;
        let has_held = faults.has_held(id);
        faults.end_sync_faults(id);
        Ok(facts([
            ("members", json!([id])),
            ("has_held", json!(has_held)),
        ]))
    }
}

/// A power cut: processes are killed, and unsynced data is lost, either all of it or from some
/// write on. File names stay, synced or not.
#[derive(Debug, Default)]
pub(super) struct Power(Vec<u64>);

impl Nemesis for Power {
    fn begin(
        &mut self,
        cluster: &mut Cluster,
        rng: &mut Rng,
    ) -> Result<Option<Facts>, ClusterError> {
        let mut chosen = match rng.u8(..4) {
            0 => cluster.ids(),
            _ => one_or_majority(cluster, rng),
        };
        chosen.retain(|&id| cluster.kill_member(id));
        self.0.clone_from(&chosen);
        let mut dropped = Vec::new();
        for id in chosen {
            let dir = cluster.data_dir(id);
            let kept = |writes| if rng.bool() { 0 } else { rng.usize(..=writes) };
            let bytes = cluster.faults()?.drop_unsynced(id, &dir, kept);
            let failed =
                |error| ClusterError::Change(format!("cannot drop unsynced writes: {error}"));
            dropped.push(bytes.map_err(failed)?);
        }
        let members = facts([("members", json!(self.0)), ("bytes", json!(dropped))]);
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

/// A full disk of one member.
#[derive(Debug, Default)]
pub(super) struct Full(Option<u64>);

impl Nemesis for Full {
    fn begin(
        &mut self,
        cluster: &mut Cluster,
        rng: &mut Rng,
    ) -> Result<Option<Facts>, ClusterError> {
        let Some(id) = one(cluster, rng) else {
            return Ok(None);
        };
        self.0 = Some(id);
        cluster.faults()?.fill_disk(id, DATA);
        Ok(Some(facts([("members", json!([id]))])))
    }

    /// A server that cannot write ends. It is started again.
    fn end(&mut self, cluster: &mut Cluster) -> Result<Facts, ClusterError> {
        let Some(id) = self.0.take() else {
            return Ok(Facts::new());
        };
        cluster.faults()?.end_full_disk(id);
        cluster.start_member(id);
        Ok(facts([("members", json!([id]))]))
    }
}
