//! An application test: two instances of a job elect a leader, which writes to a store outside of
//! ZooKeeper. Faults hit the instances and the servers.
//!
//! `ZOARIUM_SIMULATION_SEEDS` runs more seeds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use client::Client;
use parking_lot::Mutex;
use recipes::{LeaderSelector, Leadership};
use tokio::time::sleep;
use zoarium_simulation::{Environment, Fault, Plan, Simulation, SimulationError, Target};

const INSTANCES: usize = 2;
/// Time at which all faults are over.
const CALM: Duration = Duration::from_secs(10);
/// Seeds of the gate. One in ten runs twice.
const SEEDS: u64 = 100;

/// A store outside of ZooKeeper.
#[derive(Debug, Default)]
struct Store {
    /// Whether the store refuses a token that is less than the greatest one.
    is_fenced: bool,
    /// Tokens of the writes.
    rows: Vec<i64>,
    refused: usize,
}

impl Store {
    fn write(&mut self, token: i64) {
        let greatest = self.rows.iter().max();
        if self.is_fenced && greatest.is_some_and(|greatest| token < *greatest) {
            self.refused += 1;
        } else {
            self.rows.push(token);
        }
    }
}

async fn write(store: Arc<Mutex<Store>>, token: i64) {
    // The way to the store.
    sleep(Duration::from_millis(50)).await;
    store.lock().write(token);
}

/// Leads, writes a few rows, and then lets others lead.
async fn job(environment: Environment, store: Arc<Mutex<Store>>) {
    let options = environment.options().with_renewal();
    let options = options.with_session_timeout(Duration::from_secs(1));
    let options = options.with_wait(Duration::from_secs(600));
    let client = Client::connect(options).await.expect("a connection");
    let selector = LeaderSelector::new(&client, "/job").expect("a valid path");
    loop {
        let write_rows = |leadership: Leadership| {
            let store = Arc::clone(&store);
            async move {
                for _ in 0..5 {
                    let write = write(Arc::clone(&store), leadership.token().0);
                    // The client of a store has its own task, which continues after this future is
                    // dropped.
                    let _ = tokio::spawn(write).await;
                }
            }
        };
        // The next attempt follows, also after a lost session.
        let _ = selector.lead(write_rows).await;
        sleep(Duration::from_millis(20)).await;
    }
}

/// Results of a run.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    rows: Vec<i64>,
    refused: usize,
    fingerprint: u64,
}

impl Outcome {
    /// Returns whether a leader wrote after its successor.
    fn has_stale_row(&self) -> bool {
        self.rows.windows(2).any(|rows| rows[1] < rows[0])
    }
}

fn run(seed: u64, plan: &Plan, is_fenced: bool) -> Result<Outcome, SimulationError> {
    let store = Arc::new(Mutex::new(Store {
        is_fenced,
        ..Store::default()
    }));
    let mut simulation = Simulation::new(seed, plan);
    for _ in 0..INSTANCES {
        let store = Arc::clone(&store);
        simulation.start(move |environment| job(environment, Arc::clone(&store)));
    }
    simulation.run_for(CALM)?;
    let before = store.lock().rows.len();
    let goes_on = |_: &Simulation| store.lock().rows.len() > before + 5;
    let goes_on = simulation.run_until(Duration::from_secs(20), goes_on)?;
    assert!(goes_on, "seed {seed}: no leader writes after the faults");
    let store = store.lock();
    Ok(Outcome {
        rows: store.rows.clone(),
        refused: store.refused,
        fingerprint: simulation.fingerprint(),
    })
}

fn drawn(seed: u64) -> Plan {
    Plan::drawn(seed, INSTANCES, CALM)
}

fn seeds() -> (u64, bool) {
    let wanted = std::env::var("ZOARIUM_SIMULATION_SEEDS").ok();
    let wanted = wanted.and_then(|seeds| seeds.parse().ok());
    (wanted.unwrap_or(SEEDS), wanted.is_some())
}

/// Runs these seeds on every processor. Returns their outcomes in the order of the seeds.
fn run_all(seeds: &[u64]) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mine = std::iter::from_fn(|| seeds.get(next.fetch_add(1, Ordering::Relaxed)));
        let ran = mine.map(|seed| (*seed, run(*seed, &drawn(*seed), true).expect("a run")));
        ran.collect::<Vec<_>>()
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let done: BTreeMap<u64, Outcome> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined.flat_map(|done| done.expect("a worker")).collect()
    });
    done.into_values().collect()
}

