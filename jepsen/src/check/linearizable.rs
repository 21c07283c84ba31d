//! The linearizability checker: all calls of a key must fit into one order that explains every
//! answer, each at some moment between its begin and its end.
//!
//! The search reads the history once, with all *configurations* that are possible so far. A
//! configuration is a state of the model and the set of open calls that have happened in it. A call
//! is assumed to happen as late as possible (Lowe's just-in-time linearization). Only when a call
//! ends, the open calls are tried in every order until this call has happened. Equal configurations
//! are stored once. If no configuration is left, the history up to this point is the shortest
//! prefix that cannot be explained.
//!
//! A call with an unknown outcome stays open, and may happen or not. It is closed when it has
//! happened, or can no longer happen, in all configurations: a run of hours has many such calls.
//!
//! Source: Wing and Gong, Testing and Verifying Concurrent Objects (1993); Lowe, Testing for
//! Linearizability (2017).

use std::collections::{BTreeMap, HashSet};
use std::fmt::Debug;
use std::hash::Hash;

use super::ops::{Op, calls};
use super::{Broken, Gathered};
use crate::history::Event;
use crate::verdict::Verdict;

/// Sequential model of one key.
pub trait Model {
    /// State of the key.
    type State: Clone + Eq + Hash + Debug;
    /// A call with its answer, if the answer is known.
    type Call;

    /// Returns the initial state.
    fn start(&self) -> Self::State;

    /// Returns the call in the terms of the model, or `None` if it neither reveals nor changes
    /// anything.
    ///
    /// # Errors
    /// If its values do not have the form of the workload.
    fn call(&self, op: &Op<'_>) -> Result<Option<Self::Call>, Broken>;

    /// Returns the state after the call, or `None` if the call cannot have this answer in this
    /// state.
    fn step(&self, state: &Self::State, call: &Self::Call) -> Option<Self::State>;

    /// Returns whether the call can never have its answer again, whatever other calls happen first.
    /// This only shortens the search.
    fn is_past(&self, _state: &Self::State, _call: &Self::Call) -> bool {
        false
    }
}

/// Maximum number of configurations that are stored on the way to one end, about 150 bytes each.
const CONFIGS_MAX: usize = 2_000_000;

/// Maximum number of states that a finding names.
const STATES_NAMED_MAX: usize = 4;

/// Number of calls before the failing call that a finding names.
const CALLS_NAMED_MAX: usize = 8;

/// Judges every key separately. A step is an application of the model. A key may use the steps that
/// the earlier keys have left.
pub fn check<M: Model>(model: &M, events: &[Event], steps_max: u64) -> Verdict {
    check_within(model, events, steps_max, CONFIGS_MAX)
}

fn check_within<M: Model>(
    model: &M,
    events: &[Event],
    steps_max: u64,
    configs_max: usize,
) -> Verdict {
    let mut keys: BTreeMap<&str, Vec<(Op<'_>, M::Call)>> = BTreeMap::new();
    let ops = match calls(events) {
        Ok(ops) => ops,
        Err(broken) => return broken.into(),
    };
    for op in ops {
        match model.call(&op) {
            Ok(Some(call)) => keys.entry(op.key()).or_default().push((op, call)),
            Ok(None) => {}
            Err(broken) => return broken.into(),
        }
    }
    let mut gathered = Gathered::default();
    let mut left = steps_max;
    let mut keys_left = keys.len() as u64;
    for (key, calls) in &keys {
        let share = left / keys_left.max(1);
        let mut search = Search::new(model, calls, (share, configs_max));
        let result = search.run();
        left = left.saturating_sub(search.steps);
        keys_left -= 1;
        gathered.count("keys", 1);
        gathered.count("calls", calls.len() as u64);
        gathered.count("steps", search.steps);
        match result {
            Explanation::Whole => {}
            Explanation::OutOf { what, ended } => {
                gathered.count("keys_unknown", 1);
                let of = calls.len();
                let key = named(key);
                let what = format!(
                    "{key}: unknown, because the search ended {what}; it explained {ended} of {of} calls"
                );
                gathered.doubt(what, []);
            }
            Explanation::Impossible { at, before } => {
                let (what, events) = describe(key, calls, at, &before);
                gathered.find(what, events);
            }
        }
    }
    gathered.verdict()
}

enum Explanation<S> {
    Whole,
    /// The budget was exhausted after this many calls had ended.
    OutOf {
        what: String,
        ended: u64,
    },
    /// The call that ended without an explanation, and the states that were possible before.
    Impossible {
        at: usize,
        before: Vec<S>,
    },
}

/// Slots of open calls that have happened. It does not have zero words at the end, so that equal
/// sets are equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Slots(Vec<u64>);

impl Slots {
    fn has(&self, slot: usize) -> bool {
        self.0
            .get(slot / 64)
            .is_some_and(|word| word >> (slot % 64) & 1 == 1)
    }

    fn with(&self, slot: usize) -> Slots {
        let mut words = self.0.clone();
        if words.len() <= slot / 64 {
            words.resize(slot / 64 + 1, 0);
        }
        words[slot / 64] |= 1 << (slot % 64);
        Slots(words)
    }

    fn remove(&mut self, slot: usize) {
        if let Some(word) = self.0.get_mut(slot / 64) {
            *word &= !(1 << (slot % 64));
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }
}

type Config<S> = (S, Slots);

struct Search<'a, M: Model> {
    model: &'a M,
    calls: &'a [(Op<'a>, M::Call)],
    /// The call of each slot, `None` if the slot is free.
    open: Vec<Option<usize>>,
    configs: HashSet<Config<M::State>>,
    steps: u64,
    steps_max: u64,
    configs_max: usize,
}

