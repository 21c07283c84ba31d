//! Seeds that were never run before. All invariants must hold with each of them.
//!
//! `ZOARIUM_SIMULATOR_FROM` repeats the seeds of an earlier run, and `ZOARIUM_SIMULATOR_SEEDS` runs
//! more. With `RUST_LOG=debug`, the log lines of the server are printed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use frontend_simulator::{Report, run};
use parking_lot::Mutex;
use testkit::seeds::{fresh, number};

const SEEDS: u64 = 30;
/// Number of seeds from which on every kind of event must occur.
const ENOUGH: usize = 20;
/// Real time after which a seed never ends. It takes about a tenth of a second otherwise.
const ENDLESS: Duration = Duration::from_secs(120);

/// Runs all seeds. Every thread takes the next seed until none remains.
fn run_all(from: u64, count: u64) -> Vec<(u64, Report)> {
    let next = AtomicU64::new(from);
    let running = Mutex::new(BTreeMap::new());
    let work = || {
        let mut reports = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= from + count {
                return reports;
            }
            running.lock().insert(seed, Instant::now());
            reports.push((seed, run(seed)));
            running.lock().remove(&seed);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (is_done, done) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(|| watch(&running, done));
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        let reports = joined
            .flat_map(|reports| reports.expect("a worker"))
            .collect();
        drop(is_done);
        reports
    })
}

/// Ends the process if a task of a seed never waits. Nothing within the simulation can notice this.
fn watch(running: &Mutex<BTreeMap<u64, Instant>>, done: mpsc::Receiver<()>) {
    while done.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
        let running = running.lock();
        let mut endless = running
            .iter()
            .filter(|(_, since)| since.elapsed() > ENDLESS);
        if let Some((seed, _)) = endless.next() {
            eprintln!("a task never waits\n  {}", command(*seed));
            std::process::exit(1);
        }
    }
}

fn command(seed: u64) -> String {
    format!(
        "ZOARIUM_SIMULATOR_FROM={seed} ZOARIUM_SIMULATOR_SEEDS=1 \
         cargo test -p zoarium-frontend-simulator"
    )
}

#[test]
fn every_invariant_holds() {
    if std::env::var_os("RUST_LOG").is_some() {
        let lines = tracing_subscriber::fmt().without_time();
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        lines.with_env_filter(filter).init();
    }
    let from = number("ZOARIUM_SIMULATOR_FROM").unwrap_or_else(fresh);
    let count = number("ZOARIUM_SIMULATOR_SEEDS").unwrap_or(SEEDS);
    println!("{count} seeds from {from}");
    let reports = run_all(from, count);
    let failed = reports.iter().filter_map(|(seed, report)| {
        let violation = report.violation.as_ref()?;
        let (name, text) = (violation.invariant, &violation.text);
        Some(format!("{name}: {text}\n  {}", command(*seed)))
    });
    let failed: Vec<String> = failed.collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    let sum =
        |of: fn(&Report) -> usize| reports.iter().map(|(_, report)| of(report)).sum::<usize>();
    let (replies, long) = (sum(|of| of.replies), sum(|of| of.long_replies));
    let (events, sessions) = (sum(|of| of.events), sum(|of| of.sessions));
    let (stuck, words, lost) = (sum(|of| of.stuck), sum(|of| of.words), sum(|of| of.lost));
    println!(
        "{replies} replies, {long} long, {events} events, {sessions} sessions, {stuck} stuck, \
         {words} words, {lost} lost"
    );
    // A run without events satisfies every invariant.
    let seeds = reports.len();
    if seeds >= ENOUGH {
        assert!(replies > 20 * seeds && long > seeds && sessions > 2 * seeds);
        assert!(events > 0 && stuck > 0 && words > 0);
    }
}
