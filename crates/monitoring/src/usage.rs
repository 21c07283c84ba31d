//! Who does what: what clients have asked of this server, by address and by identity.
//!
//! Connections count for themselves ([`crate::metrics::ConnectionStats`]), which costs them nothing that they share.
//! Sums are made when somebody asks; those of connections that have ended are kept here, so that a client which
//! connects anew for every request is seen as well.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::ops::AddAssign;

use parking_lot::Mutex;
use proto::Id;
use tree::auth::{IP, user_name};

use crate::metrics::ConnectionFigures;
use crate::view::ConnectionInfo;

/// Addresses, and identities, whose connections have all ended and that are still told apart. Twice as many may be
/// there for a moment; the sum of older ones is kept.
pub const DEPARTED_MAX: usize = 1000;

/// Identities of a connection that are counted: most have one.
const IDENTITIES_COUNTED: usize = 8;

/// Characters of a name that are kept.
const NAME_CHARS_MAX: usize = 128;

/// Whoever has proved nothing.
pub const ANYONE: &str = "anyone";

/// What was asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Connections that are open.
    pub connections: u64,
    /// Reads that were answered.
    pub reads: u64,
    /// Writes that were answered.
    pub writes: u64,
    /// Bytes of requests, pings too.
    pub received_bytes: u64,
    /// Bytes of replies and events.
    pub sent_bytes: u64,
    /// Requests that wait for their reply.
    pub outstanding: u64,
    /// Watches.
    pub watches: u64,
    /// Ephemeral znodes.
    pub ephemerals: u64,
    /// Requests that had to wait, or were refused, because of a budget.
    pub throttled: u64,
    /// The longest time to a reply, ms; of connections that are open.
    pub max_latency_ms: u64,
}

impl Usage {
    /// Reads and writes that were answered.
    pub fn requests(&self) -> u64 {
        self.reads + self.writes
    }

    /// Of a connection that has ended: what it held is gone.
    fn departed(figures: &ConnectionFigures) -> Self {
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

/// A connection with a session, and what belongs to it.
#[derive(Debug, Clone)]
pub struct ClientInfo {
    /// The connection.
    pub connection: ConnectionInfo,
    /// Who it is.
    pub names: Vec<String>,
    /// The budgets that it obeys.
    pub budgets: Vec<String>,
    /// Its watches.
    pub watches: u64,
    /// The ephemerals of its session.
    pub ephemerals: u64,
}

impl ClientInfo {
    /// What it has asked for, and what it holds.
    pub fn usage(&self) -> Usage {
        let figures = &self.connection.figures;
        Usage {
            connections: 1,
            outstanding: self.connection.queued,
            watches: self.watches,
            ephemerals: self.ephemerals,
            max_latency_ms: figures.max_latency_ms,
            ..Usage::departed(figures)
        }
    }

    /// Its address, without the port.
    pub fn address(&self) -> IpAddr {
        self.connection.peer.ip().to_canonical()
    }
}

/// What identities are called here: `scheme:user`, no address and no hash of a password; [`ANYONE`] if there is none.
pub fn names(identities: &[Id]) -> Vec<String> {
    let proved = identities.iter().filter(|id| &*id.scheme != IP);
    let mut names: Vec<String> = proved.take(IDENTITIES_COUNTED).map(name_of).collect();
    names.dedup();
    if names.is_empty() {
        names.push(ANYONE.to_owned());
    }
    names
}

/// What one identity is called, see [`names`].
pub fn name_of(id: &Id) -> String {
    let (scheme, user) = (&*id.scheme, user_name(id));
    let full = scheme.chars().chain(":".chars()).chain(user.chars());
    full.take(NAME_CHARS_MAX).collect()
}

/// What connections had asked for that have ended.
#[derive(Debug, Default)]
pub struct Departed(Mutex<Sums>);

/// Sums of connections that have ended.
#[derive(Debug, Clone, Default)]
pub struct Sums {
    /// By address.
    pub by_address: Rows<IpAddr>,
    /// By identity; a connection with several counts for each.
    pub by_identity: Rows<String>,
}

impl Departed {
    /// A connection has ended.
    pub fn note(&self, address: IpAddr, identities: &[Id], figures: &ConnectionFigures) {
        let usage = Usage::departed(figures);
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

    /// The sums.
    pub fn get(&self) -> Sums {
        self.0.lock().clone()
    }

    /// Forgets all of it, as `crst` does with what connections have counted.
    pub fn reset(&self) {
        *self.0.lock() = Sums::default();
    }
}

/// Sums by something, the latest of them told apart.
#[derive(Debug, Clone)]
pub struct Rows<K> {
    rows: HashMap<K, (u64, Usage)>,
    /// Of those that are told apart no longer.
    earlier: Usage,
    /// How often something was added.
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

    /// Half of them at a time, so that each addition costs little on the whole.
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

    /// Each with its sum, and the sum of those that are told apart no longer.
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
        let stats = crate::metrics::ConnectionStats::new(0);
        stats.bytes_received(received_bytes);
        (0..reads).for_each(|_| stats.asked(false));
        stats.get()
    }

    fn id(scheme: &str, id: &str) -> Id {
        Id {
            scheme: scheme.into(),
            id: id.into(),
        }
    }

    #[test]
    fn names_have_no_address_and_no_hash() {
        let ids = [
            id("ip", "10.0.0.1"),
            id("digest", "ann:aGFzaA=="),
            id("x509", "CN=bob"),
        ];
        assert_eq!(names(&ids), ["digest:ann", "x509:CN=bob"]);
        assert_eq!(names(&ids[..1]), [ANYONE]);
        assert_eq!(
            names(&[id("sasl", &"é".repeat(500))])[0].chars().count(),
            128
        );
    }

    #[test]
    fn the_latest_are_told_apart_and_nothing_is_lost() {
        let departed = Departed::default();
        let count = 5 * DEPARTED_MAX;
        for number in 0..count {
            let address = Ipv4Addr::from_bits(u32::try_from(number).expect("small"));
            departed.note(address.into(), &[], &figures(1, 10));
        }
        // What has asked for nothing is no client.
        departed.note(Ipv4Addr::LOCALHOST.into(), &[], &figures(0, 4));
        let (rows, mut sum) = departed.get().by_address.into_parts();
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
        let (anyone, _) = departed.get().by_identity.into_parts();
        let anyone: Vec<_> = anyone.collect();
        assert_eq!((anyone.len(), anyone[0].1.reads), (1, 5000));
        departed.reset();
        assert_eq!(departed.get().by_address.into_parts().1, Usage::default());
    }
}
