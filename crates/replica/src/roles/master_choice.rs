//! An observer's choice of the server to learn from, and the pauses that spread the reconnects of
//! many observers over time.
//!
//! With `observerMasterPort`, an observer connects to that port of the voters in turn, in a random
//! order. A connection to the leader fails, because the leader does not listen on that port. The
//! observer tries the next server after another election.
//!
//! Source: QuorumPeer.findLearnerMaster, Observer.waitForReconnectDelay,
//! Observer.waitForObserverElectionDelay.

use config::members::HostPort;
use config::membership::Membership;
use fastrand::Rng;
use proto::{ConfigVersion, Sid};

use crate::interface::settings::ObserverSettings;

/// State of an observer's choice of the server to learn from.
#[derive(Debug)]
pub(crate) struct MasterChoice {
    settings: ObserverSettings,
    rng: Rng,
    /// Servers that serve observers, in the order in which they are tried.
    masters: Vec<(Sid, Vec<HostPort>)>,
    /// Version of the member list from which `masters` was derived.
    version: Option<ConfigVersion>,
    next: usize,
}

/// Server to learn from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Master {
    pub(crate) sid: Sid,
    pub(crate) addresses: Vec<HostPort>,
    /// Pause before connecting, ms.
    pub(crate) pause_ms: u64,
}

impl MasterChoice {
    pub(crate) fn new(settings: ObserverSettings, seed: u64) -> Self {
        Self {
            settings,
            rng: Rng::with_seed(seed),
            masters: Vec::new(),
            version: None,
            next: 0,
        }
    }

    /// Returns the server to learn from now: the leader, or the next server that serves observers.
    /// There is a pause before each connection to the leader, and before another round of attempts
    /// after all servers have been tried.
    pub(crate) fn next(&mut self, list: &Membership, leader: Master) -> Master {
        let Some(port) = self.settings.master_port else {
            return Master {
                pause_ms: self.pause_before_dial_ms(),
                ..leader
            };
        };
        if self.version != Some(list.version) {
            self.version = Some(list.version);
            self.masters = masters(list, port);
            // Spreads the observers over the servers.
            self.rng.shuffle(&mut self.masters);
            self.next = 0;
        }
        let mut pause_ms = 0;
        if self.next >= self.masters.len() {
            self.next = 0;
            pause_ms = self.pause_before_dial_ms();
        }
        let master = self.masters.get(self.next).cloned();
        self.next += 1;
        let (sid, addresses) = master.unwrap_or((leader.sid, leader.addresses));
        Master {
            sid,
            addresses,
            pause_ms,
        }
    }

    fn pause_before_dial_ms(&mut self) -> u64 {
        below(&mut self.rng, self.settings.reconnect_delay_ms)
    }

    /// Returns the pause before looking for a leader again, ms.
    pub(crate) fn pause_before_look_ms(&mut self) -> i64 {
        let pause_ms = below(&mut self.rng, self.settings.election_delay_ms);
        i64::try_from(pause_ms).unwrap_or(i64::MAX)
    }
}

/// Returns these hosts with another port.
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

/// Returns a random number below `max`, or 0 if `max` is 0.
fn below(rng: &mut Rng, max: u64) -> u64 {
    match max {
        0 => 0,
        max => rng.u64(..max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(port: u16) -> HostPort {
        let host = "127.0.0.1".to_owned();
        HostPort { host, port }
    }

    fn choice(master_port: Option<u16>) -> MasterChoice {
        let settings = ObserverSettings {
            reconnect_delay_ms: u64::MAX,
            election_delay_ms: 0,
            master_port,
        };
        MasterChoice::new(settings, 7)
    }

    fn leader() -> Master {
        Master {
            sid: Sid(3),
            addresses: vec![host(13)],
            pause_ms: 0,
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
        let mut choice = choice(Some(2191));
        for version in [0, 0, 7] {
            let next = |_| choice.next(&list(version), leader());
            let mut masters: Vec<Master> = (0..3).map(next).collect();
            masters.sort_by_key(|master| master.sid);
            let sids: Vec<Sid> = masters.iter().map(|master| master.sid).collect();
            assert_eq!(sids, [Sid(1), Sid(2), Sid(3)]);
            let at_port = |master: &Master| master.addresses == [host(2191)];
            assert!(masters.iter().all(at_port));
        }
    }

    #[test]
    fn without_observer_masters_an_observer_tries_the_leader_after_a_pause() {
        let master = choice(None).next(&list(0), leader());
        assert_eq!((master.sid, master.addresses), (Sid(3), vec![host(13)]));
        assert!(master.pause_ms > 0);
    }

    #[test]
    fn pauses_are_spread_below_their_limit() {
        let mut rng = Rng::with_seed(1);
        let mut of = |max| -> Vec<u64> { (0..100).map(|_| below(&mut rng, max)).collect() };
        assert!(of(0).iter().all(|pause| *pause == 0));
        let pauses = of(200);
        assert!(pauses.iter().all(|pause| *pause < 200));
        assert!(pauses.iter().any(|pause| *pause < 20));
        assert!(pauses.iter().any(|pause| *pause >= 180));
    }
}
