//! Random schedules of the threads of a model.
//!
//! The shipped types use the locks and atomics of `executor::sync`. In a model, `shuttle` decides
//! at each of their operations which thread continues. A model creates its threads with
//! [`thread`], and its tasks with [`future`]. Signals of tokio may be used: each of their
//! operations is one step. A lock that is not of `executor::sync` must not be held during an
//! operation of a lock or atomic that is.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use executor::sync::{Scheduler, scheduled_by};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::atomic::AtomicBool;
use shuttle::{Config, MaxSteps, Runner};
pub use shuttle::{future, rand, thread};

/// Number of schedules of each model. The variable [`SCHEDULES`] replaces it.
const SCHEDULES_USUAL: usize = 3_000;

/// Environment variable with the number of schedules of each model.
const SCHEDULES: &str = "ZOARIUM_SHUTTLE_SCHEDULES";

/// Number of steps after which a thread that waits is reported to wait forever.
const STEPS_MAX: usize = 50_000;

/// Number of preemptions at random places, in half of the schedules.
const PREEMPTIONS: usize = 3;

/// Runs a model under random schedules. One half of them is entirely random, and the other half has
/// few preemptions.
pub fn check(model: impl Fn() + Send + Sync + 'static) {
    let set = std::env::var(SCHEDULES).ok();
    let schedules = set.and_then(|set| set.parse().ok());
    check_schedules(schedules.unwrap_or(SCHEDULES_USUAL), model);
}

/// Checks that a broken model fails under one of the usual number of schedules.
pub fn check_fails(name: &str, model: impl Fn() + Send + Sync + 'static) {
    let checked = std::thread::spawn(move || check_schedules(SCHEDULES_USUAL, model));
    assert!(checked.join().is_err(), "{name} is not found");
}

fn check_schedules(schedules: usize, model: impl Fn() + Send + Sync + 'static) {
    let (model, half) = (Arc::new(model), schedules.div_ceil(2));
    let mut config = Config::new();
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.silence_warnings = true;
    let second = model.clone();
    scheduled_by(Scheduler { point, wait }, || {
        let random = Runner::new(RandomScheduler::new(half), config.clone());
        random.run(move || model());
        let few_preemptions = Runner::new(PctScheduler::new(PREEMPTIONS, half), config);
        few_preemptions.run(move || second());
    });
}

/// A step of `shuttle` that changes nothing.
fn point() {
    AtomicBool::new(false).load(Ordering::SeqCst);
}

fn wait() {
    thread::yield_now();
}
