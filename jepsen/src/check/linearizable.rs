//! Linearizability: whether all calls of a key can be put in one order that explains every answer,
//! each at some moment between its beginning and its end.
//!
//! The search goes through the history once, with all *configurations* that are possible so far: a
//! state of the model, and which of the open calls have happened in it. A call is taken to have
//! happened as late as can be (Lowe's just-in-time linearization): only when one ends, the open ones
//! are tried in every order until that one has happened. Configurations that are the same are kept
//! once. No configuration left: the history up to there is the shortest that cannot be explained.
//!
//! A call with an unknown outcome stays open, and may happen or not, until it has happened or can
//! happen no more in all configurations: in hours there are many such calls.
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

/// What one key is, apart from all concurrency.
pub trait Model {
    /// What it holds.
    type State: Clone + Eq + Hash + Debug;
    /// A call with its answer, if that is known.
    type Call;

    /// What it holds at first.
    fn start(&self) -> Self::State;

    /// The call in the model's terms; `None` if it tells nothing and changes nothing.
    ///
    /// # Errors
    /// Its values are not of the workload's form.
    fn call(&self, op: &Op<'_>) -> Result<Option<Self::Call>, Broken>;

    /// What it holds afterwards; `None` if this call cannot have this answer in this state.
    fn step(&self, state: &Self::State, call: &Self::Call) -> Option<Self::State>;

    /// Whether the call can never have its answer again, whatever else happens first. It only makes
    /// the search shorter.
    fn is_past(&self, _state: &Self::State, _call: &Self::Call) -> bool {
        false
    }
}

/// Most configurations that are noted on the way to one end: they take some 150 bytes each.
const CONFIGS_MAX: usize = 2_000_000;

/// Most states that a finding names.
const STATES_NAMED_MAX: usize = 4;

/// Calls before the one that fails that a finding names.
const CALLS_NAMED_MAX: usize = 8;

/// Judges every key by itself. Steps are applications of the model; a key may use what the keys
/// before it left over.
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
                let what = format!("{key}: not known, {what} {ended} of {of} calls are explained");
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
    /// The budget does not suffice; so many calls have ended before.
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

/// Which slots of open calls have happened; no zero words at the end, so that equal sets are equal.
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
    /// Call by slot, `None` where the slot is free.
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
            // What never ends asks for nothing.
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

    /// Configurations in which the call has happened, without its slot.
    ///
    /// # Errors
    /// What the budget does not suffice for.
    fn after(&mut self, call: usize) -> Result<HashSet<Config<M::State>>, String> {
        let slot = self.open.iter().position(|open| *open == Some(call));
        let Some(slot) = slot else {
            return Err("for a call that is not open".to_owned());
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
                        return Err(format!("with {} possibilities at once", self.configs_max));
                    }
                    todo.push(config);
                }
            }
        }
        self.open[slot] = None;
        Ok(reached)
    }

    /// Closes the calls with an unknown outcome that have happened, or can happen no more, in every
    /// configuration.
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

    /// Whether a call that has not happened yet can have its answer no more.
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

    /// States that are possible, each once.
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
        more => format!(" or one of {more} others"),
    };
    states.truncate(STATES_NAMED_MAX);
    let answer = op.answer().map(ToString::to_string);
    let what = format!(
        "{}: no order explains that {} of process {} with {} answers {}; possible before: {}{others}",
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
    // The call itself first, since a finding names a bounded number of events. What ends after it
    // is no part of the prefix that fails.
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
