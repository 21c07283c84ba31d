//! Remaining budget of one address or identity.

use std::collections::HashSet;
use std::sync::Arc;

use config::Budget;
use executor::sync::Mutex;
use proto::SessionId;
use replica::connection::ResourceCounts;
use tokio::sync::{Semaphore, SemaphorePermit};
use tree::WatcherId;

use super::key::ShareKey;
use super::rate::Rate;
use super::resources::ShareResources;

/// Remaining budget of one address or identity.
pub struct Share {
    budget: Arc<Budget>,
    key: ShareKey,
    /// Turns of the connections that wait for the share, in the order of their arrival.
    turn: Semaphore,
    account: Mutex<Account>,
    /// Held watches and ephemerals, if the budget bounds them.
    resources: Option<Mutex<ShareResources>>,
}

struct Account {
    requests: Option<Rate>,
    bytes: Option<Rate>,
    /// Time of the last log line.
    logged_ms: Option<u64>,
}

/// Cost of requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Number of requests.
    pub requests: usize,
    /// Bytes of the requests.
    pub bytes: usize,
}

/// Turn of a connection that waits for a share. Dropping it ends the turn.
pub struct Turn<'a> {
    account: &'a Mutex<Account>,
    _permit: Option<SemaphorePermit<'a>>,
}

const MINUTE_MS: u64 = 60_000;

/// Number of turns per second among which a share divides its budget. With fewer turns, connections
/// would wait too long.
const TURNS_PER_SECOND: u32 = 10;

impl Turn<'_> {
    /// Charges `cost` to the share and returns 0 if the share is not in debt. Otherwise charges
    /// nothing and returns the time in ms until the debt is paid.
    pub fn pay(&self, cost: Cost, now_ms: u64) -> u64 {
        self.account.lock().pay(cost, now_ms)
    }
}

/// Returns whether a budget bounds watches or ephemerals.
pub(super) fn bounds_resources(budget: &Budget) -> bool {
    budget.watches.is_some() || budget.watch_bytes.is_some() || budget.ephemerals.is_some()
}

impl Share {
    pub(super) fn new(budget: Arc<Budget>, key: ShareKey, now_ms: u64) -> Self {
        let rate = |per_second: Option<u32>| Some(Rate::new(per_second?, now_ms));
        let budget_bounds_resources = bounds_resources(&budget);
        let account = Account {
            requests: rate(budget.requests_per_second),
            bytes: rate(budget.bytes_per_second),
            logged_ms: None,
        };
        Self {
            budget,
            key,
            turn: Semaphore::new(1),
            account: Mutex::new(account),
            resources: budget_bounds_resources.then(Mutex::default),
        }
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Returns the name of the budget in the configuration.
    pub fn name(&self) -> &str {
        &self.budget.name
    }

    /// Returns the maximum cost that a connection may pay in one turn, which is at least one
    /// request.
    pub fn cost_max(&self) -> Cost {
        let part = |per_second: Option<u32>| {
            let part = per_second.map(|rate| (rate / TURNS_PER_SECOND).max(1) as usize);
            part.unwrap_or(usize::MAX)
        };
        Cost {
            requests: part(self.budget.requests_per_second),
            bytes: part(self.budget.bytes_per_second),
        }
    }

    /// Charges `cost` to the share and returns true if the connection need not wait. Otherwise
    /// charges nothing.
    pub fn pay_now(&self, cost: Cost, now_ms: u64) -> bool {
        let turn = self.turn.try_acquire();
        turn.is_ok() && self.account.lock().pay(cost, now_ms) == 0
    }

    /// Waits for a turn. The oldest waiter is served first.
    pub async fn turn(&self) -> Turn<'_> {
        // The semaphore is never closed, so a permit is always returned.
        let permit = self.turn.acquire().await.ok();
        Turn {
            account: &self.account,
            _permit: permit,
        }
    }

    /// Returns the name and value of the bound for which connections wait, if a log line about it
    /// is due. If so, marks the line as written.
    pub(super) fn is_due(&self, now_ms: u64) -> Option<(&'static str, u32)> {
        let mut account = self.account.lock();
        let bound = account.bound_in_debt(now_ms)?;
        account.is_log_due(now_ms).then_some(bound)
    }

    /// Returns whether a log line is due, which is the case if the last line is older than a
    /// minute. If so, marks the line as written.
    pub(super) fn is_log_due(&self, now_ms: u64) -> bool {
        self.account.lock().is_log_due(now_ms)
    }