#[test]
fn a_fenced_store_has_no_stale_row_and_each_seed_repeats_itself() {
    let (seeds, repeats_all) = seeds();
    let all: Vec<u64> = (0..seeds).collect();
    let begun = Instant::now();
    let outcomes = run_all(&all);
    let took = begun.elapsed();
    for (seed, outcome) in all.iter().zip(&outcomes) {
        assert!(!outcome.has_stale_row(), "seed {seed}: {:?}", drawn(*seed));
    }
    let rows: usize = outcomes.iter().map(|outcome| outcome.rows.len()).sum();
    let refused: usize = outcomes.iter().map(|outcome| outcome.refused).sum();
    println!("{seeds} seeds in {took:.1?}: {rows} rows, {refused} refused");
    assert!(rows > 20 * all.len() && refused > 0);
    let repeated: Vec<u64> = all
        .into_iter()
        .filter(|seed| repeats_all || seed.is_multiple_of(10))
        .collect();
    for (seed, again) in repeated.iter().zip(run_all(&repeated)) {
        let index = usize::try_from(*seed).expect("a few seeds");
        assert_eq!(again, outcomes[index], "seed {seed}");
    }
}

#[test]
fn a_store_without_fencing_gets_a_stale_row_and_the_seed_repeats_it() {
    let found = (0..100).find_map(|seed| {
        let outcome = run(seed, &drawn(seed), false).expect("a run");
        outcome.has_stale_row().then_some((seed, outcome))
    });
    let (seed, outcome) = found.expect("a stale row");
    println!("seed {seed} of {} rows", outcome.rows.len());
    assert_eq!(run(seed, &drawn(seed), false).expect("a run"), outcome);
}

#[test]
fn the_other_instance_leads_while_the_leader_pauses_for_a_minute() {
    let second = Duration::from_secs(1);
    let fault = |number: u64| {
        let target = Target::Application(usize::try_from(number % 2).expect("0 or 1"));
        let lasts = 60 * second;
        match number / 2 {
            0 => Fault::Pause { target, lasts },
            1 => Fault::Partition { target, lasts },
            _ => Fault::Restart { target, lasts },
        }
    };
    for number in 0..6 {
        let plan = Plan::new().with(CALM / 2, fault(number));
        let outcome = run(number, &plan, true).expect("a run");
        assert!(outcome.rows.len() > 50, "{plan:?}: {outcome:?}");
    }
}

#[test]
fn an_expired_session_is_renewed() {
    let ids = Arc::new(Mutex::new(Vec::new()));
    let application = 0;
    let plan = Plan::new().with(Duration::from_secs(5), Fault::Expiry { application });
    let mut simulation = Simulation::new(1, &plan);
    let seen = Arc::clone(&ids);
    simulation.start(move |environment| {
        let seen = Arc::clone(&seen);
        async move {
            let options = environment.options().with_renewal();
            let options = options.with_wait(Duration::from_secs(600));
            let client = Client::connect(options).await.expect("a connection");
            let mut state = client.state();
            loop {
                seen.lock()
                    .push(format!("{:?}", *state.borrow_and_update()));
                if state.changed().await.is_err() {
                    return;
                }
            }
        }
    });
    simulation.run_for(Duration::from_secs(20)).expect("a run");
    let ids = ids.lock();
    assert!(ids.iter().any(|state| state.contains("Expired")), "{ids:?}");
    assert!(
        ids.last().is_some_and(|state| state.contains("Connected")),
        "{ids:?}"
    );
}

#[test]
fn a_plan_with_an_unknown_target_is_an_error() {
    let target = Target::Server(3);
    let lasts = Duration::from_secs(1);
    for fault in [
        Fault::Pause { target, lasts },
        Fault::Partition { target, lasts },
        Fault::Restart { target, lasts },
        Fault::PowerFailure { server: 3, lasts },
        Fault::Expiry { application: 0 },
    ] {
        let plan = Plan::new().with(Duration::from_secs(1), fault);
        let ran = Simulation::new(1, &plan).run_for(Duration::from_secs(2));
        assert!(
            matches!(ran, Err(SimulationError::NoTarget(_))),
            "{fault:?}"
        );
    }
}

#[test]
#[should_panic(expected = "the job is wrong")]
fn the_panic_of_an_application_ends_the_test() {
    let mut simulation = Simulation::new(1, &Plan::new());
    simulation.start(|_| async { panic!("the job is wrong") });
    let _ = simulation.run_for(Duration::from_secs(1));
}
