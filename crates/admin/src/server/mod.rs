//! Admin server, and the effects of its commands on this process.
//!
//! ```text
//! http -> Admin::answer -> commands
//!              \--------> Operations: snapshot thread, core
//! ```
//!
//! The admin server listens before the data is loaded and during elections. Until the data is
//! loaded, all commands return an error. The admin server has separate tasks and holds locks only
//! briefly, so it does not affect clients. Source: JettyAdminServer.

mod answers;
mod console;
#[cfg(feature = "history")]
mod feed;
mod figures;
#[cfg(feature = "history")]
mod history;
mod limiter;
mod listing;
mod log;
mod members;
mod restore;
mod snapshots;

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use config::Config;
use metrics::Metrics;
use parking_lot::Mutex;
use proto::Sid;
use tokio::sync::Semaphore;
use tokio::time::{Instant, MissedTickBehavior, interval};
use transport::tls::{Acceptor, Connector};

use self::figures::Kept;
use self::limiter::RateLimiter;
use self::members::{AdminPorts, Own, OwnReport, Running, Watcher, report, secrets};
use crate::commands::{Commands, OPEN_TO_WORLD};
use crate::console::Console;
use crate::http::{self, BindError, Names, PortSettings, PortTask, Workers};
use crate::limits;
use crate::served::{Readers, Served};
use crate::token::AdminToken;

/// Admin server of this process.
pub struct Admin {
    commands: Commands,
    /// Handler of `/`, unless the console is disabled.
    console: Option<Console>,
    /// Host names by which clients reach the server.
    names: Names,
    config: Arc<Config>,
    metrics: Arc<Metrics>,
    /// Hash of the session secret file.
    secrets_hash: String,
    /// Origin of the monotonic clock.
    started: Instant,
    /// Threads that execute commands.
    workers: Workers,
    token: AdminToken,
    /// Running server. It is set after the data has been loaded.
    served: OnceLock<Served>,
    /// Comparison of the session secret files, if there is a file and there are other members.
    comparison: OnceLock<Running>,
    /// Queries to the other members, if there is a console.
    watcher: OnceLock<Watcher>,
    /// Figures over time for the console.
    kept: Arc<Mutex<Kept>>,
    /// Task that samples the figures, if there is a console.
    sampling: OnceLock<Running>,
    limits: Mutex<Limits>,
    /// Lock that is held during a restore.
    restoring: Arc<tokio::sync::Mutex<()>>,
    /// Change history, if configured.
    readers: Readers,
    /// Permits for concurrent queries of the history. Each query may use some MiB.
    questions: Arc<Semaphore>,
    /// Queue in which long listings take turns.
    listings: listing::Turns,
    /// Permits for feeds of the change history.
    feeds: Arc<Semaphore>,
}

struct Limits {
    snapshot: RateLimiter,
    restore: RateLimiter,
}

/// Port of the admin server.
pub type AdminTask = PortTask<Admin>;

/// Parts of an admin server that are available before the data is loaded.
pub struct Parts {
    /// Configuration of the server.
    pub config: Arc<Config>,
    /// Acceptor of connections.
    pub acceptor: Acceptor,
    /// Metrics of the server.
    pub metrics: Arc<Metrics>,
    /// Threads that execute commands.
    pub workers: Workers,
    /// Change history, if configured.
    pub readers: Readers,
    /// Hash of the session secret file.
    pub secrets_hash: String,
}

/// Listens on the port and answers requests if the admin server is enabled.
///
/// # Errors
/// If the server cannot listen on the address.
pub async fn begin(parts: Parts) -> Result<Option<AdminTask>, BindError> {
    let config = parts.config.clone();
    let settings = &config.admin;
    if !settings.is_enabled {
        return Ok(None);
    }
    let (host, port) = (settings.address.clone(), settings.port);
    let port_settings = PortSettings {
        name: "the admin server",
        host: host.clone(),
        port,
        acceptor: parts.acceptor.clone(),
        idle: Duration::from_millis(settings.idle_timeout_ms.into()),
    };
    let task = http::listen(port_settings, Arc::new(Admin::new(parts))).await?;
    tracing::info!(
        host,
        port,
        url = settings.command_url,
        scheme = ?settings.scheme,
        "admin server listens"
    );
    Ok(Some(task))
}

