//! Members that leave and join, and members that change to another server.

use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::json;
use tests::Flavour;
use tests::ensemble::Change;

use super::{Facts, Nemesis, facts};
use crate::cluster::{Cluster, ClusterError};

/// Time limit for the attempts of a membership change. Other faults may be in progress, and without
/// a quorum there is no change.
const CHANGE_LIMIT: Duration = Duration::from_secs(3);
/// Time limit for the answer of one member.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(200);
/// Time limit for a server's own end.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// One member leaves by `reconfig` and joins again at the end. Its process stays.
#[derive(Debug, Default)]
pub(super) struct Membership(Option<u64>);

impl Nemesis for Membership {
    fn begin(
        &mut self,
        cluster: &mut Cluster,
        rng: &mut Rng,
    ) -> Result<Option<Facts>, ClusterError> {
        // An ensemble needs two voters.
        let (Some(id), true) = (rng.choice(cluster.ids()), cluster.ids().len() > 2) else {
            return Ok(None);
        };
        // The change may happen even without an answer, so it is reverted in any case.
        self.0 = Some(id);
        let change = Change {
            leaving: vec![id],
            ..Change::default()
        };
        let changed = change_members(cluster, &change, CHANGE_LIMIT);
        Ok(Some(facts([
            ("members", json!([id])),
            ("answer", json!(changed.err())),
        ])))
    }

    fn end(&mut self, cluster: &mut Cluster) -> Result<Facts, ClusterError> {
        let Some(id) = self.0 else {
            return Ok(Facts::new());
        };
        let change = Change {
            joining: vec![cluster.line(id)],
            ..Change::default()
        };
        // Without a quorum, it is tried again when all other faults have ended.
        change_members(cluster, &change, CHANGE_LIMIT).map_err(ClusterError::Change)?;
        self.0 = None;
        // A member that was removed does not retry, and cannot start with that list.
        cluster.kill_member(id);
        cluster.list_all(id);
        cluster.start_member(id);
        Ok(facts([("members", json!([id]))]))
    }
}

/// Requests the change from one member after the other.
fn change_members(cluster: &mut Cluster, change: &Change, limit: Duration) -> Result<(), String> {
    let deadline = Instant::now() + limit;
    let mut last = "no member is up".to_owned();
    while Instant::now() < deadline {
        let leader = cluster.leader();
        let others = cluster.up();
        let mut asked = leader.iter().chain(&others).take(2).copied();
        let answer = asked.find_map(|id| {
            match cluster.ensemble().try_reconfigure(id, change, ANSWER_LIMIT) {
                Ok(_) => Some(()),
                Err(failure) => {
                    last = format!("member {id}: {failure}");
                    None
                }
            }
        });
        match answer {
            Some(()) => return Ok(()),
            None => std::thread::sleep(PAUSE),
        }
    }
    Err(last)
}

/// A step of a rolling upgrade or downgrade: one member stops on request and continues as the other
/// server.
#[derive(Debug, Default)]
pub(super) struct Upgrade(Option<(u64, Flavour)>);

impl Nemesis for Upgrade {
    fn begin(
        &mut self,
        cluster: &mut Cluster,
        rng: &mut Rng,
    ) -> Result<Option<Facts>, ClusterError> {
        let Some(id) = rng.choice(cluster.up()) else {
            return Ok(None);
        };
        let before = cluster.flavour(id);
        self.0 = Some((id, before));
        let after = match before {
            Flavour::Apache => Flavour::Zoarium,
            _ => Flavour::Apache,
        };
        go_on_as(cluster, id, after);
        Ok(Some(facts([
            ("members", json!([id])),
            ("from", json!(format!("{before:?}"))),
            ("to", json!(format!("{after:?}"))),
        ])))
    }

    fn end(&mut self, cluster: &mut Cluster) -> Result<Facts, ClusterError> {
        let Some((id, before)) = self.0.take() else {
            return Ok(Facts::new());
        };
        go_on_as(cluster, id, before);
        Ok(facts([
            ("members", json!([id])),
            ("to", json!(format!("{before:?}"))),
        ]))
    }
}

fn go_on_as(cluster: &mut Cluster, id: u64, flavour: Flavour) {
    cluster.stop_member(id, STOP_LIMIT);
    cluster.replace(id, flavour);
    cluster.start_member(id);
}
