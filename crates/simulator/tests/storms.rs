//! Storms with points, and the search that mutates them.

use std::path::Path;
use std::process::Command;

use simulator::{Point, Search, Storm, StormError, Trace, run, run_covered, run_storm};

const SIMULATOR: &str = env!("CARGO_BIN_EXE_simulator");

/// A time in the storm of each seed below.
const AT: i64 = 3_000_000;

#[test]
fn the_text_of_a_storm_can_be_parsed() {
    let points = [(AT, 9), (AT + 1, 0)].map(|(at, seed)| Point { at, seed });
    let storm = Storm {
        seed: 4711,
        points: points.into(),
    };
    assert_eq!(storm.to_string(), "4711@3000000:9@3000001:0");
    assert_eq!(storm.to_string().parse(), Ok(storm));
    assert_eq!("7".parse(), Ok(Storm::of_seed(7)));
    assert_eq!("7@5".parse::<Storm>(), Err(StormError::Colon));
    for text in ["7@0:1", "7@5:1@5:2"] {
        assert_eq!(text.parse::<Storm>(), Err(StormError::Order), "{text}");
    }
    for text in ["", "x", "7@:1", "7@5:", "7@5:-1"] {
        let error = text.parse::<Storm>();
        assert!(matches!(error, Err(StormError::Number(_))), "{text}");
    }
}

/// Returns the stable trace of a storm.
fn trace(storm: &str) -> String {
    let output = Command::new(SIMULATOR)
        .args(["--trace", "stable", "--seed", storm])
        .output()
        .expect("run the simulator");
    assert!(output.status.success(), "{storm}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn a_point_keeps_the_past_and_changes_the_future() {
    let (plain, mutated) = (trace("7"), trace("7@3000000:9"));
    let mut pairs = plain.lines().zip(mutated.lines());
    let (step, _) = pairs.find(|(one, other)| one != other).expect("a change");
    let (at, _) = step.split_once(' ').expect("a time");
    let at: i64 = at.parse().expect("a number");
    assert!((AT..AT + 100_000).contains(&at), "{at}");
    assert_eq!(mutated, trace("7@3000000:9"));
    assert!(mutated != trace("7@3000000:10"));
}

#[test]
fn coverage_does_not_change_a_run() {
    for seed in [7, 8] {
        let (report, reached) = run_covered(&Storm::of_seed(seed));
        assert_eq!(report, run(seed, Trace::Off));
        assert!(reached.len() > 20, "{reached:?}");
    }
}

#[test]
fn a_search_keeps_and_mutates_storms_and_repeats_itself() {
    let searched = || {
        let mut search = Search::new(7);
        let mut storms = Vec::new();
        for _ in 0..12 {
            let storm = search.next_storm();
            let (report, reached) = run_covered(&storm);
            assert_eq!(report.violation, None, "{storm}");
            search.add(storm.clone(), &reached);
            storms.push(storm);
        }
        (storms, search)
    };
    let (storms, search) = searched();
    assert_eq!(storms, searched().0);
    assert_eq!(storms[0], Storm::of_seed(7));
    assert!(storms.iter().any(|storm| !storm.points.is_empty()));
    assert!(!search.corpus().is_empty());
    assert!(search.pairs().count() > 50, "{:?}", search.pairs().count());
}

#[test]
fn a_mutated_storm_reaches_the_pair_that_it_was_kept_for() {
    let storm = Storm::of_seed(7);
    let (_, reached) = run_covered(&storm);
    let (pair, at) = reached.iter().max_by_key(|(_, at)| **at).expect("a pair");
    let mutated = storm.mutated(*at, 3);
    let (_, again) = run_covered(&mutated);
    assert_eq!(again.get(pair), Some(at));
    assert_eq!(
        run_storm(&mutated, Trace::Off),
        run_storm(&mutated, Trace::Off)
    );
}

#[test]
fn a_corpus_is_saved_and_read_again() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("corpus");
    // It may be left from another run.
    drop(std::fs::remove_file(&file));
    let guided = |storms: &str| {
        let output = Command::new(SIMULATOR)
            .args(["--guided", "--from", "7", "--storms", storms, "--corpus"])
            .arg(&file)
            .output()
            .expect("run the simulator");
        assert!(output.status.success(), "{output:?}");
        std::fs::read_to_string(&file).expect("a corpus")
    };
    let saved = guided("4");
    let storms: Result<Vec<Storm>, StormError> = saved.lines().map(str::parse).collect();
    assert!(storms.is_ok_and(|storms| !storms.is_empty()), "{saved}");
    // All storms of the file run again, and are kept again.
    let again = guided("0");
    assert_eq!(saved, again);
}
