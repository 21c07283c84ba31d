//! Links between members that are cut. Clients still reach every member.

use fastrand::Rng;
use serde_json::json;

use super::{Facts, Nemesis, facts};
use crate::cluster::{Cluster, ClusterError};

/// Cuts of one of several forms.
#[derive(Debug, Default)]
pub(super) struct Partition;

/// Pairs of members. Messages from the first do not reach the second.
type Cuts = Vec<(u64, u64)>;

impl Nemesis for Partition {
    fn begin(
        &mut self,
        cluster: &mut Cluster,
        rng: &mut Rng,
    ) -> Result<Option<Facts>, ClusterError> {
        let mut ids = cluster.ids();
        rng.shuffle(&mut ids);
        let leader = cluster.leader();
        let (form, cuts) = match (rng.u8(..6), leader) {
            (0, _) => ("halves", sides(&ids, ids.len() / 2)),
            (1, _) if ids.len() > 3 => ("bridge", bridge(&ids)),
            (2, _) if ids.len() > 3 => ("ring", ring(&ids)),
            (3, _) => ("one-way", one_way(&ids, rng)),
            (_, Some(leader)) => {
                let at = ids.iter().position(|&id| id == leader);
                ids.swap(0, at.unwrap_or(0));
                // Alone, or with followers that are not sufficient for a quorum.
                let minority = rng.usize(1..=(ids.len() - 1) / 2);
                ("leader", sides(&ids, minority))
            }
            _ => ("one", sides(&ids, 1)),
        };
        for &(from, to) in &cuts {
            cluster.ensemble().network().cut_one_way(from, to);
        }
        Ok(Some(facts([
            ("form", json!(form)),
            ("members", json!(ids)),
            ("cuts", json!(cuts)),
        ])))
    }

    fn end(&mut self, cluster: &mut Cluster) -> Result<Facts, ClusterError> {
        cluster.ensemble().network().heal();
        Ok(Facts::new())
    }
}

/// Separates the first `first` members from the others.
fn sides(ids: &[u64], first: usize) -> Cuts {
    let (left, right) = ids.split_at(first.min(ids.len()));
    both_ways(left, right)
}

fn both_ways(left: &[u64], right: &[u64]) -> Cuts {
    let pairs = left
        .iter()
        .flat_map(|&one| right.iter().map(move |&other| (one, other)));
    pairs
        .flat_map(|(one, other)| [(one, other), (other, one)])
        .collect()
}

/// Returns two halves, and one member that reaches both.
fn bridge(ids: &[u64]) -> Cuts {
    let others = ids.get(1..).unwrap_or_default();
    sides(others, others.len() / 2)
}

/// Each member reaches only its two neighbours.
fn ring(ids: &[u64]) -> Cuts {
    let count = ids.len();
    let apart = |&(one, other): &(usize, usize)| {
        let distance = one.abs_diff(other);
        distance > 1 && distance < count - 1
    };
    let pairs = (0..count).flat_map(|one| (0..count).map(move |other| (one, other)));
    pairs
        .filter(apart)
        .map(|(one, other)| (ids[one], ids[other]))
        .collect()
}

/// Returns the cuts of one member that no other receives from, or that receives from no other.
fn one_way(ids: &[u64], rng: &mut Rng) -> Cuts {
    let Some((&one, others)) = ids.split_first() else {
        return Cuts::new();
    };
    let is_mute = rng.bool();
    let pair = |&other: &u64| if is_mute { (one, other) } else { (other, one) };
    others.iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(ids: &[u64], cuts: &Cuts) -> Vec<(u64, u64)> {
        let pairs = ids
            .iter()
            .flat_map(|&one| ids.iter().map(move |&other| (one, other)));
        let mut heard: Vec<_> = pairs
            .filter(|(one, other)| one < other && !cuts.contains(&(*one, *other)))
            .collect();
        heard.sort_unstable();
        heard
    }

    #[test]
    fn a_bridge_sees_both_halves_which_do_not_see_each_other() {
        let ids = [1, 2, 3, 4, 5];
        let cuts = bridge(&ids);
        let expected = [(1, 2), (1, 3), (1, 4), (1, 5), (2, 3), (4, 5)];
        assert_eq!(heard(&ids, &cuts), expected);
    }

    #[test]
    fn in_a_ring_everyone_sees_two() {
        let ids = [1, 2, 3, 4, 5];
        let cuts = ring(&ids);
        assert_eq!(heard(&ids, &cuts), [(1, 2), (1, 5), (2, 3), (3, 4), (4, 5)]);
        assert_eq!(cuts.len(), 10, "both ways");
    }

    #[test]
    fn one_way_leaves_the_other_way() {
        let cuts = one_way(&[1, 2, 3], &mut Rng::with_seed(7));
        let back: Vec<_> = cuts.iter().map(|&(from, to)| (to, from)).collect();
        assert_eq!(cuts.len(), 2);
        assert!(cuts.iter().all(|cut| !back.contains(cut)), "{cuts:?}");
    }
}
