//! Usage of this server by clients, by address and by identity.
//!
//! Each connection has its own counters ([`crate::ConnectionStats`]), so counting does not touch
//! shared memory. Sums are computed when they are requested. The sums of ended connections are kept
//! here, so a client that opens a new connection for every request is covered, too.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::ops::AddAssign;

use parking_lot::Mutex;
use proto::Id;
use tree::auth::{ANYONE, IP, name_of};

use crate::counters::ConnectionFigures;
use crate::view::ConnectionInfo;

/// Maximum number of addresses, and of identities, of ended connections that are listed separately.
/// The number may temporarily reach twice this value. Older entries are merged into a sum.
pub const DEPARTED_MAX: usize = 1000;

/// Maximum number of a connection's identities that are counted. Most connections have one
/// identity.
const IDENTITIES_COUNTED: usize = 8;

/// Usage of the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Number of open connections.
    pub connections: u64,
    /// Number of answered reads.
    pub reads: u64,
    /// Number of answered writes.
    pub writes: u64,
    /// Size of requests, including pings, bytes.
    pub received_bytes: u64,
    /// Size of replies and events, bytes.
    pub sent_bytes: u64,
    /// Number of requests that wait for their reply.
    pub outstanding: u64,
    /// Number of watches.
    pub watches: u64,
    /// Number of ephemeral znodes.
    pub ephemerals: u64,
    /// Number of requests that waited or were refused because of a budget.
    pub throttled: u64,
    /// Maximum latency of open connections, ms.
    pub max_latency_ms: u64,
}

impl Usage {
    /// Returns the number of answered reads and writes.
    pub fn requests(&self) -> u64 {
        self.reads + self.writes
    }

    /// Returns the counters of a connection, without the resources that it holds.
    fn of_connection(figures: &ConnectionFigures) -> Self {
        Self {
            reads: figures.reads,
            writes: figures.writes,
            received_bytes: figures.received_bytes,
            sent_bytes: figures.sent_bytes,
            throttled: figures.throttled,
            ..Self::default()
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.connections += other.connections;
        self.reads += other.reads;
        self.writes += other.writes;
        self.received_bytes += other.received_bytes;
        self.sent_bytes += other.sent_bytes;
        self.outstanding += other.outstanding;
        self.watches += other.watches;
        self.ephemerals += other.ephemerals;
        self.throttled += other.throttled;
        self.max_latency_ms = self.max_latency_ms.max(other.max_latency_ms);
    }
}

/// A connection with a session, and its resources.
#[derive(Debug, Clone)]
pub struct ClientInfo {
    /// Connection and its counters.
    pub connection: ConnectionInfo,
    /// Names of its identities.
    pub names: Vec<String>,
    /// Names of the budgets that apply to the connection.
    pub budgets: Vec<String>,
    /// Number of its watches.
    pub watches: u64,
    /// Number of ephemeral znodes of its session.
    pub ephemerals: u64,
}

impl ClientInfo {
    /// Returns the usage of the connection.
    pub fn usage(&self) -> Usage {
        let figures = &self.connection.figures;
        Usage {
            connections: 1,
            outstanding: self.connection.queued,
            watches: self.watches,
            ephemerals: self.ephemerals,
            max_latency_ms: figures.max_latency_ms,
            ..Usage::of_connection(figures)
        }
    }

