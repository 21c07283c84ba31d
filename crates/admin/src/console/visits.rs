//! Visits: pages that are open in browsers, with their tokens, logins and sessions.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use proto::{Id, Secret};

use super::session::ZnodeSession;
use crate::limits::{VISIT_IDLE_MS, VISIT_YIELDS_MS, VISITS_MAX, VISITS_OF_ADDRESS_MAX};

/// Credentials of a visitor, with which each session of the visitor is authenticated.
#[derive(Debug, Clone)]
pub(crate) enum Login {
    /// `user:password` of the scheme `digest`.
    Digest(Secret),
    /// User and password of SASL, and the identities that the server has assigned.
    Sasl(client::Login, Vec<Id>),
    /// Subject of the certificate that the browser presents.
    Certificate(String),
}

/// Page that is open in a browser.
#[derive(Debug)]
pub(crate) struct Visit {
    /// Address from which the visit began. The session uses it for the scheme `ip`.
    address: IpAddr,
    /// Time of the last request on the monotonic clock, in ms.
    heard_ms: AtomicU64,
    /// Login and session. The lock is held while a session is opened, so that only one session is
    /// opened.
    pub(crate) state: tokio::sync::Mutex<VisitState>,
}

/// Login and session of a visit.
#[derive(Debug, Default)]
pub(crate) struct VisitState {
    /// Login of the visitor. A visitor without a login has only the permissions of all clients.
    pub(crate) login: Option<Login>,
    /// Session of the visit. A request opens it if it is missing or has ended.
    pub(crate) session: Option<Arc<ZnodeSession>>,
}

impl VisitState {
    /// Returns whether a caller with a certificate of this subject, if any, may use the login.
    pub(crate) fn admits(&self, subject: Option<&String>) -> bool {
        match &self.login {
            Some(Login::Certificate(own)) => subject == Some(own),
            _ => true,
        }
    }
}

/// All visits, by token.
#[derive(Debug, Default)]
pub(crate) struct Visits(Mutex<HashMap<String, Arc<Visit>>>);

impl Visits {
    /// Begins a visit. If there are too many visits, the new visit replaces the visit that has been
    /// idle for the longest time. Returns false if that visit has been idle for less than
    /// [`VISIT_YIELDS_MS`].
    pub(crate) fn begin(&self, token: String, address: IpAddr, now_ms: u64) -> bool {
        self.forget_idle(now_ms);
        let mut visits = self.0.lock();
        let is_same = |visit: &Visit| visit.address == address;
        let of_address = visits.values().filter(|visit| is_same(visit)).count();
        let is_crowd = of_address >= VISITS_OF_ADDRESS_MAX;
        if is_crowd || visits.len() >= VISITS_MAX {
            // An address with many visits can only replace one of its own visits.
            let silent = visits
                .iter()
                .filter(|(_, visit)| !is_crowd || is_same(visit))
                .max_by_key(|(_, visit)| visit.silent_ms(now_ms));
            let yields = silent.filter(|(_, visit)| visit.silent_ms(now_ms) >= VISIT_YIELDS_MS);
            let Some(token) = yields.map(|(token, _)| token.clone()) else {
                return false;
            };
            visits.remove(&token);
        }
        let visit = Visit {
            address,
            heard_ms: AtomicU64::new(now_ms),
            state: tokio::sync::Mutex::default(),
        };
        visits.insert(token, Arc::new(visit));
        true
    }

    /// Removes the visits that have expired. Their credentials must not stay in memory.
    pub(crate) fn forget_idle(&self, now_ms: u64) {
        let is_fresh = |visit: &Visit| visit.silent_ms(now_ms) < VISIT_IDLE_MS;
        self.0.lock().retain(|_, visit| is_fresh(visit));
    }

    /// Returns the visit with this token, if it began at this address and has not expired.
    pub(crate) fn find(&self, token: &str, address: IpAddr, now_ms: u64) -> Option<Arc<Visit>> {
        let visits = self.0.lock();
        let visit = visits.get(token)?;
        if visit.address != address || visit.silent_ms(now_ms) >= VISIT_IDLE_MS {
            return None;
        }
        visit.heard_ms.store(now_ms, Ordering::Relaxed);
        Some(visit.clone())
    }
}

impl Visit {
    fn silent_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.heard_ms.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

    #[test]
    fn a_token_counts_where_it_was_given_and_for_a_while() {
        let visits = Visits::default();
        assert!(visits.begin("a".to_owned(), HERE, 1_000));
        assert!(visits.find("a", HERE, 2_000).is_some());
        assert!(visits.find("a", THERE, 2_000).is_none());
        assert!(visits.find("b", HERE, 2_000).is_none());
        assert!(visits.find("a", HERE, 1_999 + VISIT_IDLE_MS).is_some());
        assert!(visits.find("a", HERE, 2_000 + 2 * VISIT_IDLE_MS).is_none());
        visits.forget_idle(1_998 + 2 * VISIT_IDLE_MS);
        assert_eq!(visits.0.lock().len(), 1);
        visits.forget_idle(1_999 + 2 * VISIT_IDLE_MS);
        assert!(visits.0.lock().is_empty());
    }

    #[test]
    fn a_crowd_of_one_address_keeps_nobody_else_out() {
        let visits = Visits::default();
        for number in 0..VISITS_OF_ADDRESS_MAX {
            assert!(visits.begin(number.to_string(), HERE, 1_000));
        }
        assert!(!visits.begin("more".to_owned(), HERE, 1_000));
        assert!(visits.begin("other".to_owned(), THERE, 1_000));
    }

    #[test]
    fn a_newcomer_takes_the_place_of_the_silent_only() {
        let visits = Visits::default();
        for number in 0..VISITS_MAX {
            let address = if number < VISITS_OF_ADDRESS_MAX {
                HERE
            } else {
                THERE
            };
            assert!(visits.begin(number.to_string(), address, 1_000));
        }
        assert!(!visits.begin("more".to_owned(), HERE, 1_001));
        let later = 1_000 + VISIT_YIELDS_MS;
        assert!(visits.find("0", HERE, later).is_some());
        assert!(visits.begin("more".to_owned(), HERE, later));
        assert!(visits.find("0", HERE, later).is_some());
        assert!(visits.find("more", HERE, later).is_some());
    }
}