impl Admin {
    fn new(parts: Parts) -> Self {
        let Parts {
            config, readers, ..
        } = parts;
        let interval = u64::from(config.admin.rate_limiter_interval_ms);
        let limits = Limits {
            // Java 3.9.5 interprets this value as microseconds here, and clients that fetch a
            // snapshot every minute rely on that.
            snapshot: RateLimiter::new(Duration::from_micros(interval)),
            restore: RateLimiter::new(Duration::from_millis(interval)),
        };
        let mut commands = Commands::new(&config.admin.command_url);
        if config.history.is_some() {
            history::commands(&readers, &AdminPorts::of(&config))
                .into_iter()
                .for_each(|command| commands.add(command));
        }
        if config.ensemble.is_some() {
            commands.add(secrets::command(&parts.secrets_hash));
        }
        commands.add(members::command(AdminPorts::of(&config)));
        commands.add(report::command(AdminPorts::of(&config).my_id()));
        let kept = Arc::new(Mutex::new(Kept::default()));
        commands.add(figures::command(kept.clone()));
        Self {
            commands,
            console: console::set_up(&config),
            names: Names::new(console::names(&config)),
            token: AdminToken::new(config.clone()),
            config,
            metrics: parts.metrics,
            secrets_hash: parts.secrets_hash,
            started: Instant::now(),
            workers: parts.workers,
            served: OnceLock::new(),
            comparison: OnceLock::new(),
            watcher: OnceLock::new(),
            kept,
            sampling: OnceLock::new(),
            limits: Mutex::new(limits),
            restoring: Arc::default(),
            readers,
            questions: Arc::new(Semaphore::new(limits::HISTORY_QUESTIONS_MAX)),
            listings: listing::Turns::new(),
            feeds: Arc::new(Semaphore::new(limits::FEEDS_MAX)),
        }
    }

    /// Provides access to the server after the data has been loaded.
    pub fn serve(&self, served: Served) {
        if served.view.is_open_to_world() {
            tracing::warn!("{}", OPEN_TO_WORLD);
        }
        // It is set only once, at the start.
        let _ = self.served.set(served);
    }

    /// Starts the queries to the other members over `connector`, for the console and for the
    /// comparison of the session secret files. Also starts sampling the figures for the console.
    pub fn query_members(self: &Arc<Self>, connector: Connector) {
        let sessions = &self.config.sessions;
        // Each of these cells is set only once, at the start.
        if self.config.ensemble.is_some() && !sessions.secrets.is_empty() {
            let comparison = secrets::begin(self, connector.clone());
            let _ = self.comparison.set(comparison);
        }
        if self.console.is_some() {
            let ports = AdminPorts::of(&self.config);
            let own = self.own_report(ports.my_id());
            let _ = self.watcher.set(Watcher::begin(ports, connector, own));
            let sampling = Running::begin(keep_figures(Arc::downgrade(self)));
            let _ = self.sampling.set(sampling);
        }
    }

    /// Returns the function that reads the state of this member. The function reads the tree, so
    /// its work does not run on a thread that serves clients.
    fn own_report(self: &Arc<Self>, my_id: Option<Sid>) -> OwnReport {
        let admin = Arc::downgrade(self);
        Box::new(move || {
            let admin = admin.upgrade();
            Box::pin(async move {
                let admin = admin?;
                let workers = admin.workers.clone();
                let looking = workers.run(move |_| {
                    let served = admin.served.get()?;
                    Some(Own::of(&*served.view, my_id))
                });
                looking.await.ok().flatten()
            })
        })
    }
}

/// Replacement for the commands `history/*`. A server without the feature refuses to start if a
/// change history is configured.
#[cfg(not(feature = "history"))]
mod history {
    use super::{AdminPorts, Readers};
    use crate::commands::Command;

    pub(super) fn commands(_: &Readers, _: &AdminPorts) -> Vec<Command> {
        Vec::new()
    }
}

/// Samples the figures of this member while the member runs, and forgets visits with their logins.
async fn keep_figures(admin: Weak<Admin>) {
    let mut steps = interval(limits::FIGURES_STEP);
    steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        steps.tick().await;
        let Some(admin) = admin.upgrade() else { return };
        let workers = admin.workers.clone();
        let sampling = workers.run(move |_| {
            if let Some(console) = &admin.console {
                console.visits.forget_idle(admin.member().now_ms());
            }
            if let Some(served) = admin.served.get() {
                admin.kept.lock().sample(&*served.view);
            }
        });
        // A failed sample is missing in the series.
        let _ = sampling.await;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// Another test calls each cell of the table. This test checks that the table is complete.
    #[test]
    fn the_matrix_of_the_security_page_names_every_call() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/SECURITY.md");
        let page = std::fs::read_to_string(page).unwrap();
        let (_, table) = page.split_once("<!-- matrix -->").unwrap();
        let (table, _) = table.split_once("<!-- end of the matrix -->").unwrap();
        let named: BTreeSet<String> = table
            .split('`')
            .skip(1)
            .step_by(2)
            .map(|call| {
                let call = call.split('?').next().unwrap_or_default();
                match call.split_once(' ') {
                    Some((method, path)) => format!("{method} {path}"),
                    None => format!("GET {call}"),
                }
            })
            .collect();
        let mut commands = Commands::new("/commands");
        history::commands(&Readers::default(), &AdminPorts::default())
            .into_iter()
            .for_each(|command| commands.add(command));
        commands.add(secrets::command(""));
        commands.add(members::command(AdminPorts::default()));
        commands.add(report::command(None));
        commands.add(figures::command(Arc::default()));
        let commands = commands.all();
        let commands = commands.map(|command| format!("{} {}", command.method, command.name));
        let console = Console::routes();
        let console = console.map(|(method, path)| format!("{method} {}", &path[1..]));
        let missing: Vec<String> = commands
            .chain(console)
            .filter(|call| !named.contains(call))
            .collect();
        assert!(
            missing.is_empty(),
            "docs/SECURITY.md says nothing of {missing:?}"
        );
    }
}
