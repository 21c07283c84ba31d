//! Limits on the number of connections, in total and per address.

use std::collections::HashMap;
use std::net::IpAddr;

use executor::sync::Mutex;
use tree::WatcherId;

/// Numbers of open connections.
#[derive(Debug, Default)]
pub struct ConnectionCounts {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    last_id: u64,
    total: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// Reason for refusing a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The address has reached `maxClientCnxns`.
    #[error("too many connections from {address} - max is {max}")]
    PerAddress {
        /// Address of the client.
        address: IpAddr,
        /// Maximum number of connections from the address.
        max: usize,
    },
    /// The server has reached `maxCnxns`.
    #[error("too many connections in total - max is {max}")]
    Total {
        /// Maximum number of connections.
        max: usize,
    },
}

/// Limits on the number of connections. `None` means unlimited.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConnectionLimits {
    /// Limit per address (`maxClientCnxns`).
    pub per_address: Option<usize>,
    /// Limit in total (`maxCnxns`).
    pub total: Option<usize>,
}

impl ConnectionCounts {
    /// Counts a new connection and returns its id. The caller must report the end of the connection
    /// to [`leave`](Self::leave).
    ///
    /// # Errors
    /// If a limit is reached.
    pub fn enter(&self, address: IpAddr, limits: ConnectionLimits) -> Result<WatcherId, Refused> {
        let inner = &mut *self.inner.lock();
        if let Some(max) = limits.total.filter(|max| inner.total >= *max) {
            return Err(Refused::Total { max });
        }
        let from_address = inner.by_address.get(&address).copied().unwrap_or(0);
        if let Some(max) = limits.per_address.filter(|max| from_address >= *max) {
            return Err(Refused::PerAddress { address, max });
        }
        inner.by_address.insert(address, from_address + 1);
        inner.total += 1;
        inner.last_id += 1;
        Ok(WatcherId(inner.last_id))
    }

    /// Records the end of a connection from this address. Called once for each connection.
    pub fn leave(&self, address: IpAddr) {
        let inner = &mut *self.inner.lock();
        if let Some(count) = inner.by_address.get_mut(&address) {
            *count -= 1;
            inner.total -= 1;
            if *count == 0 {
                inner.by_address.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_in_total_and_for_each_address() {
        let counts = ConnectionCounts::default();
        let limits = ConnectionLimits {
            per_address: Some(2),
            total: Some(3),
        };
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|ip| ip.parse::<IpAddr>().unwrap());
        assert_eq!(counts.enter(one, limits), Ok(WatcherId(1)));
        assert_eq!(counts.enter(one, limits), Ok(WatcherId(2)));
        let crowded = Err(Refused::PerAddress {
            address: one,
            max: 2,
        });
        assert_eq!(counts.enter(one, limits), crowded);
        assert_eq!(counts.enter(other, limits), Ok(WatcherId(3)));
        assert_eq!(counts.enter(other, limits), Err(Refused::Total { max: 3 }));
        counts.leave(one);
        assert_eq!(counts.enter(one, limits), Ok(WatcherId(4)));
        assert_eq!(
            counts.enter(one, ConnectionLimits::default()),
            Ok(WatcherId(5))
        );
        for address in [one, one, one, other] {
            counts.leave(address);
        }
        // An address that is not counted changes nothing.
        counts.leave(other);
        assert_eq!(counts.inner.lock().total, 0);
        assert!(counts.inner.lock().by_address.is_empty());
        let none = ConnectionLimits {
            per_address: Some(0),
            total: None,
        };
        assert!(counts.enter(one, none).is_err());
        assert!(
            counts.inner.lock().by_address.is_empty(),
            "a refusal leaves nothing"
        );
    }
}
