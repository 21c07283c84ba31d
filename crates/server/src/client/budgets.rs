//! Budgets of addresses and identities (`budget.<name>.*`). A client that exceeds its budget waits.
//!
//! Each address or identity has a share, which all its connections use together. A connection pays
//! each of its shares before its requests are decoded, so waiting requests do not hold memory that
//! other connections may need. Connections that wait for one share take turns. A request that would
//! hold too many watches or ephemerals is refused (`budget_held`).

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use config::{Budget, Who};
use log_limiter::LogLimiter;
use monitoring::usage::{ANYONE, name_of};
use parking_lot::Mutex;
use proto::Id;
use tokio::sync::Semaphore;
use tree::auth::{IP, user_name};

use super::budget_held::{Beyond, HeldBy};
use super::budget_obeyed::{Obeyed, Refused};
use super::budget_rate::Rate;
use super::connection::Connection;
use super::failures::network;
use crate::{clock, limits};

/// All budgets of a server, and the shares in use.
pub(crate) struct Budgets {
    budgets: Vec<Arc<Budget>>,
    shares: Mutex<Shares>,
    log_limiter: LogLimiter,
}

#[derive(Default)]
struct Shares {
    /// Shares, by the index of the budget and by the holder.
    by_holder: HashMap<(usize, Holder), Arc<Share>>,
    /// Number of shares above which unused shares are removed.
    many: usize,
}

/// The holder of a share.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Holder {
    /// An address, or a 64-bit network for IPv6.
    Address(IpAddr),
    /// A name as in the output of the admin command `clients`.
    Identity(String),
}

/// The remainder of a budget for one address or identity.
pub(crate) struct Share {
    budget: Arc<Budget>,
    holder: Holder,
    /// First-come, first-served turns of the connections that wait for the share.
    turn: Semaphore,
    account: Mutex<Account>,
    /// Held watches and ephemerals, if the budget bounds them.
    held: Option<Mutex<HeldBy>>,
}

struct Account {
    requests: Option<Rate>,
    bytes: Option<Rate>,
    /// Time of the last log line.
    told_ms: Option<u64>,
}

/// Cost of requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) requests: usize,
    pub(super) bytes: usize,
}

const MINUTE_MS: u64 = 60_000;

/// Turns of a connection per second. Fewer turns would make connections wait for long.
const TURNS_PER_SECOND: u32 = 10;

impl Budgets {
    /// Returns `None` if budgets are not configured.
    pub(crate) fn new(budgets: &[Budget]) -> Option<Self> {
        let budgets = budgets.iter().cloned();
        let budgets: Vec<_> = budgets.map(Arc::new).collect();
        (!budgets.is_empty()).then(|| Self {
            budgets,
            shares: Mutex::default(),
            log_limiter: LogLimiter::of("budgets"),
        })
    }

    /// Returns the shares of a connection. They are determined again only when its identities
    /// change.
    pub(super) fn of(&self, connection: &Connection) -> Arc<[Arc<Share>]> {
        let mut state = connection.lock();
        let identities = &state.client.identities;
        if let Some(obeyed) = state.obeyed.as_ref().filter(|it| it.holds_for(identities)) {
            return obeyed.shares();
        }
        let identities = identities.clone();
        let address = connection.peer.ip().to_canonical();
        if let Some(obeyed) = state.obeyed.take() {
            obeyed.leave(connection);
        }
        let shares = self.find((address, &identities), clock::monotonic_ms());
        let obeyed = Obeyed::begin(connection, identities, shares.clone());
        state.obeyed = Some(Box::new(obeyed));
        shares
    }

    /// Returns whether a budget bounds watches or ephemerals.
    pub(super) fn bounds_holding(&self) -> bool {
        self.budgets.iter().any(|budget| bounds_holding(budget))
    }

    fn find(&self, who: (IpAddr, &[Id]), now_ms: u64) -> Arc<[Arc<Share>]> {
        let mut shares = self.shares.lock();
        let mut found = Vec::new();
        for (place, budget) in self.budgets.iter().enumerate() {
            let holders = holders(&budget.who, who);
            found.extend(holders.into_iter().map(|holder| {
                let key = (place, holder.clone());
                let make = || Arc::new(Share::new(budget.clone(), holder, now_ms));
                shares.by_holder.entry(key).or_insert_with(make).clone()
            }));
        }
        shares.forget_unused(now_ms);
        found.into()
    }

    /// Logs that requests wait for a share, at most once per minute.
    pub(super) fn tell_of_wait(&self, share: &Share, now_ms: u64) {
        if let Some((bound, value)) = share.is_due(now_ms) {
            self.log(share, (bound, value, "requests over a budget wait"));
        }
    }

    /// Logs that a request was refused, at most once per minute. Locks must not be held.
    pub(super) fn tell_of_refusal(&self, Refused { share, beyond }: &Refused) {
        let now_ms = clock::monotonic_ms();
        let Beyond { bound, value } = *beyond;
        if share.account.lock().is_news(now_ms) {
            let what = "refusing a request over a budget";
            self.log(share, (bound, value, what));
        }
    }

    fn log(&self, share: &Share, (bound, value, what): (&str, u32, &str)) {
        log_limiter::limited!(in self.log_limiter => warn, budget = %share.budget.name, who = %share.holder, bound, value, "{what}");
    }
}

fn bounds_holding(budget: &Budget) -> bool {
    budget.watches.is_some() || budget.watch_bytes.is_some() || budget.ephemerals.is_some()
}