    pub(super) fn key(&self) -> &ShareKey {
        &self.key
    }

    /// Returns the connections that use this share if their holdings are bounded and the last count
    /// is old. Marks them as counted.
    pub fn connections_to_count(&self, now_ms: u64) -> Option<Vec<WatcherId>> {
        self.with_resources(|resources| resources.is_due(now_ms).then(|| resources.connections()))
            .flatten()
    }

    /// Sets the holding of a connection. `None` means that the connection has ended. The caller
    /// must hold the connection's lock since it counted the holding, because a request that the
    /// connection makes meanwhile would be forgotten.
    pub fn note_resources(&self, connection: WatcherId, counts: Option<ResourceCounts>) {
        self.with_resources(|resources| match counts {
            Some(counts) => resources.set(connection, counts),
            None => resources.leave(connection),
        });
    }

    /// Returns the disconnected sessions that may still be alive, and had disconnected before
    /// [`connections_to_count`](Self::connections_to_count). `connected` contains the sessions of
    /// the connections that use this share.
    pub fn disconnected(&self, connected: &HashSet<SessionId>, now_ms: u64) -> Vec<SessionId> {
        let disconnected =
            self.with_resources(|resources| resources.disconnected(connected, now_ms));
        disconnected.unwrap_or_default()
    }

    /// Sets the number of ephemerals of the sessions that [`disconnected`](Self::disconnected) has
    /// returned.
    pub fn note_disconnected(&self, ephemerals: usize) {
        self.with_resources(|resources| resources.note_disconnected(ephemerals));
    }

    /// Calls `update` with the holdings of the share. Returns `None` if they are not bounded.
    pub(super) fn with_resources<T>(
        &self,
        update: impl FnOnce(&mut ShareResources) -> T,
    ) -> Option<T> {
        self.resources
            .as_ref()
            .map(|resources| update(&mut resources.lock()))
    }

    /// Returns whether an unused share is equivalent to a new one. This is the case if its rates
    /// are full and no disconnected session may still be alive.
    pub(super) fn is_unused(&self, now_ms: u64) -> bool {
        let has_disconnected = self.with_resources(|resources| resources.has_disconnected(now_ms));
        has_disconnected != Some(true) && self.account.lock().is_full(now_ms)
    }
}

impl Account {
    /// Charges `cost` to the account and returns 0 if the account is not in debt. Otherwise charges
    /// nothing and returns the time in ms until the debt is paid.
    fn pay(&mut self, cost: Cost, now_ms: u64) -> u64 {
        let rates = [self.requests.as_mut(), self.bytes.as_mut()];
        let waits = rates.into_iter().flatten().map(|rate| rate.wait_ms(now_ms));
        let wait_ms = waits.max().unwrap_or(0);
        if wait_ms == 0 {
            if let Some(requests) = &mut self.requests {
                requests.pay(cost.requests as u64);
            }
            if let Some(bytes) = &mut self.bytes {
                bytes.pay(cost.bytes as u64);
            }
        }
        wait_ms
    }

    /// Returns the bound that is in debt, and its value.
    fn bound_in_debt(&mut self, now_ms: u64) -> Option<(&'static str, u32)> {
        let rates = [
            ("requestsPerSecond", &mut self.requests),
            ("bytesPerSecond", &mut self.bytes),
        ];
        rates.into_iter().find_map(|(bound, rate)| {
            let rate = rate.as_mut()?;
            (rate.wait_ms(now_ms) > 0).then(|| (bound, rate.per_second()))
        })
    }

    /// Returns whether a log line is due, which is the case if the last line is older than a
    /// minute. If so, marks the line as written.
    fn is_log_due(&mut self, now_ms: u64) -> bool {
        let was_logged = |logged_ms: u64| now_ms.saturating_sub(logged_ms) < MINUTE_MS;
        let is_log_due = !self.logged_ms.is_some_and(was_logged);
        if is_log_due {
            self.logged_ms = Some(now_ms);
        }
        is_log_due
    }

    fn is_full(&mut self, now_ms: u64) -> bool {
        let rates = [self.requests.as_mut(), self.bytes.as_mut()];
        let mut rates = rates.into_iter().flatten();
        rates.all(|rate| rate.is_full(now_ms))
    }
}
