//! A process with a client and a recipe in it: the code that ships, on simulated sockets and time.
//!
//! Each has a runtime of its own, whose clock stands still until the simulation moves it. All that
//! can run runs between two events of the simulation.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use super::programs::{Program, Told, live};
use super::sockets::Sockets;

pub(super) struct Process {
    runtime: Runtime,
    pub(super) sockets: Sockets,
    program: Arc<Program>,
    /// What its clock shows, ms since the beginning of the simulation.
    now_ms: i64,
}

impl Process {
    pub(super) fn start(program: Program, sockets: Sockets, now_ms: i64) -> Result<Self, String> {
        let mut builder = Builder::new_current_thread();
        // The driver of the time has its turn only when nothing else can run: see `run`.
        builder.enable_time().event_interval(u32::MAX);
        let runtime = builder.start_paused(true).build();
        let runtime = runtime.map_err(|error| format!("no runtime for a contender: {error}"))?;
        let program = Arc::new(program);
        runtime.spawn(live(Arc::clone(&program), sockets.clone()));
        Ok(Self {
            runtime,
            sockets,
            program,
            now_ms,
        })
    }

    /// Does all that can be done up to now.
    pub(super) fn run(&mut self, now_ms: i64) -> Vec<Told> {
        let passed = u64::try_from(now_ms - self.now_ms).unwrap_or(0);
        self.now_ms = now_ms;
        self.runtime.block_on(async {
            if passed > 0 {
                tokio::time::advance(Duration::from_millis(passed)).await;
            }
            // Each lets everything run that can, then fires timers and wakes who has yielded.
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
        });
        self.program.take_told()
    }

    /// It is to come to an end, in an orderly way.
    pub(super) fn end(&self) {
        self.program.end();
    }
}

/// Enough for timers that fire at once, and tasks that yield, to have their turn.
const TURNS: usize = 4;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// What `run` relies on.
    #[test]
    fn whatever_can_run_does_and_time_stands_still() {
        let mut builder = Builder::new_current_thread();
        builder.enable_time().event_interval(u32::MAX);
        let runtime = builder.start_paused(true).build().unwrap();
        let done = Arc::new(AtomicUsize::new(0));
        let (first, mut last) = tokio::sync::mpsc::channel::<usize>(1);
        let mut next = first;
        // A chain of tasks of which each wakes the next.
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
