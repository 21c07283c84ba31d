//! The admin server, and what its commands do to this process.
//!
//! ```text
//!   super::http -> Admin::answer -> monitoring::admin
//!                       \--------> snapshot thread, core
//! ```
//!
//! It listens before the data is loaded and during elections; until there is a server to ask,
//! commands that need one say so. It has tasks of its own and takes short locks only, so clients do
//! not notice it. Source: JettyAdminServer.

mod answers;
mod restore;
mod served;
mod snapshots;
mod view;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use config::Config;
use monitoring::admin::{Commands, RateLimiter};
use parking_lot::Mutex;

use super::http::{self, Place, PortTask};
use crate::error::StartError;

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

/// The admin server at its port.
pub(crate) type AdminTask = PortTask<Admin>;

/// Listens and answers, if the configuration wants that.
///
/// # Errors
/// If the address cannot be listened on.
pub(crate) async fn begin(config: &Arc<Config>) -> Result<Option<AdminTask>, StartError> {
    let settings = &config.admin;
    if !settings.is_enabled {
        return Ok(None);
    }
    let (host, port) = (settings.address.clone(), settings.port);
    let place = Place {
        host: host.clone(),
        port,
        idle: Duration::from_millis(settings.idle_timeout_ms.into()),
    };
    let listening = http::listen(place, Arc::new(Admin::new(config.clone()))).await;
    let task = listening.map_err(|source| StartError::BindAdmin {
        address: format!("{host}:{port}"),
        source,
    })?;
    tracing::info!(
        host,
        port,
        url = settings.command_url,
        "admin server listens"
    );
    Ok(Some(task))
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
