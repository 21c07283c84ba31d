//! The live server as operators see it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use monitoring::environment::Environment;
use monitoring::role::{LeaderFigures, RoleView};
use monitoring::usage::{self, ClientInfo};
use monitoring::view::{
    Configuration, ConnectionId, ConnectionInfo, DirectorySizes, ExpirySets, GlobalSessions,
    Interest, Now, Sessions, View,
};
use proto::{SessionId, Zxid};
use tree::WatchSummary;

use crate::client::clients::Clients;
use crate::client::connection::Connection;
use crate::clock;
use crate::metrics::{Metrics, NamespaceQuota, ServerStats, State};

/// Looks things up when they are asked for; each lock is held for one look only.
pub(crate) struct LiveView {
    clients: Arc<Clients>,
}

impl LiveView {
    pub(crate) fn new(clients: Arc<Clients>) -> Self {
        Self { clients }
    }

    fn has_local_sessions(&self) -> bool {
        self.clients.handshake_rules().makes_local_sessions()
    }

    /// Connections with a session, and what belongs to them.
    pub(crate) fn clients(&self) -> Vec<ClientInfo> {
        let watches: HashMap<_, _> = {
            let watches = self.clients.state.watches.lock();
            watches.counts_by_watcher().collect()
        };
        let ephemerals: HashMap<_, _> = {
            let tree = self.clients.state.tree.read();
            tree.ephemeral_counts().collect()
        };
        let count = |found: Option<&usize>| found.copied().unwrap_or(0) as u64;
        let all = self.clients.registry.all().into_iter();
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

    fn sessions_by_connection(&self) -> BTreeMap<tree::WatcherId, SessionId> {
        let all = self.clients.registry.all();
        all.iter()
            .map(|connection| (connection.id, connection.session()))
            .collect()
    }
}

impl View for LiveView {
    fn role(&self) -> Arc<RoleView> {
        self.clients.role.get()
    }

    fn leader_figures(&self) -> Option<LeaderFigures> {
        self.clients.role.leader_figures(clock::monotonic_ms())
    }

    fn now(&self) -> Now {
        Now {
            monotonic_ms: clock::monotonic_ms(),
            wall_ms: clock::wall_ms(),
        }
    }

    fn stats(&self) -> &ServerStats {
        &self.clients.stats
    }

    fn metrics(&self) -> &Metrics {
        &self.clients.metrics
    }

    fn state(&self) -> State {
        let watch_count = self.clients.state.watches.lock().count() as u64;
        let local_sessions = match self.has_local_sessions() {
            true => self.clients.state.sessions.lock().local_count() as u64,
            false => 0,
        };
        let connections = self.clients.registry.len() as u64;
        let tree = self.clients.state.tree.read();
        State {
            outstanding_requests: self.clients.permits.outstanding() as u64,
            outstanding_tls_handshakes: self.clients.tls_handshakes.under_way() as u64,
            connections,
            znode_count: tree.node_count() as u64,
            watch_count,
            ephemerals_count: tree.ephemerals_count() as u64,
            approximate_data_size: u64::try_from(tree.approximate_data_size()).unwrap_or(0),
            global_sessions: tree.sessions().len() as u64,
            local_sessions,
            connection_drop_probability: self.clients.handshakes.lock().drop_probability(),
        }
    }

    fn last_zxid(&self) -> Zxid {
        self.clients.state.tree.read().last_zxid()
    }

    fn quotas(&self) -> Vec<NamespaceQuota> {
        let quotas = self.clients.state.tree.read().quotas();
        quotas.into_iter().map(NamespaceQuota::from).collect()
    }

    fn connections(&self) -> Vec<ConnectionInfo> {
        self.clients
            .registry
            .all()
            .iter()
            .map(|connection| describe(connection))
            .collect()
    }

    fn reset_connections(&self) {
        for connection in self.clients.registry.all() {
            let _writers_wait = connection.lock();
            connection.stats.reset();
        }
        self.clients.departed.reset();
    }

    fn reset_proposal_sizes(&self) {
        self.clients.role.reset_proposal_sizes();
    }

    fn configuration(&self) -> Configuration {
        let config = &self.clients.settings.config;
        let role = self.clients.role.get();
        let member = config.ensemble.as_ref().map(|own| role.configuration(own));
        Configuration::new(config, member)
    }

    fn directory_sizes(&self) -> DirectorySizes {
        DirectorySizes::measure(&self.clients.settings.config)
    }

    fn sessions(&self) -> Sessions {
        let by_deadline = |local: bool| {
            let sets = self
                .clients
                .state
                .sessions
                .lock()
                .by_deadline(local)
                .into_iter();
            let sets = sets.map(|(at_ms, ids)| (u64::try_from(at_ms).unwrap_or(0), ids));
            ExpirySets {
                sets: sets.collect(),
            }
        };
        let global = match self.clients.role.get().expires_sessions() {
            true => GlobalSessions::Expired(by_deadline(false)),
            false => GlobalSessions::Known(self.clients.state.tree.read().sessions().collect()),
        };
        Sessions {
            local: self.has_local_sessions().then(|| by_deadline(true)),
            global,
        }
    }

    fn ephemerals(&self) -> Vec<(SessionId, Vec<String>)> {
        let tree = self.clients.state.tree.read();
        let by_session = tree.ephemerals();
        by_session
            .map(|(id, paths)| (id, paths.map(|path| path.to_string()).collect()))
            .collect()
    }

    fn connection_expiry(&self) -> Option<ExpirySets<ConnectionId>> {
        let sessionless = self.clients.settings.sessionless_timeout.as_millis();
        let connections = self.clients.registry.all().into_iter().map(|connection| {
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
        self.clients.state.watches.lock().summary()
    }

    fn watches_by_session(&self) -> Vec<(SessionId, Vec<String>)> {
        let sessions = self.sessions_by_connection();
        let watches = self.clients.state.watches.lock();
        let text = |path: Option<&str>| path.unwrap_or("null").to_owned();
        watches
            .by_watcher()
            .filter_map(|(id, paths)| Some((*sessions.get(&id)?, paths.map(text).collect())))
            .collect()
    }

    fn watches_by_path(&self) -> Vec<(String, Vec<SessionId>)> {
        let sessions = self.sessions_by_connection();
        let watches = self.clients.state.watches.lock();
        watches
            .by_path()
            .map(|(path, watchers)| {
                let ids = watchers.filter_map(|id| sessions.get(&id)).copied();
                (path.unwrap_or("null").to_owned(), ids.collect())
            })
            .collect()
    }

    fn digests(&self) -> Vec<(Zxid, i64)> {
        let tree = self.clients.state.tree.read();
        tree.digest_history()
            .map(|(zxid, digest)| (zxid, digest.cast_signed()))
            .collect()
    }

    fn environment(&self) -> &Environment {
        &self.clients.environment
    }

    fn trace_mask(&self) -> i64 {
        self.clients
            .trace_mask
            .load(std::sync::atomic::Ordering::Relaxed)
    }

    fn set_trace_mask(&self, mask: i64) {
        self.clients
            .trace_mask
            .store(mask, std::sync::atomic::Ordering::Relaxed);
    }
}

/// The budgets that a connection obeys, once it has asked for something.
fn budgets_of(connection: &Connection) -> Vec<String> {
    let state = connection.lock();
    let shares = state.obeyed.as_ref().map(|obeyed| obeyed.shares());
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
#[path = "view_tests.rs"]
mod tests;
