//! The members of an ensemble that can have a leader.

use std::collections::BTreeSet;

/// Returns the members that must be able to serve, which are running members that reach more than
/// half of the participants.
pub(super) fn able(
    participants: u32,
    running: &BTreeSet<u32>,
    apart: &BTreeSet<u32>,
) -> BTreeSet<u32> {
    let sides = [true, false].map(|is_apart| -> BTreeSet<u32> {
        let side = running.iter().copied();
        side.filter(|id| apart.contains(id) == is_apart).collect()
    });
    let has_majority = |side: &BTreeSet<u32>| {
        let voters = side.iter().filter(|id| **id <= participants).count();
        2 * voters > participants as usize
    };
    sides.into_iter().find(has_majority).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn able_of(participants: u32, running: &[u32], apart: &[u32]) -> Vec<u32> {
        let set = |ids: &[u32]| ids.iter().copied().collect();
        let able = able(participants, &set(running), &set(apart));
        able.into_iter().collect()
    }

    #[test]
    fn more_than_half_of_the_participants_are_needed_on_one_side() {
        assert_eq!(able_of(3, &[1, 2, 3], &[]), [1, 2, 3]);
        assert_eq!(able_of(3, &[1, 2, 3], &[2]), [1, 3]);
        assert_eq!(able_of(3, &[1, 2, 3], &[2, 3]), [2, 3]);
        assert_eq!(able_of(3, &[1, 2], &[2]), [0; 0]);
        assert_eq!(able_of(4, &[1, 2], &[]), [0; 0]);
        // There are three participants, so 4 and 5 are observers.
        assert_eq!(able_of(3, &[1, 4, 5], &[]), [0; 0]);
        assert_eq!(able_of(3, &[1, 2, 4], &[4]), [1, 2]);
        assert_eq!(able_of(1, &[1], &[]), [1]);
    }
}
