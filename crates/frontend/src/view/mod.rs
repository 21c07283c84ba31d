//! View of the live server for operators.

pub(crate) mod report;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use admission::Ledger;
use config::Config;
use host::ServerState;
use jute::Str;
use metrics::environment::Environment;
use metrics::role::{LeaderFigures, RoleCell, RoleView};
use metrics::slow::SlowRequests;
use metrics::usage::{self, ClientInfo, ClosedConnectionUsage, UsageSums};
use metrics::view::{
    Configuration, ConnectionId, ConnectionInfo, DirectorySizes, ExpirySets, GlobalSessions,
    Interest, Now, Sessions, View,
};
use metrics::{Metrics, NamespaceQuota, ServerGauges, ServerStats};
use proto::{Id, SessionId, Zxid};
use replica::Ticket;
use transport::tls::Gate;
use tree::{EphemeralOwners, WatchSummary, WatchedPaths, WatcherId, Watchers};

use crate::connection::{Connection, Registry};
use crate::login::x509;
use crate::settings::Settings;
use crate::{clock, limits};

/// View of the live state. Each lock is held only for one lookup.
pub struct LiveView {
    pub(crate) settings: Arc<Settings>,
    pub(crate) state: Arc<ServerState>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) stats: Arc<ServerStats>,
    pub(crate) closed_usage: Arc<ClosedConnectionUsage>,
    pub(crate) slow: Arc<SlowRequests>,
    pub(crate) environment: Environment,
    pub(crate) trace_mask: AtomicI64,
    pub(crate) role: Arc<RoleCell>,
    pub(crate) tls_handshakes: Arc<Gate>,
}

impl LiveView {
    /// Returns the server's configuration.
    pub fn config(&self) -> &Arc<Config> {
        &self.settings.config
    }

    /// Returns the tree, watches and sessions.
    pub fn server_state(&self) -> &Arc<ServerState> {
        &self.state
    }

    /// Returns the request counts of connections that have ended.
    pub fn closed_usage(&self) -> UsageSums {
        self.closed_usage.get()
    }

    /// Returns the limits on the resources of clients, and the resources that they use.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns the slow requests.
    pub fn slow_requests(&self) -> &SlowRequests {
        &self.slow
    }

    fn has_local_sessions(&self) -> bool {
        let service = self.registry.service();
        self.settings
            .handshake_rules(service)
            .makes_local_sessions()
    }

    /// Returns the connections that have a session, with their details.
    pub fn clients(&self) -> Vec<ClientInfo> {
        let watches: HashMap<_, _> = {
            let watches = self.state.watches.lock();
            watches.counts_by_watcher().collect()
        };
        let ephemerals: HashMap<_, _> = {
            let tree = self.state.tree.read();
            tree.ephemeral_counts().collect()
        };
        let count = |found: Option<&usize>| found.copied().unwrap_or(0) as u64;
        let all = self.registry.all().into_iter();
        all.filter(|connection| connection.session() != SessionId::NONE)
            .map(|connection| {
                let names = usage::names(&connection.lock().client.identities);
                ClientInfo {
                    connection: describe(&connection),
                    names,
                    budgets: budgets_of(&connection),
                    watches: count(watches.get(&connection.id)),
                    ephemerals: count(ephemerals.get(&connection.session())),
                }
            })
            .collect()
    }

    /// Returns the identities of a client whose certificate has this subject.
    pub fn identities_of_subject(&self, subject: &str) -> Vec<Id> {
        x509::identities(&self.settings.x509, subject)
    }

    /// Returns the session of a connection, or `None` if the connection no longer exists.
    fn session_of(&self, watcher: WatcherId) -> Option<SessionId> {
        let connection = self.registry.of(Ticket(watcher.0))?;
        Some(connection.session())
    }
}

/// Part of a listing, collected while a lock is held: values, grouped by key.
struct GroupedValues<K, V> {
    groups: Vec<(K, Vec<V>)>,
    bytes: usize,
}

impl<K: PartialEq, V> GroupedValues<K, V> {
    fn new() -> Self {
        Self {
            groups: Vec::new(),
            bytes: 0,
        }
    }

