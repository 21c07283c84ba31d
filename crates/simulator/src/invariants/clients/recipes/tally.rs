//! Items, increments and leases that contenders report.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::Recipe;
use crate::history::History;
use crate::invariants::CheckResult;

/// Lease of a contender, with its times in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeaseTime {
    pub(crate) path: String,
    pub(crate) from_s: i64,
    pub(crate) end_s: i64,
}

/// Puts, takes, increments and leases so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    put: BTreeMap<String, Recipe>,
    taken: BTreeSet<String>,
    confirmed: BTreeSet<String>,
    /// Number of items that processes may have deleted without processing them.
    may_be_lost: usize,
    /// Number of increments that were certainly executed, and number of increments that may have
    /// been executed.
    increments: (usize, usize),
    leases: Vec<(usize, LeaseTime)>,
}

impl Tally {
    pub(super) fn put(&mut self, item: String, recipe: Recipe) {
        self.put.insert(item, recipe);
    }

    pub(super) fn taken(&mut self, item: String) {
        self.taken.insert(item);
    }

    pub(super) fn confirmed(&mut self, item: String) -> CheckResult {
        if self.confirmed.insert(item.clone()) {
            Ok(())
        } else {
            Err(format!("{item} is confirmed twice"))
        }
    }

    /// Records a call that ended without a result, because it failed or because the process ended.
    pub(super) fn unknown(&mut self, recipe: Recipe) {
        match recipe {
            Recipe::SimpleQueue => self.may_be_lost += 1,
            Recipe::Counter => self.increments.1 += 1,
            _ => {}
        }
    }

    pub(super) fn incremented(&mut self) {
        self.increments.0 += 1;
    }

    /// Checks that no other contender has the lease at the same time.
    pub(super) fn leased(&mut self, by: usize, lease: LeaseTime) -> CheckResult {
        let overlaps = |(of, other): &&(usize, LeaseTime)| {
            *of != by
                && other.path == lease.path
                && other.from_s < lease.end_s
                && lease.from_s < other.end_s
        };
        let held = match self.leases.iter().find(overlaps) {
            Some((of, other)) => Err(format!(
                "contender {by} has {lease:?}, but contender {of} has {other:?}"
            )),
            None => Ok(()),
        };
        self.leases.push((by, lease));
        held
    }

    /// Checks the tree after all contenders have ended.
    pub(super) fn at_the_end(&self, history: &History) -> CheckResult {
        let mut contents = BTreeMap::new();
        let mut missing = 0;
        for (item, recipe) in &self.put {
            let data = contents
                .entry(*recipe)
                .or_insert_with(|| data_of(*recipe, history));
            let is_there = |data: &Bytes| {
                let mut parts = data.windows(item.len());
                parts.any(|part| part == item.as_bytes())
            };
            if self.taken.contains(item) || data.iter().any(is_there) {
                continue;
            }
            missing += 1;
            if *recipe != Recipe::SimpleQueue || missing > self.may_be_lost {
                return Err(format!("{item} was put, but not taken"));
            }
        }
        let (certain, others) = self.increments;
        let node = history.get(Recipe::Counter.path(), history.end());
        let data = node.and_then(|node| node.data.clone()).unwrap_or_default();
        let number = data
            .first_chunk()
            .map_or(0, |data| i64::from_be_bytes(*data));
        match usize::try_from(number) {
            Ok(number) if (certain..=certain + others).contains(&number) => Ok(()),
            _ => Err(format!(
                "the counter is {number} after {certain} increments and {others} unknown ones"
            )),
        }
    }
}

fn data_of(recipe: Recipe, history: &History) -> Vec<Bytes> {
    let directory = recipe.items().map_or("", |(items, _)| items);
    let names = history.children(directory, history.end()).into_iter();
    let data = names.filter_map(|name| {
        let node = history.get(&format!("{directory}/{name}"), history.end())?;
        node.data.clone()
    });
    data.collect()
}
