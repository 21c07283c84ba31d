//! Budgets of addresses and identities (`budget.<name>.*`): who asks for more than it may waits.
//!
//! Each address or identity has a share, which its connections have together. A connection pays for its requests
//! before they are decoded, from each share that it has; until then they hold nothing that others may be in want of.
//! Those that wait for one share take turns. Who would hold more than it may is refused (`budget_held`).

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

/// All budgets of a server, and who has used some of them.
pub(crate) struct Budgets {
    budgets: Vec<Arc<Budget>>,
    shares: Mutex<Shares>,
    log_limiter: LogLimiter,
}

#[derive(Default)]
struct Shares {
    /// By the place of the budget among all.
    by_holder: HashMap<(usize, Holder), Arc<Share>>,
    /// How many there may be before those are looked for that nobody needs.
    many: usize,
}

/// Who has a share.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Holder {
    /// An address; of IPv6, a network of 64 bits.
    Address(IpAddr),
    /// As the admin command `clients` names it.
    Identity(String),
}

/// What one address or identity has left of a budget.
pub(crate) struct Share {
    budget: Arc<Budget>,
    holder: Holder,
    /// Whoever waits for it waits here, the first who came in front.
    turn: Semaphore,
    account: Mutex<Account>,
    /// Where watches or ephemerals are bounded.
    held: Option<Mutex<HeldBy>>,
}

struct Account {
    requests: Option<Rate>,
    bytes: Option<Rate>,
    /// When the log was told last.
    told_ms: Option<u64>,
}

/// What requests cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) requests: usize,
    pub(super) bytes: usize,
}

const MINUTE_MS: u64 = 60_000;

/// Connections take turns this often within a second, or they would have to wait for long.
const TURNS_PER_SECOND: u32 = 10;

impl Budgets {
    /// `None` without any.
    pub(crate) fn new(budgets: &[Budget]) -> Option<Self> {
        let budgets = budgets.iter().cloned();
        let budgets: Vec<_> = budgets.map(Arc::new).collect();
        (!budgets.is_empty()).then(|| Self {
            budgets,
            shares: Mutex::default(),
            log_limiter: LogLimiter::of("budgets"),
        })
    }

    /// The shares of a connection. They are looked for once for as long as its identities stay the same.
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

    /// Whether any bounds what is held for clients.
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

    /// Says that requests wait for a share, unless something was said of it within the last minute.
    pub(super) fn tell_of_wait(&self, share: &Share, now_ms: u64) {
        if let Some((bound, value)) = share.is_due(now_ms) {
            self.log(share, (bound, value, "over its budget: requests wait"));
        }
    }

    /// Says likewise that a request was refused. To be called without locks.
    pub(super) fn tell_of_refusal(&self, Refused { share, beyond }: &Refused) {
        let now_ms = clock::monotonic_ms();
        let Beyond { bound, value } = *beyond;
        if share.account.lock().is_news(now_ms) {
            let what = "over its budget: a request is refused";
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

/// Whose shares are used by who comes from an address and has these identities.
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
    /// Forgets those that no connection has and that are as good as new, if there are many.
    fn forget_unused(&mut self, now_ms: u64) {
        if self.by_holder.len() <= self.many.max(limits::BUDGET_SHARES_KEPT) {
            return;
        }
        // Connections get theirs under the lock of all shares: nobody can take one up meanwhile.
        self.by_holder
            .retain(|_, share| Arc::strong_count(share) > 1 || !share.is_as_new(now_ms));
        // Each addition costs little on the whole.
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

    /// What it is called in the configuration.
    pub(super) fn name(&self) -> &str {
        &self.budget.name
    }

    /// What one connection may pay for at a time; one request always.
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

    /// Pays, if that takes no time.
    pub(super) fn pay_now(&self, cost: Cost, now_ms: u64) -> bool {
        let turn = self.turn.try_acquire();
        turn.is_ok() && self.account.lock().pay(cost, now_ms) == 0
    }

    /// Pays in its turn, as soon as nothing is owed.
    pub(super) async fn pay(&self, cost: Cost) {
        // An error would mean that turns are over, and they never are.
        let _turn = self.turn.acquire().await;
        loop {
            let wait_ms = self.account.lock().pay(cost, clock::monotonic_ms());
            if wait_ms == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        }
    }

    /// The bound that somebody waits for, if it is time to say so.
    fn is_due(&self, now_ms: u64) -> Option<(&'static str, u32)> {
        let mut account = self.account.lock();
        let bound = account.owes(now_ms)?;
        account.is_news(now_ms).then_some(bound)
    }

    /// Looks at what is held for all who share it; `None` where nothing of it is bounded.
    pub(super) fn with_held<T>(&self, look: impl FnOnce(&mut HeldBy) -> T) -> Option<T> {
        self.held.as_ref().map(|held| look(&mut held.lock()))
    }

    /// Whether nothing is owed and nothing may be held, for a share that no connection has.
    fn is_as_new(&self, now_ms: u64) -> bool {
        let has_left = self.with_held(|held| held.has_left(now_ms));
        has_left != Some(true) && self.account.lock().is_full(now_ms)
    }
}

impl Account {
    /// Pays if nothing is owed; how long it is until then otherwise, ms.
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

    /// Of what more was used than was there, and how much of it there is.
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

    /// Whether nothing was said within the last minute; it is taken for said now.
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