    /// Returns the address without the port.
    pub fn address(&self) -> IpAddr {
        self.connection.peer.ip().to_canonical()
    }
}

/// Returns the names of identities as `scheme:user`, without addresses and password hashes. Returns
/// [`ANYONE`] if there are none.
pub fn names(identities: &[Id]) -> Vec<String> {
    let proved = identities.iter().filter(|id| &*id.scheme != IP);
    let mut names = Vec::new();
    for name in proved.take(IDENTITIES_COUNTED).map(name_of) {
        // Each connection is counted once per name.
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() {
        names.push(ANYONE.to_owned());
    }
    names
}

/// Usage of ended connections.
#[derive(Debug, Default)]
pub struct ClosedConnectionUsage(Mutex<UsageSums>);

/// Sums over all ended connections.
#[derive(Debug, Clone, Default)]
pub struct UsageSums {
    /// Sums by address.
    pub by_address: Rows<IpAddr>,
    /// Sums by identity. A connection with several identities is counted for each of them.
    pub by_identity: Rows<String>,
}

impl ClosedConnectionUsage {
    /// Records the end of a connection. Ignores a connection without answered reads and writes.
    pub fn note(&self, address: IpAddr, identities: &[Id], figures: &ConnectionFigures) {
        let usage = Usage::of_connection(figures);
        if usage.requests() == 0 {
            return;
        }
        let names = names(identities);
        let mut sums = self.0.lock();
        sums.by_address.add(address.to_canonical(), usage);
        for name in names {
            sums.by_identity.add(name, usage);
        }
    }

    /// Returns the sums.
    pub fn get(&self) -> UsageSums {
        self.0.lock().clone()
    }

    /// Removes all sums, as required by `crst`, which also resets the counters of open connections.
    pub fn reset(&self) {
        *self.0.lock() = UsageSums::default();
    }
}

/// Sums, by key. The most recent keys are listed separately.
#[derive(Debug, Clone)]
pub struct Rows<K> {
    rows: HashMap<K, (u64, Usage)>,
    /// Sum over keys that are no longer listed.
    earlier: Usage,
    /// Number of additions so far.
    additions: u64,
}

impl<K> Default for Rows<K> {
    fn default() -> Self {
        Self {
            rows: HashMap::new(),
            earlier: Usage::default(),
            additions: 0,
        }
    }
}

impl<K: Eq + Hash> Rows<K> {
    fn add(&mut self, key: K, usage: Usage) {
        self.additions += 1;
        let (last, sum) = self.rows.entry(key).or_default();
        *last = self.additions;
        *sum += usage;
        if self.rows.len() > 2 * DEPARTED_MAX {
            self.forget_earlier();
        }
    }

    /// Merges the keys that were used least recently into the sum of older entries. Half of the
    /// keys are merged at a time, so an addition is cheap on average.
    fn forget_earlier(&mut self) {
        let mut times: Vec<u64> = self.rows.values().map(|(last, _)| *last).collect();
        times.sort_unstable();
        let oldest = times.get(times.len() - DEPARTED_MAX).copied();
        let oldest = oldest.unwrap_or(u64::MAX);
        let earlier = &mut self.earlier;
        self.rows.retain(|_, (last, usage)| {
            let stays = *last >= oldest;
            if !stays {
                *earlier += *usage;
            }
            stays
        });
    }

    /// Returns each key with its sum, and the sum over keys that are no longer listed.
    pub fn into_parts(self) -> (impl Iterator<Item = (K, Usage)>, Usage) {
        let rows = self.rows.into_iter().map(|(key, (_, usage))| (key, usage));
        (rows, self.earlier)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn figures(reads: u64, received_bytes: u64) -> ConnectionFigures {
        let stats = crate::counters::ConnectionStats::new(0);
        stats.bytes_received(received_bytes);
        (0..reads).for_each(|_| stats.note_request(false));
        stats.get()
    }

    fn id(scheme: &str, id: &str) -> Id {
        Id {
            scheme: scheme.into(),
            id: id.into(),
        }
    }

    #[test]
    fn names_have_no_address_no_hash_and_no_duplicates() {
        let ids = [
            id("ip", "10.0.0.1"),
            id("digest", "ann:aGFzaA=="),
            id("x509", "CN=bob"),
            id("digest", "ann:bmV3"),
        ];
        assert_eq!(names(&ids), ["digest:ann", "x509:CN=bob"]);
        assert_eq!(names(&ids[..1]), [ANYONE]);
        assert_eq!(
            names(&[id("sasl", &"é".repeat(500))])[0].chars().count(),
            128
        );
    }

    #[test]
    fn the_latest_keys_are_listed_and_the_rest_is_summed() {
        let closed_usage = ClosedConnectionUsage::default();
        let count = 5 * DEPARTED_MAX;
        for number in 0..count {
            let address = Ipv4Addr::from_bits(u32::try_from(number).expect("small"));
            closed_usage.note(address.into(), &[], &figures(1, 10));
        }
        // A connection without requests is not counted as a client.
        closed_usage.note(Ipv4Addr::LOCALHOST.into(), &[], &figures(0, 4));
        let (rows, mut sum) = closed_usage.get().by_address.into_parts();
        let rows: Vec<_> = rows.collect();
        assert!(
            (DEPARTED_MAX..=2 * DEPARTED_MAX).contains(&rows.len()),
            "{}",
            rows.len()
        );
        let last = Ipv4Addr::from_bits(u32::try_from(count - 1).expect("small"));
        assert!(
            rows.iter()
                .any(|(address, _)| *address == IpAddr::from(last))
        );
        rows.into_iter().for_each(|(_, usage)| sum += usage);
        assert_eq!((sum.requests(), sum.received_bytes), (5000, 50_000));
        let (anyone, _) = closed_usage.get().by_identity.into_parts();
        let anyone: Vec<_> = anyone.collect();
        assert_eq!((anyone.len(), anyone[0].1.reads), (1, 5000));
        closed_usage.reset();
        assert_eq!(
            closed_usage.get().by_address.into_parts().1,
            Usage::default()
        );
    }
}
