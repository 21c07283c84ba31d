//! A process with the shipped client, on simulated sockets and time.
//!
//! Each process has its own runtime, and only the simulation advances the clock of that runtime.
//! Between two events of the simulation, the runtime runs every task that can run.

use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use super::sockets::Sockets;

/// A process with the shipped client.
#[derive(Debug)]
pub struct Process {
    runtime: Runtime,
    main: JoinHandle<()>,
    /// Sockets of the process.
    pub sockets: Sockets,
    /// Current time of the process, ms since the beginning of the simulation.
    now_ms: i64,
}

impl Process {
    /// Starts a process with this main task.
    ///
    /// # Errors
    ///
    /// If the runtime cannot be created.
    pub fn start(
        main: impl Future<Output = ()> + Send + 'static,
        sockets: Sockets,
        now_ms: i64,
    ) -> io::Result<Self> {
        let mut builder = Builder::new_current_thread();
        // The time driver runs only when no task can run. See `run`.
        builder.enable_time().event_interval(u32::MAX);
        let runtime = builder.start_paused(true).build()?;
        sockets.set_now_ms(now_ms);
        Ok(Self {
            main: runtime.spawn(main),
            runtime,
            sockets,
            now_ms,
        })
    }

    /// Advances the clock of the process to `now_ms`, and runs all tasks that can run.
    pub fn run(&mut self, now_ms: i64) {
        let passed = u64::try_from(now_ms - self.now_ms).unwrap_or(0);
        self.now_ms = now_ms;
        self.sockets.set_now_ms(now_ms);
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
    }

    /// Returns whether the main task has ended.
    ///
    /// # Panics
    ///
    /// If the main task has panicked.
    pub fn is_over(&mut self) -> bool {
        if !self.main.is_finished() {
            return false;
        }
        let ended = self.runtime.block_on(&mut self.main);
        if let Err(error) = ended
            && let Ok(panic) = error.try_into_panic()
        {
            std::panic::resume_unwind(panic);
        }
        true
    }
}

/// Number of yields after which all due timers have fired and all tasks that yielded have run.
const TURNS: usize = 4;
