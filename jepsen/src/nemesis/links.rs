//! Links between members that delay, lose, repeat or throttle the packets of one direction. Clients
//! are not affected.

use ::tests::ensemble::Shape;
use fastrand::Rng;
use serde_json::json;

use super::{Facts, Nemesis, facts};
use crate::cluster::{Cluster, ClusterError};

/// Names of bad directions, and what they do.
const SHAPES: &[(&str, Shape)] = &[
    ("slow", with(50, 20, 0, 0, 0)),
    ("very slow", with(300, 200, 0, 0, 0)),
    ("lossy", with(0, 0, 10, 0, 0)),
    ("very lossy", with(0, 0, 30, 0, 0)),
    ("repeating", with(5, 0, 0, 20, 0)),
    ("reordering", with(0, 40, 0, 0, 0)),
    ("narrow", with(0, 0, 0, 0, 32)),
    ("bad", with(20, 30, 5, 5, 200)),
];

const fn with(
    delay_ms: u32,
    jitter_ms: u32,
    loss_percent: u32,
    repeat_percent: u32,
    bytes_per_ms: u32,
) -> Shape {
    Shape {
        delay_ms,
        jitter_ms,
        loss_percent,
        repeat_percent,
        bytes_per_ms,
    }
}

/// Bad links of some directions.
#[derive(Debug, Default)]
pub(super) struct Links;

impl Nemesis for Links {
    fn begin(
        &mut self,
        cluster: &mut Cluster,
        rng: &mut Rng,
    ) -> Result<Option<Facts>, ClusterError> {
        let all = directions(&cluster.ids());
        let count = rng.usize(1..=all.len());
        let mut chosen = Vec::new();
        for (from, to) in rng.choose_multiple(all, count) {
            let (name, shape) = SHAPES[rng.usize(..SHAPES.len())];
            let shaped = cluster.ensemble().network().shape(from, to, shape);
            shaped.map_err(|missing| ClusterError::Change(missing.0))?;
            chosen.push(json!([from, to, name]));
        }
        Ok(Some(facts([("directions", json!(chosen))])))
    }

    fn end(&mut self, cluster: &mut Cluster) -> Result<Facts, ClusterError> {
        let ended = cluster.ensemble().network().end_shapes();
        let carried = ended.map_err(|missing| ClusterError::Change(missing.0))?;
        Ok(facts([
            ("packets", json!(carried.packets)),
            ("lost", json!(carried.lost)),
            ("repeated", json!(carried.repeated)),
            ("delayed", json!(carried.delayed)),
        ]))
    }
}

/// Returns each direction between two members.
fn directions(ids: &[u64]) -> Vec<(u64, u64)> {
    let pairs = ids
        .iter()
        .flat_map(|&from| ids.iter().map(move |&to| (from, to)));
    pairs.filter(|(from, to)| from != to).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_direction_is_separate_and_each_shape_changes_something() {
        let expected = [(1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)];
        assert_eq!(directions(&[1, 2, 3]), expected);
        for (at, (name, shape)) in SHAPES.iter().enumerate() {
            assert_ne!(*shape, Shape::default(), "{name}");
            assert!(
                SHAPES[..at].iter().all(|(_, other)| other != shape),
                "{name}"
            );
        }
    }
}
