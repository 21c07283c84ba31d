//! Seeds of whole servers. All invariants must hold with each of them.
//!
//! `ZOARIUM_SERVER_SEEDS` runs this number of fresh seeds, and `ZOARIUM_SIMULATOR_FROM` repeats the
//! seeds of an earlier run. Without both, the first seeds run. With `RUST_LOG=debug`, the log lines
//! of the servers are printed.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use server_simulator::{LogLines, Report, check_configurations, run};
use testkit::seeds::{fresh, number};
use tracing_subscriber::filter::{EnvFilter, LevelFilter};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// Number of seeds. Each takes several seconds.
const SEEDS: u64 = 3;
/// Real time after which a seed never ends. It takes some seconds otherwise.
const ENDLESS: Duration = Duration::from_secs(300);

/// Returns the seeds of this run.
fn seeds() -> std::ops::Range<u64> {
    let count = number("ZOARIUM_SERVER_SEEDS");
    let from = match number("ZOARIUM_SIMULATOR_FROM") {
        Some(from) => from,
        None if count.is_some() => fresh(),
        None => 1,
    };
    let count = count.unwrap_or(SEEDS);
    println!("{count} seeds from {from}");
    from..from + count
}

fn command(seed: u64) -> String {
    format!(
        "ZOARIUM_SIMULATOR_FROM={seed} ZOARIUM_SERVER_SEEDS=1 \
         cargo test -p zoarium-server-simulator"
    )
}

/// Runs a seed. Ends the process if a task or a thread never waits. Nothing within the simulation
/// can notice this.
fn run_watched(seed: u64) -> Report {
    let (is_done, done) = mpsc::channel::<()>();
    let watching = std::thread::spawn(move || {
        if done.recv_timeout(ENDLESS) == Err(RecvTimeoutError::Timeout) {
            eprintln!("a task or a thread never waits\n  {}", command(seed));
            std::process::exit(1);
        }
    });
    let report = run(seed);
    drop(is_done);
    watching.join().expect("the watch");
    report
}

#[test]
fn every_invariant_holds() {
    let printed = std::env::var_os("RUST_LOG").map(|_| {
        let filter = EnvFilter::from_default_env();
        tracing_subscriber::fmt::layer().with_filter(filter)
    });
    let read = LogLines.with_filter(LevelFilter::DEBUG);
    let layers = tracing_subscriber::registry().with(printed);
    layers.with(read).init();
    let mut failed = Vec::new();
    for seed in seeds() {
        let report = run_watched(seed);
        println!("{seed}: {report:?}");
        if let Some(violation) = &report.violation {
            let (name, text) = (violation.invariant, &violation.text);
            failed.push(format!("{name}: {text}\n  {}", command(seed)));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn every_configuration_has_one_outcome() {
    for seed in seeds() {
        let violation = check_configurations(seed);
        assert_eq!(violation, None, "{}", command(seed));
    }
}
