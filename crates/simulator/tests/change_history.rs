//! Change histories that the shipped index writes to real files.
//!
//! `ZOARIUM_HISTORY_SEEDS` runs this number of fresh seeds. `ZOARIUM_SIMULATOR_FROM` repeats the
//! seeds of an earlier run. Without both, the first seeds run.

use simulator::{ComparedAnswers, FileCounts, Trace, compare_secrets, run_with_files};
use testkit::seeds::{fresh, number};

/// Number of seeds. They open and sync real files often, so they take longer than other seeds.
const SEEDS: u64 = 1;
/// Number of seeds in which all events must have occurred.
const MANY: u64 = 20;

/// Returns the seeds of this run.
fn seeds() -> std::ops::Range<u64> {
    let count = number("ZOARIUM_HISTORY_SEEDS");
    let from = match number("ZOARIUM_SIMULATOR_FROM") {
        Some(from) => from,
        None if count.is_some() => fresh(),
        None => 1,
    };
    let count = count.unwrap_or(SEEDS);
    println!("{count} seeds from {from}");
    from..from + count
}

/// Returns the command that repeats a seed.
fn repeat_command(seed: u64) -> String {
    format!(
        "ZOARIUM_SIMULATOR_FROM={seed} ZOARIUM_HISTORY_SEEDS=1 \
         cargo test -p zoarium-simulator --test change_history"
    )
}

#[test]
fn histories_in_files_match_the_committed_transactions() {
    let (seeds, mut sum) = (seeds(), FileCounts::default());
    for seed in seeds.clone() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (report, counts) = run_with_files(seed, dir.path(), Trace::Off);
        if let Some(violation) = report.violation {
            let (invariant, text) = (violation.invariant, violation.text);
            panic!("{invariant}: {text}\n  {}", repeat_command(seed));
        }
        sum += counts;
    }
    println!("{sum:?}");
    if seeds.end - seeds.start >= MANY {
        let FileCounts {
            changes,
            holes,
            dropped,
            opened,
            cut,
            set_aside,
            ..
        } = sum;
        let least = [changes, holes, dropped, opened, cut, set_aside]
            .into_iter()
            .min();
        assert!(least > Some(0), "{sum:?}");
    }
}

#[test]
fn no_answer_depends_on_data_that_its_viewer_may_not_read() {
    let (seeds, mut sum) = (seeds(), ComparedAnswers::default());
    for seed in seeds {
        let dir = tempfile::tempdir().expect("a temporary directory");
        match compare_secrets(seed, dir.path()) {
            Ok(compared) => sum += compared,
            Err(text) => panic!("{text}\n  {}", repeat_command(seed)),
        }
    }
    println!("{sum:?}");
    assert!(
        sum.shown > 0 && sum.hidden > 0 && sum.pages > sum.answers,
        "{sum:?}"
    );
}