impl<'a, M: Model> Search<'a, M> {
    fn new(
        model: &'a M,
        calls: &'a [(Op<'a>, M::Call)],
        (steps_max, configs_max): (u64, usize),
    ) -> Self {
        Search {
            model,
            calls,
            open: Vec::new(),
            configs: HashSet::from([(model.start(), Slots::default())]),
            steps: 0,
            steps_max,
            configs_max,
        }
    }

    fn run(&mut self) -> Explanation<M::State> {
        let mut moments: Vec<(u64, bool, usize)> = Vec::new();
        for (number, (op, _)) in self.calls.iter().enumerate() {
            moments.push((op.first(), false, number));
            // A call without an end does not restrict the search.
            if op.last() != u64::MAX {
                moments.push((op.last(), true, number));
            }
        }
        moments.sort_unstable();
        let mut ended = 0;
        for (_, is_end, call) in moments {
            if !is_end {
                self.begin(call);
                continue;
            }
            let next = match self.after(call) {
                Ok(next) => next,
                Err(what) => return Explanation::OutOf { what, ended },
            };
            if next.is_empty() {
                let before = self.states();
                return Explanation::Impossible { at: call, before };
            }
            self.configs = next;
            self.forget_settled();
            ended += 1;
        }
        Explanation::Whole
    }

    fn begin(&mut self, call: usize) {
        match self.open.iter().position(Option::is_none) {
            Some(slot) => self.open[slot] = Some(call),
            None => self.open.push(Some(call)),
        }
    }

    /// Returns the configurations in which the call has happened, without its slot.
    ///
    /// # Errors
    /// If the budget is exhausted; the error names the reason.
    fn after(&mut self, call: usize) -> Result<HashSet<Config<M::State>>, String> {
        let slot = self.open.iter().position(|open| *open == Some(call));
        let Some(slot) = slot else {
            return Err("at a call that is not open".to_owned());
        };
        let mut seen = HashSet::new();
        let mut reached = HashSet::new();
        let mut todo: Vec<Config<M::State>> = self.configs.iter().cloned().collect();
        while let Some((state, happened)) = todo.pop() {
            if happened.has(slot) {
                let mut happened = happened;
                happened.remove(slot);
                reached.insert((state, happened));
                continue;
            }
            for (at, open) in self.open.iter().enumerate() {
                let Some(open) = open.filter(|_| !happened.has(at)) else {
                    continue;
                };
                self.steps += 1;
                if self.steps > self.steps_max {
                    return Err(format!("after {} steps", self.steps_max));
                }
                let Some(next) = self.model.step(&state, &self.calls[open].1) else {
                    continue;
                };
                let config = (next, happened.with(at));
                if !self.is_dead(&config) && seen.insert(config.clone()) {
                    if seen.len() > self.configs_max {
                        return Err(format!(
                            "with more than {} open possibilities",
                            self.configs_max
                        ));
                    }
                    todo.push(config);
                }
            }
        }
        self.open[slot] = None;
        Ok(reached)
    }

    /// Closes the calls with an unknown outcome that have happened, or can no longer happen, in
    /// every configuration.
    fn forget_settled(&mut self) {
        for slot in 0..self.open.len() {
            let Some((op, call)) = self.open[slot].map(|call| &self.calls[call]) else {
                continue;
            };
            let is_settled = |(state, happened): &Config<M::State>| {
                happened.has(slot) || self.model.is_past(state, call)
            };
            if op.last() == u64::MAX && self.configs.iter().all(is_settled) {
                self.open[slot] = None;
                let configs = self.configs.drain().map(|(state, mut happened)| {
                    happened.remove(slot);
                    (state, happened)
                });
                self.configs = configs.collect();
            }
        }
    }

    /// Returns whether a call that has not happened yet can no longer have its answer.
    fn is_dead(&self, (state, happened): &Config<M::State>) -> bool {
        let mut open = self.open.iter().enumerate();
        open.any(|(slot, call)| {
            call.is_some_and(|call| {
                !happened.has(slot) && {
                    let (op, call) = &self.calls[call];
                    op.last() != u64::MAX && self.model.is_past(state, call)
                }
            })
        })
    }

    /// Returns the distinct states that are possible.
    fn states(&self) -> Vec<M::State> {
        let states: HashSet<&M::State> = self.configs.iter().map(|(state, _)| state).collect();
        states.into_iter().cloned().collect()
    }
}

