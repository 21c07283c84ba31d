//! A process with the shipped client and a recipe, on simulated sockets and time.
//!
//! Each process has its own runtime, whose clock stops until the simulation advances it. Between
//! two events of the simulation, the runtime runs every task that can run.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use super::programs::{Program, ProgramEvent, live};
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
    pub(super) fn run(&mut self, now_ms: i64) -> Vec<ProgramEvent> {
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
