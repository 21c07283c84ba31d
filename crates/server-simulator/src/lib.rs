//! Simulation of ensembles of whole servers on a simulated clock.
//!
//! The shipped servers, with their threads, real files and real sockets, run in one process. The
//! clock of all timers moves only while all tasks and threads wait. The seed draws the
//! configuration, the requests of the clients and the faults.
//!
//! * [`run`] runs one seed.
//! * [`LogLines`] reads the log lines, for two of the invariants.
//! * [`check_configurations`] only parses configurations, of which most are never started.

mod addresses;
mod attackers;
mod checks;
mod clients;
mod clocks;
mod configurations;
mod ensemble;
mod operators;
mod security;
mod settings;
mod world;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use frontend::clock;
use tempfile::TempDir;
use testkit::Random;
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep, timeout};

pub use crate::attackers::log_lines::LogLines;
use crate::ensemble::{Members, faults, membership};
use crate::operators::Operators;
use crate::settings::Settings;
pub use crate::world::Violation;
use crate::world::World;

/// Results of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of calls with answers.
    pub answered: usize,
    /// Number of calls without answers.
    pub unanswered: usize,
    /// Number of answers to operators.
    pub operator_answers: usize,
    /// Number of changes in feeds.
    pub delivered: usize,
    /// Number of other requests that were executed.
    pub others: usize,
    /// Number of changes of the member list.
    pub reconfigurations: usize,
    /// Simulated time.
    pub took: Duration,
    /// First violated invariant, if any.
    pub violation: Option<Violation>,
}

/// Time after which the run has failed, in simulated time.
const RUN_MAX: Duration = Duration::from_secs(48 * 3600);

/// Runs one seed.
pub fn run(seed: u64) -> Report {
    // The clock begins before the runtime's clock is stopped.
    let _ = clock::monotonic_ms();
    let runtime = Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .on_thread_park(clocks::before_time_passes)
        .build()
        .expect("a runtime");
    // As in the shipped binary, work that blocks panics on the threads of the runtime.
    blocking::arm();
    let blocked = blocking::on_workers();
    let mut report = runtime.block_on(simulate(seed));
    if blocking::on_workers() > blocked {
        report.violation.get_or_insert_with(|| Violation {
            invariant: "no work blocks a thread of the runtime",
            text: "the log output shows the panic".to_owned(),
        });
    }
    runtime.shutdown_timeout(Duration::from_secs(10));
    report
}

/// Parses random configurations of a seed. Returns the first violated invariant, if any.
pub fn check_configurations(seed: u64) -> Option<Violation> {
    let found = configurations::check(&mut Random::new(seed));
    found.map(|(invariant, text)| Violation { invariant, text })
}

async fn simulate(seed: u64) -> Report {
    let begun = Instant::now();
    let waking = tokio::spawn(clocks::wake_cores());
    let mut random = Random::new(seed);
    // Security has files, which are written now.
    let settings = blocking::permit(|| Settings::draw(&mut random));
    let sockets = attackers::sockets();
    let dir = directory().expect("a temporary directory");
    let world = start_all(settings, &dir).await;
    let is_secured = world.settings.security.is_some();
    let mut operators = (!is_secured).then(|| operators::begin(&world, &mut random));
    let done = async {
        let operator = Random::new(random.any());
        let operating = tokio::spawn(membership::operate(world.clone(), operator));
        let of_attackers = Random::new(random.any());
        let attackers = tokio::spawn(attackers::run(world.clone(), of_attackers));
        let of_lines = Random::new(random.any());
        tokio::spawn(faults::disturb_lines(world.clone(), of_lines));
        let faults = tokio::spawn(faults::disturb(world.clone(), Random::new(random.any())));
        for number in 0..world.settings.clients {
            let random = Random::new(random.any());
            tokio::spawn(clients::run(world.clone(), number, random));
        }
        while !world.is_over() {
            sleep(Duration::from_millis(100)).await;
        }
        let _ = faults.await;
        if let Some(operators) = &mut operators {
            operators.ended().await;
        }
        let _ = operating.await;
        let _ = attackers.await;
        if world.found().is_none() {
            at_end(&world, operators.as_mut()).await;
        }
    };
    if timeout(RUN_MAX, done).await.is_err() {
        world.report(checks::LIVENESS, "the run does not end");
    }
    let all = world.settings.servers().collect::<Vec<_>>();
    for member in all {
        world.members.lock().await.stop(member, false).await;
    }
    let delivered = operators.map_or(0, |operators| operators.delivered());
    if is_secured {
        attackers::have_left(&world, sockets).await;
        attackers::check_lines(&world);
    }
    waking.abort();
    let calls = world.calls.iter().flat_map(|calls| calls.lock().clone());
    let (answered, unanswered): (Vec<_>, Vec<_>) = calls.partition(|call| call.answer.is_some());
    Report {
        answered: answered.len(),
        unanswered: unanswered.len(),
        operator_answers: world.operator_answers.load(Ordering::Relaxed),
        delivered,
        others: world.done.load(Ordering::Relaxed),
        reconfigurations: world.reconfigurations.load(Ordering::Relaxed),
        took: begun.elapsed(),
        violation: world.found(),
    }
}

/// Starts all members.
async fn start_all(settings: Settings, dir: &TempDir) -> Arc<World> {
    let mut members = Members::new(settings.clone(), dir.path().to_owned());
    let mut failed = None;
    for member in settings.members() {
        if let Err(error) = members.start(member).await {
            failed = Some(error);
        }
    }
    let world = Arc::new(World::new(settings, members));
    if let Some(error) = failed {
        world.report("a member starts without files", &error);
    }
    world
}

/// Creates a directory for all files, in memory if possible. Syncs of a disk take real time, in which
/// no simulated time passes.
fn directory() -> io::Result<TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}

/// Ends all faults, and checks the members and the answers.
async fn at_end(world: &World, operators: Option<&mut Operators>) {
    if !faults::repair(world).await {
        return;
    }
    let Some(members) = checks::members(world).await else {
        return world.report(checks::LIVENESS, "no server returns the member list");
    };
    if !checks::serves(world, &members).await {
        let services = world.members.lock().await.services(&members);
        return world.report(checks::LIVENESS, &services);
    }
    *world.last_members.lock() = Some(members.clone());
    checks::are_linearizable(world);
    let Some(operators) = operators else {
        checks::are_equal(world, &members).await;
        return attackers::vault::super_user_reads(world).await;
    };
    checks::leftovers(world).await;
    checks::are_equal(world, &members).await;
    operators.at_end(world).await;
    operators.restore(world).await;
}