    /// Adds a value of `bytes` to the group of its key. Breaks if the part is full.
    fn add(&mut self, key: K, value: V, bytes: usize) -> ControlFlow<()> {
        match self.groups.last_mut().filter(|(last, _)| *last == key) {
            Some((_, values)) => values.push(value),
            None => self.groups.push((key, vec![value])),
        }
        self.grow(bytes)
    }

    fn grow(&mut self, bytes: usize) -> ControlFlow<()> {
        self.bytes += bytes + size_of::<V>();
        if self.bytes >= limits::LISTED_BYTES {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// Returns a path from the watch table as text. The watch table may contain a null path.
fn shown(path: Option<&str>) -> String {
    path.unwrap_or("null").to_owned()
}

impl View for LiveView {
    fn role(&self) -> Arc<RoleView> {
        self.role.get()
    }

    fn leader_figures(&self) -> Option<LeaderFigures> {
        self.role.leader_figures(clock::monotonic_ms())
    }

    fn now(&self) -> Now {
        Now {
            monotonic_ms: clock::monotonic_ms(),
            wall_ms: clock::wall_ms(),
        }
    }

    fn stats(&self) -> &ServerStats {
        &self.stats
    }

    fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn state(&self) -> ServerGauges {
        let watch_count = self.state.watches.lock().count() as u64;
        let local_sessions = if self.has_local_sessions() {
            self.state.sessions.lock().local_count() as u64
        } else {
            0
        };
        let connections = self.registry.len() as u64;
        let tree = self.state.tree.read();
        ServerGauges {
            outstanding_requests: self.ledger.permits.outstanding() as u64,
            outstanding_tls_handshakes: self.tls_handshakes.in_progress() as u64,
            connections,
            znode_count: tree.node_count() as u64,
            watch_count,
            ephemerals_count: tree.ephemerals_count() as u64,
            approximate_data_size: u64::try_from(tree.approximate_data_size()).unwrap_or(0),
            global_sessions: tree.sessions().len() as u64,
            local_sessions,
            connection_drop_probability: self.ledger.handshakes.lock().drop_probability(),
        }
    }

    fn last_zxid(&self) -> Zxid {
        self.state.tree.read().last_zxid()
    }

    fn quotas(&self) -> Vec<NamespaceQuota> {
        let quotas = self.state.tree.read().quotas();
        quotas.into_iter().map(NamespaceQuota::from).collect()
    }

    fn connections(&self) -> Vec<ConnectionInfo> {
        self.registry
            .all()
            .iter()
            .map(|connection| describe(connection))
            .collect()
    }

    fn reset_connections(&self) {
        for connection in self.registry.all() {
            let _writers_wait = connection.lock();
            connection.stats.reset();
        }
        self.closed_usage.reset();
    }

    fn reset_proposal_sizes(&self) {
        self.role.reset_proposal_sizes();
    }

    fn configuration(&self) -> Configuration {
        let config = &self.settings.config;
        let role = self.role.get();
        let member = config.ensemble.as_ref().map(|own| role.configuration(own));
        Configuration::new(config, member)
    }

    fn directory_sizes(&self) -> DirectorySizes {
        DirectorySizes::measure(&self.settings.config)
    }

    fn sessions(&self) -> Sessions {
        let by_deadline = |local: bool| {
            let sets = self.state.sessions.lock().by_deadline(local).into_iter();
            let sets = sets.map(|(at_ms, ids)| (u64::try_from(at_ms).unwrap_or(0), ids));
            ExpirySets {
                sets: sets.collect(),
            }
        };
        let global = if self.role.get().expires_sessions() {
            GlobalSessions::Expired(by_deadline(false))
        } else {
            GlobalSessions::Known(self.state.tree.read().sessions().collect())
        };
        Sessions {
            local: self.has_local_sessions().then(|| by_deadline(true)),
            global,
        }
    }

    fn ephemerals(&self, at: &mut Option<EphemeralOwners>) -> Vec<(SessionId, Vec<String>)> {
        let mut part = GroupedValues::new();
        if let Some(position) = at {
            let tree = self.state.tree.read();
            let visit = |owner, path: Str| part.add(owner, path.to_string(), path.len());
            if tree.visit_ephemerals(position, visit) {
                *at = None;
            }
        }
        part.groups
    }

    fn connection_expiry(&self) -> Option<ExpirySets<ConnectionId>> {
        let sessionless = self.settings.sessionless_timeout.as_millis();
        let connections = self.registry.all().into_iter().map(|connection| {
            let session = connection.session();
            let timeout_ms = match session {
                SessionId::NONE => u64::try_from(sessionless).unwrap_or(u64::MAX),
                _ => u64::try_from(connection.timeout_ms()).unwrap_or(0),
            };
            let peer = connection.peer;
            (ConnectionId { peer, session }, timeout_ms)
        });
        let now_ms = clock::monotonic_ms();
        Some(ExpirySets::of_connections(now_ms, connections))
    }

    fn watch_summary(&self) -> WatchSummary {
        self.state.watches.lock().summary()
    }

    fn watches_by_session(&self, at: &mut Option<Watchers>) -> Vec<(SessionId, Vec<String>)> {
        let mut part = GroupedValues::new();
        if let Some(position) = at {
            let watches = self.state.watches.lock();
            let visit = |watcher, path: Option<&str>| {
                part.add(watcher, shown(path), path.map_or(0, str::len))
            };
            if watches.visit_watchers(position, visit) {
                *at = None;
            }
        }
        let groups = part.groups.into_iter();
        groups
            .filter_map(|(watcher, paths)| Some((self.session_of(watcher)?, paths)))
            .collect()
    }

    fn watches_by_path(&self, at: &mut Option<WatchedPaths>) -> Vec<(String, Vec<SessionId>)> {
        let mut part = GroupedValues::new();
        if let Some(position) = at {
            let watches = self.state.watches.lock();
            let visit = |path: Option<&str>, watchers: Vec<WatcherId>| {
                let bytes = path.map_or(0, str::len) + size_of_val(&*watchers);
                part.groups.push((shown(path), watchers));
                part.grow(bytes)
            };
            if watches.visit_paths(position, visit) {
                *at = None;
            }
        }
        let sessions = |watchers: Vec<WatcherId>| {
            let watchers = watchers.into_iter();
            watchers
                .filter_map(|watcher| self.session_of(watcher))
                .collect()
        };
        let groups = part.groups.into_iter();
        groups
            .map(|(path, watchers)| (path, sessions(watchers)))
            .collect()
    }

    fn digests(&self) -> Vec<(Zxid, i64)> {
        let tree = self.state.tree.read();
        tree.digest_history()
            .map(|(zxid, digest)| (zxid, digest.cast_signed()))
            .collect()
    }

    fn environment(&self) -> &Environment {
        &self.environment
    }

    fn trace_mask(&self) -> i64 {
        self.trace_mask.load(Ordering::Relaxed)
    }

    fn set_trace_mask(&self, mask: i64) {
        self.trace_mask.store(mask, Ordering::Relaxed);
    }
}

/// Returns the names of the budgets that apply to a connection, once it has sent a request.
fn budgets_of(connection: &Connection) -> Vec<String> {
    let state = connection.lock();
    let shares = state
        .connection_budgets
        .as_ref()
        .map(|connection_budgets| connection_budgets.shares());
    let shares = shares.iter().flat_map(|shares| shares.iter());
    let mut names: Vec<String> = shares.map(|share| share.name().to_owned()).collect();
    names.dedup();
    names
}

fn describe(connection: &Connection) -> ConnectionInfo {
    let session = connection.session();
    let queued = connection.lock().client.waiting() as u64;
    ConnectionInfo {
        peer: connection.peer,
        interest: Interest {
            read: session != SessionId::NONE,
            write: false,
        },
        queued,
        session,
        timeout_ms: connection.timeout_ms(),
        figures: connection.stats.get(),
    }
}

#[cfg(test)]
mod tests;