/// Returns the holders whose shares apply to a client with this address and these identities.
fn holders(who: &Who, (address, identities): (IpAddr, &[Id])) -> Vec<Holder> {
    let of_address = || vec![Holder::Address(network(address))];
    let of_users = |is_meant: &dyn Fn(&Id) -> bool| {
        let names = identities.iter().filter(|id| is_meant(id)).map(name_of);
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().map(Holder::Identity).collect()
    };
    match who {
        Who::Network(network) if network.contains(address) => of_address(),
        Who::Network(_) => Vec::new(),
        Who::AnyAddress => of_address(),
        Who::AnyUser { scheme } => of_users(&|id| *id.scheme == **scheme),
        Who::User { scheme, user } => {
            of_users(&|id| *id.scheme == **scheme && user_name(id) == user)
        }
        Who::Anyone if identities.iter().all(|id| &*id.scheme == IP) => {
            vec![Holder::Identity(ANYONE.to_owned())]
        }
        Who::Anyone => Vec::new(),
    }
}

impl Shares {
    /// Removes shares that are full and not used by a connection, if there are many shares.
    fn forget_unused(&mut self, now_ms: u64) {
        if self.by_holder.len() <= self.many.max(limits::BUDGET_SHARES_KEPT) {
            return;
        }
        // A connection acquires its shares under the lock of all shares, so none can be acquired
        // meanwhile.
        self.by_holder
            .retain(|_, share| Arc::strong_count(share) > 1 || !share.is_as_new(now_ms));
        // This makes the amortized cost of an addition small.
        self.many = 2 * self.by_holder.len();
    }
}

impl Share {
    fn new(budget: Arc<Budget>, holder: Holder, now_ms: u64) -> Self {
        let rate = |per_second: Option<u32>| Some(Rate::new(per_second?, now_ms));
        let budget_bounds_holding = bounds_holding(&budget);
        let account = Account {
            requests: rate(budget.requests_per_second),
            bytes: rate(budget.bytes_per_second),
            told_ms: None,
        };
        Self {
            budget,
            holder,
            turn: Semaphore::new(1),
            account: Mutex::new(account),
            held: budget_bounds_holding.then(Mutex::default),
        }
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Returns the name of the budget in the configuration.
    pub(super) fn name(&self) -> &str {
        &self.budget.name
    }

    /// Returns the maximum cost that a connection may pay in one turn. One request is always
    /// allowed.
    pub(super) fn cost_max(&self) -> Cost {
        let part = |per_second: Option<u32>| {
            let part = per_second.map(|rate| (rate / TURNS_PER_SECOND).max(1) as usize);
            part.unwrap_or(usize::MAX)
        };
        Cost {
            requests: part(self.budget.requests_per_second),
            bytes: part(self.budget.bytes_per_second),
        }
    }

    /// Pays if that is possible without waiting.
    pub(super) fn pay_now(&self, cost: Cost, now_ms: u64) -> bool {
        let turn = self.turn.try_acquire();
        turn.is_ok() && self.account.lock().pay(cost, now_ms) == 0
    }

    /// Waits for its turn, and pays as soon as the share is not in debt.
    pub(super) async fn pay(&self, cost: Cost) {
        // An error would mean that the semaphore is closed. It is never closed.
        let _turn = self.turn.acquire().await;
        loop {
            let wait_ms = self.account.lock().pay(cost, clock::monotonic_ms());
            if wait_ms == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        }
    }

    /// Returns the bound for which connections wait, if a log line about it is due.
    fn is_due(&self, now_ms: u64) -> Option<(&'static str, u32)> {
        let mut account = self.account.lock();
        let bound = account.owes(now_ms)?;
        account.is_news(now_ms).then_some(bound)
    }

    /// Calls `look` with the holdings of the share; returns `None` if they are not bounded.
    pub(super) fn with_held<T>(&self, look: impl FnOnce(&mut HeldBy) -> T) -> Option<T> {
        self.held.as_ref().map(|held| look(&mut held.lock()))
    }

    /// Returns whether an unused share is equivalent to a new one: it is not in debt and does not
    /// hold anything.
    fn is_as_new(&self, now_ms: u64) -> bool {
        let has_left = self.with_held(|held| held.has_left(now_ms));
        has_left != Some(true) && self.account.lock().is_full(now_ms)
    }
}

impl Account {
    /// Pays and returns 0 if the account is not in debt. Otherwise returns the time until then, ms.
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
    fn owes(&mut self, now_ms: u64) -> Option<(&'static str, u32)> {
        let rates = [
            ("requestsPerSecond", &mut self.requests),
            ("bytesPerSecond", &mut self.bytes),
        ];
        rates.into_iter().find_map(|(bound, rate)| {
            let rate = rate.as_mut()?;
            (rate.wait_ms(now_ms) > 0).then(|| (bound, rate.per_second()))
        })
    }

    /// Returns whether a log line is due, because the last one is older than a minute. Marks it as
    /// written.
    fn is_news(&mut self, now_ms: u64) -> bool {
        let is_told = |told_ms: u64| now_ms.saturating_sub(told_ms) < MINUTE_MS;
        let is_news = !self.told_ms.is_some_and(is_told);
        if is_news {
            self.told_ms = Some(now_ms);
        }
        is_news
    }

    fn is_full(&mut self, now_ms: u64) -> bool {
        let rates = [self.requests.as_mut(), self.bytes.as_mut()];
        let mut rates = rates.into_iter().flatten();
        rates.all(|rate| rate.is_full(now_ms))
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "ip:{address}"),
            Self::Identity(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
#[path = "budgets_tests.rs"]
mod tests;
