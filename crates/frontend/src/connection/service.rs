//! Current service for clients.

use std::sync::Arc;

use metrics::ServerStats;
use replica::Service;
use tokio::sync::watch;

use crate::clock;
use crate::connection::Registry;

/// Current service for clients, which tasks can observe for changes.
pub struct CurrentService {
    registry: Arc<Registry>,
    stats: Arc<ServerStats>,
    sender: watch::Sender<Service>,
}

impl CurrentService {
    /// Creates the service of a server that does not serve clients yet.
    pub(crate) fn new(registry: Arc<Registry>, stats: Arc<ServerStats>) -> Self {
        Self {
            registry,
            stats,
            sender: watch::Sender::new(Service::None),
        }
    }

    /// Starts serving clients.
    pub fn begin(&self, service: Service) {
        self.stats.begin(clock::monotonic_ms());
        self.registry.serve(service);
        self.sender.send_replace(service);
    }

    /// Stops serving clients, and ends their connections.
    pub fn end(&self) {
        self.sender.send_replace(Service::None);
        self.registry.stop_serving();
    }

    /// Returns a receiver for the current service.
    pub fn subscribe(&self) -> watch::Receiver<Service> {
        self.sender.subscribe()
    }
}
