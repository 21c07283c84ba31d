//! Observers: whom they learn from, and the pauses that keep many of them from coming back all at
//! once.
//!
//! With `observerMasterPort` an observer goes to the voters in turn, in an order of its own, at that
//! port. The leader does not listen there, and the next one is tried after another election.
//!
//! Source: ensemble-protocol.md 7 and 17 (QuorumPeer.findLearnerMaster,
//! Observer.waitForReconnectDelay, Observer.waitForObserverElectionDelay).

use std::time::Duration;

use config::Ensemble;
use config::members::HostPort;
use config::membership::Membership;
use proto::{ConfigVersion, Sid};

use crate::clock;

/// How an observer goes about finding whom to learn from.
#[derive(Debug)]
pub(super) struct Observing {
    /// Up to this long before it connects (`observer.reconnectDelayMs`), ms.
    reconnect_delay_ms: u64,
    /// Up to this long before it looks for a leader again (`observer.election.DelayMs`), ms.
    election_delay_ms: u64,
    /// Where followers serve observers (`observerMasterPort`).
    port: Option<u16>,
    /// Those that may, in the order in which they are tried.
    masters: Vec<(Sid, Vec<HostPort>)>,
    /// The list that they are from.
    version: Option<ConfigVersion>,
    next: usize,
}

/// Whom an observer learns from.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Master {
    pub(super) sid: Sid,
    pub(super) addresses: Vec<HostPort>,
    /// To be waited for before it is dialled.
    pub(super) pause: Duration,
}

impl Observing {
    pub(super) fn new(ensemble: &Ensemble) -> Self {
        let learner = &ensemble.learner;
        Self {
            reconnect_delay_ms: learner.observer_reconnect_delay_ms,
            election_delay_ms: learner.observer_election_delay_ms,
            port: learner.observer_master_port,
            masters: Vec::new(),
            version: None,
            next: 0,
        }
    }

    /// `observerMasterPort`.
    pub(super) fn port(&self) -> Option<u16> {
        self.port
    }

    /// Whom to learn from now: the leader, or the next of those that serve observers. There is a
    /// pause before the leader, and each time all the others have been tried.
    pub(super) fn next_master(
        &mut self,
        list: &Membership,
        (leader, addresses): (Sid, Vec<HostPort>),
    ) -> Master {
        let Some(port) = self.port else {
            return Master {
                sid: leader,
                addresses,
                pause: self.pause_before_dial(),
            };
        };
        if self.version != Some(list.version) {
            self.version = Some(list.version);
            self.masters = masters(list, port);
            shuffle(&mut self.masters, clock::seed());
            self.next = 0;
        }
        let mut pause = Duration::ZERO;
        if self.next >= self.masters.len() {
            self.next = 0;
            pause = self.pause_before_dial();
        }
        let master = self.masters.get(self.next).cloned();
        self.next += 1;
        let (sid, addresses) = master.unwrap_or((leader, addresses));
        Master {
            sid,
            addresses,
            pause,
        }
    }

    fn pause_before_dial(&self) -> Duration {
        Duration::from_millis(random_below(self.reconnect_delay_ms, clock::seed()))
    }

    /// A pause before it looks for a leader again, ms.
    pub(super) fn pause_before_look_ms(&self) -> i64 {
        let pause_ms = random_below(self.election_delay_ms, clock::seed());
        i64::try_from(pause_ms).unwrap_or(i64::MAX)
    }
}

/// The same hosts at another port.
pub(crate) fn at_port(addresses: &[HostPort], port: u16) -> Vec<HostPort> {
    let hosts = addresses.iter().map(|address| address.host.clone());
    hosts.map(|host| HostPort { host, port }).collect()
}

fn masters(list: &Membership, port: u16) -> Vec<(Sid, Vec<HostPort>)> {
    let quorum = list.quorum();
    let voters = quorum.voters().iter();
    let masters = voters.filter_map(|sid| {
        let at = list.members.get(sid)?.quorum_addresses();
        let at = at.into_iter().collect::<Vec<_>>();
        Some((*sid, at_port(&at, port)))
    });
    masters.collect()
}

/// So that not all observers go to the same server.
fn shuffle<T>(items: &mut [T], seed: u64) {
    for last in (1..items.len()).rev() {
        let seed = seed.wrapping_add(last as u64);
        let other = random_below(last as u64 + 1, seed);
        items.swap(last, usize::try_from(other).unwrap_or(0));
    }
}

/// A number below `max`, or 0 if that is.
fn random_below(max: u64, seed: u64) -> u64 {
    // Neighbouring seeds are to be far apart.
    let spread = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // The upper half of a product of 64 bits each is below its factors.
    u64::try_from((u128::from(spread) * u128::from(max)) >> 64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(port: u16) -> HostPort {
        let host = "127.0.0.1".to_owned();
        HostPort { host, port }
    }

    fn observing(port: Option<u16>) -> Observing {
        Observing {
            reconnect_delay_ms: u64::MAX,
            election_delay_ms: 0,
            port,
            masters: Vec::new(),
            version: None,
            next: 0,
        }
    }

    fn list(version: i64) -> Membership {
        let text = "server.1=127.0.0.1:11:21\nserver.2=127.0.0.1:12:22\n\
                    server.3=127.0.0.1:13:23\nserver.4=127.0.0.1:14:24:observer\n";
        let version = ConfigVersion(version);
        let list = Membership::parse(text, false).unwrap();
        Membership { version, ..list }
    }

    #[test]
    fn all_voters_are_tried_at_the_port_for_observers_before_any_is_tried_again() {
        let mut observing = observing(Some(2191));
        let leader = (Sid(3), vec![host(13)]);
        let mut round = |version| -> Vec<Master> {
            let next = |_| observing.next_master(&list(version), leader.clone());
            (0..3).map(next).collect()
        };
        for version in [0, 0, 7] {
            let mut masters = round(version);
            masters.sort_by_key(|master| master.sid);
            let sids: Vec<Sid> = masters.iter().map(|master| master.sid).collect();
            assert_eq!(sids, [Sid(1), Sid(2), Sid(3)]);
            assert!(
                masters
                    .iter()
                    .all(|master| master.addresses == [host(2191)])
            );
        }
    }

    #[test]
    fn without_a_port_for_observers_it_is_the_leader_after_a_pause() {
        let mut observing = observing(None);
        let master = observing.next_master(&list(0), (Sid(3), vec![host(13)]));
        assert_eq!((master.sid, master.addresses), (Sid(3), vec![host(13)]));
    }

    #[test]
    fn pauses_are_spread_below_their_limit() {
        let of = |max| (0..100).map(move |seed| random_below(max, seed));
        assert!(of(0).all(|pause| pause == 0));
        assert!(of(200).all(|pause| pause < 200));
        assert!(of(200).any(|pause| pause < 20) && of(200).any(|pause| pause >= 180));
        assert!(of(u64::MAX).any(|pause| pause > u64::MAX / 2));
    }
}
