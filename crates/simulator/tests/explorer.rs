//! All schedules of three servers within small bounds. `tests/tests/mutants.rs` shows that the explorer
//! finds a snapshot that keeps an uncommitted write.

use simulator::{Bounds, Explored, Explorer};

/// No event except messages and disks.
const NOTHING: Bounds = Bounds {
    transactions: 0,
    crashes: 0,
    timeouts: 0,
    elections: 0,
    snapshots: 0,
};

fn complete(mut search: Explorer) -> Explored {
    search.explore(u64::MAX);
    assert!(search.is_complete());
    let explored = search.explored().clone();
    assert_eq!(explored.violation, None);
    assert!((explored.share - 1.0).abs() < 1e-9, "{explored:?}");
    explored
}

#[test]
fn every_schedule_with_a_crash_and_an_election_holds_the_invariants() {
    let explored = complete(Explorer::new(Bounds {
        crashes: 1,
        elections: 1,
        ..NOTHING
    }));
    assert!(explored.states > 1000, "{explored:?}");
}

#[test]
fn the_reduction_loses_no_state() {
    let proposal = Bounds {
        transactions: 1,
        ..NOTHING
    };
    let election = Bounds {
        timeouts: 1,
        elections: 1,
        ..NOTHING
    };
    for bounds in [proposal, election] {
        let all = complete(Explorer::unreduced(bounds));
        let reduced = complete(Explorer::new(bounds));
        assert_eq!(reduced.states, all.states, "{bounds:?}");
        assert!(reduced.choices < all.choices, "{reduced:?} {all:?}");
    }
}

#[test]
fn an_interrupted_search_continues() {
    let bounds = Bounds {
        crashes: 1,
        snapshots: 1,
        ..NOTHING
    };
    let whole = complete(Explorer::new(bounds));
    let mut first = Explorer::new(bounds);
    first.explore(whole.schedules / 2);
    assert!(!first.is_complete());
    let share = first.explored().share;
    assert!(0.0 < share && share < 1.0, "{share}");
    let text = first.to_text();
    let next = Explorer::of_text(&text).expect("the text is complete");
    assert_eq!(complete(next), whole);
    assert!(Explorer::of_text(&text[..text.len() / 2]).is_none());
}
