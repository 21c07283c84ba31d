//! Limits on the number of connections, in total and per address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tree::WatcherId;

use super::connection::Connection;

/// All connections of a server.
pub(crate) type Registry = hosting::Registry<Connection>;

/// Admission of connections.
#[derive(Default)]
pub(crate) struct Admissions {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    next_id: u64,
    per_address: HashMap<IpAddr, usize>,
}

/// Reasons to refuse a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// `maxClientCnxns`.
    #[error("too many connections from {address} - max is {max}")]
    PerAddress { address: IpAddr, max: usize },
    /// `maxCnxns`.
    #[error("too many connections in total - max is {max}")]
    Total { max: usize },
}

/// Limits on connections; `None` means unlimited.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ConnectionLimits {
    /// `maxClientCnxns`.
    pub(crate) per_address: Option<usize>,
    /// `maxCnxns`.
    pub(crate) total: Option<usize>,
}

impl Admissions {
    /// Registers the connection that `make` constructs from its id.
    pub(crate) fn admit(
        &self,
        registry: &Registry,
        address: IpAddr,
        limits: ConnectionLimits,
        make: impl FnOnce(WatcherId) -> Connection,
    ) -> Result<Arc<Connection>, Refused> {
        let mut inner = self.inner.lock();
        if let Some(max) = limits.total.filter(|max| registry.len() >= *max) {
            return Err(Refused::Total { max });
        }
        let from_address = inner.per_address.get(&address).copied().unwrap_or(0);
        if let Some(max) = limits.per_address.filter(|max| from_address >= *max) {
            return Err(Refused::PerAddress { address, max });
        }
        *inner.per_address.entry(address).or_insert(0) += 1;
        inner.next_id += 1;
        let connection = Arc::new(make(WatcherId(inner.next_id)));
        registry.insert(connection.clone());
        Ok(connection)
    }

    /// Removes a connection that has ended.
    pub(crate) fn remove(&self, registry: &Registry, connection: &Connection) {
        let mut inner = self.inner.lock();
        if !registry.remove(connection) {
            return;
        }
        let address = connection.peer.ip().to_canonical();
        if let Some(count) = inner.per_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                inner.per_address.remove(&address);
            }
        }
    }
}
