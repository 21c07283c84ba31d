//! The running server, as the admin server sees it.

use std::collections::BTreeMap;
use std::sync::Arc;

use config::registry;
use frontend::LiveView;
use metrics::environment::Environment;
use metrics::role::{LeaderFigures, RoleView};
use metrics::slow::SlowRequests;
use metrics::usage::{ClientInfo, UsageSums};
use metrics::view::{
    AdminView, Configuration, ConnectionId, ConnectionInfo, DirectorySizes, ExpirySets,
    LastSnapshot, Now, ObserverInfo, Sessions, View,
};
use metrics::{Memory, Metrics, NamespaceQuota, ServerGauges, ServerStats};
use parking_lot::RwLock;
use proto::{Id, SessionId, Zxid};
use quorum::LearnerLinks;
use tree::auth;
use tree::{EphemeralOwners, Tree, WatchSummary, WatchedPaths, Watchers};

use crate::disk::SnapshotRequests;

/// Prefixes of the environment's entries that are reported as system properties, as in Java.
const ENVIRONMENT: [&str; 3] = ["java.", "os.", "user."];

pub(super) struct LiveAdminView {
    live: Arc<LiveView>,
    snapshots: SnapshotRequests,
    links: Vec<LearnerLinks>,
}

impl LiveAdminView {
    pub(super) fn new(
        live: Arc<LiveView>,
        snapshots: SnapshotRequests,
        links: Vec<LearnerLinks>,
    ) -> Self {
        Self {
            live,
            snapshots,
            links,
        }
    }
}

impl AdminView for LiveAdminView {
    fn last_snapshot(&self) -> Option<LastSnapshot> {
        self.snapshots.latest()
    }

    fn initial_configuration(&self) -> Option<String> {
        let config = self.live.config();
        let is_alone = config.ensemble.is_none();
        is_alone.then(|| config.initial_configuration.expose().to_owned())
    }

    fn system_properties(&self) -> BTreeMap<String, String> {
        let facts = self.environment().entries(Memory::of_this_process());
        let facts = facts.into_iter().filter(|(name, _)| {
            let is_property = ENVIRONMENT.iter().any(|start| name.starts_with(start));
            is_property && !name.starts_with("os.memory")
        });
        let mut all: BTreeMap<String, String> = facts
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        let config = self.live.config();
        all.extend(config.properties.iter().map(|(name, value)| {
            let value = if registry::is_secret(name) {
                registry::HIDDEN
            } else {
                value
            };
            (name.to_owned(), value.to_owned())
        }));
        all
    }

    fn observers(&self) -> Vec<ObserverInfo> {
        let links = self.links.iter();
        links.flat_map(LearnerLinks::observers).collect()
    }

    fn reset_observers(&self) {
        self.links.iter().for_each(LearnerLinks::reset);
    }

    fn identities(&self, scheme: &str, data: Option<&[u8]>, address: &str) -> Vec<Id> {
        let settings = self.tree().read().settings().clone();
        auth::authenticate(&settings.auth, Some(scheme), data, address).unwrap_or_default()
    }

    fn identities_of_subject(&self, subject: &str) -> Vec<Id> {
        self.live.identities_of_subject(subject)
    }

    fn tree(&self) -> &RwLock<Tree> {
        &self.live.server_state().tree
    }

    fn clients(&self) -> Vec<ClientInfo> {
        self.live.clients()
    }

    fn closed_usage(&self) -> UsageSums {
        self.live.closed_usage()
    }

    fn slow_requests(&self) -> &SlowRequests {
        self.live.slow_requests()
    }
}

impl View for LiveAdminView {
    fn role(&self) -> Arc<RoleView> {
        self.live.role()
    }

    fn leader_figures(&self) -> Option<LeaderFigures> {
        self.live.leader_figures()
    }

    fn now(&self) -> Now {
        self.live.now()
    }

    fn stats(&self) -> &ServerStats {
        self.live.stats()
    }

    fn metrics(&self) -> &Metrics {
        self.live.metrics()
    }

    fn state(&self) -> ServerGauges {
        self.live.state()
    }

    fn last_zxid(&self) -> Zxid {
        self.live.last_zxid()
    }

    fn quotas(&self) -> Vec<NamespaceQuota> {
        self.live.quotas()
    }

    fn connections(&self) -> Vec<ConnectionInfo> {
        self.live.connections()
    }

    fn reset_connections(&self) {
        self.live.reset_connections();
    }

    fn reset_proposal_sizes(&self) {
        self.live.reset_proposal_sizes();
    }

    fn configuration(&self) -> Configuration {
        self.live.configuration()
    }

    fn directory_sizes(&self) -> DirectorySizes {
        self.live.directory_sizes()
    }

    fn sessions(&self) -> Sessions {
        self.live.sessions()
    }

    fn ephemerals(&self, at: &mut Option<EphemeralOwners>) -> Vec<(SessionId, Vec<String>)> {
        self.live.ephemerals(at)
    }

    fn connection_expiry(&self) -> Option<ExpirySets<ConnectionId>> {
        self.live.connection_expiry()
    }

    fn watch_summary(&self) -> WatchSummary {
        self.live.watch_summary()
    }

    fn watches_by_session(&self, at: &mut Option<Watchers>) -> Vec<(SessionId, Vec<String>)> {
        self.live.watches_by_session(at)
    }

    fn watches_by_path(&self, at: &mut Option<WatchedPaths>) -> Vec<(String, Vec<SessionId>)> {
        self.live.watches_by_path(at)
    }

    fn digests(&self) -> Vec<(Zxid, i64)> {
        self.live.digests()
    }

    fn environment(&self) -> &Environment {
        self.live.environment()
    }

    fn trace_mask(&self) -> i64 {
        self.live.trace_mask()
    }

    fn set_trace_mask(&self, mask: i64) {
        self.live.set_trace_mask(mask);
    }
}