fn describe<S: Debug, C>(
    key: &str,
    calls: &[(Op<'_>, C)],
    at: usize,
    before: &[S],
) -> (String, Vec<u64>) {
    let op = &calls[at].0;
    let end = op.last();
    let mut states: Vec<String> = before.iter().map(|state| format!("{state:?}")).collect();
    states.sort();
    let others = match states.len().saturating_sub(STATES_NAMED_MAX) {
        0 => String::new(),
        more => format!(" or {more} more"),
    };
    states.truncate(STATES_NAMED_MAX);
    let answer = op.answer().map(ToString::to_string);
    let what = format!(
        "{}: no order of the calls explains that {} of process {} with value {} returned {}; possible \
         states before it: {}{others}",
        named(key),
        op.f(),
        op.process,
        op.call.value,
        answer.as_deref().unwrap_or("a refusal"),
        states.join(" or "),
    );
    let open = calls
        .iter()
        .filter(|(other, _)| other.first() < end && other.last() >= op.first());
    let mut earlier: Vec<&Op<'_>> = calls
        .iter()
        .map(|(other, _)| other)
        .filter(|other| other.last() < op.first())
        .collect();
    earlier.sort_by_key(|other| std::cmp::Reverse(other.last()));
    earlier.truncate(CALLS_NAMED_MAX);
    // The failing call is first, because the number of events in a finding is bounded. Events after
    // its end are not part of the failing prefix.
    let mut events: Vec<u64> = op.events().collect();
    events.extend(earlier.iter().flat_map(|other| other.events()));
    events.extend(open.flat_map(|(other, _)| other.events()));
    events.retain(|event| *event <= end);
    (what, events)
}

fn named(key: &str) -> String {
    match key {
        "" => "the register".to_owned(),
        key => format!("key {key}"),
    }
}

#[cfg(test)]
#[path = "linearizable_tests.rs"]
mod tests;
