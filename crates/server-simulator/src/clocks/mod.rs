//! The simulated clock of the cores, which wait outside the runtime.

mod threads;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use frontend::clock;
use server::WaitingThread;
use tokio::sync::Notify;
use tokio::time::sleep;

use self::threads::OtherThreads;

/// Number of a core in this thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CoreNumber(u64);

/// Cores of the running servers.
#[derive(Default)]
struct Cores {
    threads: OtherThreads,
    running: BTreeMap<CoreNumber, Arc<dyn WaitingThread>>,
    next: u64,
    /// Time at which the task wakes cores.
    armed_ms: Option<i64>,
    changed: Arc<Notify>,
}

thread_local! {
    static CORES: RefCell<Cores> = RefCell::default();
}

pub(crate) fn add(core: Arc<dyn WaitingThread>) -> CoreNumber {
    CORES.with_borrow_mut(|cores| {
        let number = CoreNumber(cores.next);
        cores.next += 1;
        cores.running.insert(number, core);
        number
    })
}

pub(crate) fn remove(number: CoreNumber) {
    CORES.with_borrow_mut(|cores| cores.running.remove(&number));
}

/// Waits until all other threads sleep. The runtime calls this function when all its tasks wait,
/// directly before time passes. If a core has an earlier deadline than the task that wakes it, the
/// task runs first.
pub(crate) fn before_time_passes() {
    CORES.with_borrow_mut(|cores| {
        cores.threads.wait_until_asleep();
        let next_ms = cores.next_ms();
        if next_ms != cores.armed_ms {
            cores.armed_ms = next_ms;
            cores.changed.notify_one();
        }
    });
}

impl Cores {
    fn next_ms(&self) -> Option<i64> {
        let next_ms = self.running.values().map(|core| core.deadline_ms());
        next_ms.filter(|at_ms| *at_ms != i64::MAX).min()
    }

    fn wake_due(&self) {
        let now_ms = clock::session_ms();
        for core in self.running.values() {
            if core.deadline_ms() <= now_ms {
                core.wake();
            }
        }
    }
}

/// Wakes each core at its deadline.
pub(crate) async fn wake_cores() {
    let changed = CORES.with_borrow(|cores| cores.changed.clone());
    loop {
        let armed_ms = CORES.with_borrow(|cores| {
            cores.wake_due();
            cores.armed_ms
        });
        let until = armed_ms.map(|at_ms| at_ms.saturating_sub(clock::session_ms()).max(1));
        let passing = async {
            match until {
                Some(ms) => sleep(Duration::from_millis(ms.unsigned_abs())).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = passing => {}
            () = changed.notified() => {}
        }
    }
}
