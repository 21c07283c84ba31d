//! Budgets of addresses and identities (`budget.<name>.*`). A client that exceeds its budget waits.
//!
//! Each address or identity has a share, which all its connections use together. A connection pays
//! from each of its shares before its requests are decoded, so waiting requests do not hold memory
//! that other connections may need. Connections that wait for one share take turns. A request that
//! would hold too many watches or ephemerals is refused (`resources`).

mod connection_budgets;
mod key;
mod rate;
mod resources;
mod share;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use config::Budget;
use executor::sync::Mutex;
use log_limiter::LogLimiter;
use proto::Id;

pub use self::connection_budgets::{BudgetExceeded, ConnectionBudgets};
pub use self::share::{Cost, Share, Turn};

use self::key::{ShareKey, keys_of};
use self::resources::ExceededBound;
use self::share::bounds_resources;
use crate::limits;

/// All budgets of a server, and the shares in use.
pub struct Budgets {
    budgets: Vec<Arc<Budget>>,
    shares: Mutex<Shares>,
    log_limiter: LogLimiter,
}

#[derive(Default)]
struct Shares {
    /// Shares, keyed by the index of the budget and by the holder.
    by_key: HashMap<(usize, ShareKey), Arc<Share>>,
    /// Number of shares above which unused shares are removed.
    many: usize,
}

impl Budgets {
    /// Creates the budgets. Returns `None` if none are configured.
    pub fn new(budgets: &[Budget]) -> Option<Self> {
        let budgets = budgets.iter().cloned();
        let budgets: Vec<_> = budgets.map(Arc::new).collect();
        (!budgets.is_empty()).then(|| Self {
            budgets,
            shares: Mutex::default(),
            log_limiter: LogLimiter::of("budgets"),
        })
    }

    /// Returns whether a budget bounds watches or ephemerals.
    pub fn bounds_resources(&self) -> bool {
        self.budgets.iter().any(|budget| bounds_resources(budget))
    }

    /// Returns the shares of a client with this address and these identities.
    pub fn find(&self, address: IpAddr, identities: &[Id], now_ms: u64) -> Arc<[Arc<Share>]> {
        let mut shares = self.shares.lock();
        let mut found = Vec::new();
        for (place, budget) in self.budgets.iter().enumerate() {
            let keys = keys_of(&budget.who, address, identities);
            found.extend(keys.into_iter().map(|key| {
                let entry = shares.by_key.entry((place, key.clone()));
                let make = || Arc::new(Share::new(budget.clone(), key, now_ms));
                entry.or_insert_with(make).clone()
            }));
        }
        shares.forget_unused(now_ms);
        found.into()
    }

    /// Logs that requests wait for a share, at most once per minute.
    pub fn log_wait(&self, share: &Share, now_ms: u64) {
        if let Some((bound, value)) = share.is_due(now_ms) {
            self.log(share, bound, value, "requests over a budget wait");
        }
    }

    /// Logs that a request was refused, at most once per minute. The caller must not hold a lock.
    pub fn log_refusal(&self, BudgetExceeded { share, exceeded }: &BudgetExceeded, now_ms: u64) {
        let ExceededBound { bound, value } = *exceeded;
        if share.is_log_due(now_ms) {
            let what = "refusing a request over a budget";
            self.log(share, bound, value, what);
        }
    }

    fn log(&self, share: &Share, bound: &str, value: u32, what: &str) {
        log_limiter::limited!(in self.log_limiter => warn, budget = %share.name(), who = %share.key(), bound, value, "{what}");
    }
}

impl Shares {
    /// If there are many shares, removes those that are full and that no connection uses.
    fn forget_unused(&mut self, now_ms: u64) {
        if self.by_key.len() <= self.many.max(limits::BUDGET_SHARES_KEPT) {
            return;
        }
        // A connection acquires its shares under the lock of all shares, so a share cannot be
        // acquired during the removal.
        self.by_key
            .retain(|_, share| Arc::strong_count(share) > 1 || !share.is_unused(now_ms));
        // This keeps the amortized cost of an addition small.
        self.many = 2 * self.by_key.len();
    }
}
