//! The admin server's sockets, and what its commands do to this process.
//!
//! ```text
//!   accept -> TimedStream -> HTTP/1.1 (hyper) -> Admin::answer -> monitoring::admin
//!                                                      \--------> snapshot thread, core
//! ```
//!
//! It listens before the data is loaded and during elections; until there is a server to ask,
//! commands that need one say so. It has tasks of its own and takes short locks only, so clients do
//! not notice it. Source: JettyAdminServer.

mod http;
mod listener;
mod restore;
mod served;
mod snapshots;
mod timed_stream;
mod view;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use config::Config;
use monitoring::admin::{Commands, RateLimiter};
use parking_lot::Mutex;

pub(crate) use listener::{AdminTask, begin};
pub(crate) use restore::RestoreOrder;
pub(crate) use served::Served;

/// The admin server of this process.
pub(crate) struct Admin {
    commands: Commands,
    config: Arc<Config>,
    /// Set once the data is loaded.
    served: OnceLock<Served>,
    limits: Mutex<Limits>,
    /// Held by the one who restores.
    restoring: Arc<tokio::sync::Mutex<()>>,
}

struct Limits {
    snapshot: RateLimiter,
    restore: RateLimiter,
}

impl Admin {
    fn new(config: Arc<Config>) -> Self {
        let interval = u64::from(config.admin.rate_limiter_interval_ms);
        let limits = Limits {
            // Java 3.9.5 takes the figure for microseconds here, and whoever fetches a snapshot
            // every minute has come to count on that.
            snapshot: RateLimiter::new(Duration::from_micros(interval)),
            restore: RateLimiter::new(Duration::from_millis(interval)),
        };
        Self {
            commands: Commands::new(&config.admin.command_url),
            config,
            served: OnceLock::new(),
            limits: Mutex::new(limits),
            restoring: Arc::default(),
        }
    }

    /// The data is loaded: from here on there is a server to ask.
    pub(crate) fn serve(&self, served: Served) {
        // Set once, by the start.
        let _ = self.served.set(served);
    }
}
