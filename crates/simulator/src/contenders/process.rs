//! A process with the shipped client and a recipe, on simulated sockets and time.
//!
//! Each process has its own runtime, whose clock stops until the simulation advances it. Between
//! two events of the simulation, the runtime runs every task that can run.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use super::programs::{Program, Told, live};
use super::sockets::Sockets;

pub(super) struct Process {
    runtime: Runtime,
    pub(super) sockets: Sockets,
    program: Arc<Program>,
    /// Current time of the process, ms since the beginning of the simulation.
    now_ms: i64,
}

impl Process {
    pub(super) fn start(program: Program, sockets: Sockets, now_ms: i64) -> Result<Self, String> {
        let mut builder = Builder::new_current_thread();
        // The time driver runs only when no task can run: see `run`.
        builder.enable_time().event_interval(u32::MAX);
        let runtime = builder.start_paused(true).build();
        let runtime =
            runtime.map_err(|error| format!("cannot create a runtime for a contender: {error}"))?;
        let program = Arc::new(program);
        runtime.spawn(live(Arc::clone(&program), sockets.clone()));
        Ok(Self {
            runtime,
            sockets,
            program,
            now_ms,
        })
    }

    /// Runs everything that can run up to `now_ms`.
    pub(super) fn run(&mut self, now_ms: i64) -> Vec<Told> {
        let passed = u64::try_from(now_ms - self.now_ms).unwrap_or(0);
        self.now_ms = now_ms;
        self.runtime.block_on(async {
            if passed > 0 {
                tokio::time::advance(Duration::from_millis(passed)).await;
            }
            // Each yield runs all tasks that can run, then fires timers and wakes the tasks that
            // yielded.
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
        });
        self.program.take_told()
    }

    /// Asks the process to end in an orderly way.
    pub(super) fn end(&self) {
        self.program.end();
    }
}

/// Number of yields that lets tasks that yield, and timers that are due, run.
const TURNS: usize = 4;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Tests the property on which `run` relies.
    #[test]
    fn whatever_can_run_does_and_time_stands_still() {
        let mut builder = Builder::new_current_thread();
        builder.enable_time().event_interval(u32::MAX);
        let runtime = builder.start_paused(true).build().unwrap();
        let done = Arc::new(AtomicUsize::new(0));
        let (first, mut last) = tokio::sync::mpsc::channel::<usize>(1);
        let mut next = first;
        // A chain of tasks. Each task wakes the next one.
        for _ in 0..500 {
            let (sender, receiver) = tokio::sync::mpsc::channel(1);
            let mut before = std::mem::replace(&mut last, receiver);
            let done = Arc::clone(&done);
            runtime.spawn(async move {
                let number = before.recv().await.unwrap();
                done.fetch_add(1, Ordering::Relaxed);
                let _ = sender.send(number + 1).await;
            });
        }
        let late = Arc::clone(&done);
        runtime.spawn(async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            late.fetch_add(1000, Ordering::Relaxed);
        });
        next.try_send(0).unwrap();
        runtime.block_on(tokio::task::yield_now());
        assert_eq!(done.load(Ordering::Relaxed), 500);
        for (ms, expected) in [(9, 500), (1, 1500)] {
            runtime.block_on(async {
                tokio::time::advance(Duration::from_millis(ms)).await;
                tokio::task::yield_now().await;
            });
            assert_eq!(done.load(Ordering::Relaxed), expected);
        }
        next = tokio::sync::mpsc::channel(1).0;
        drop(next);
    }
}
