//! The search through all choices.
//!
//! A server cannot be copied. To make another choice in an earlier state, the search starts again
//! and repeats the choices that led there. It draws the state and the choice from all that remain,
//! so that it soon reaches states of every kind. The number of the schedule is the seed of these
//! draws.
//!
//! A sleep set contains choices that another branch explores, because they commute with all choices
//! since then. A known state is explored again only for choices that slept at each earlier visit
//! (Godefroid, Partial-Order Methods for the Verification of Concurrent Systems, 1996).

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use testkit::Random;

use super::stage::Stage;
use super::{Bounds, Choice};
use crate::checks::Violation;
use crate::checks::trace::Trace;

/// A state, as one schedule has reached it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    /// State before it, and the choice made there.
    pub(super) origin: Option<(usize, Choice)>,
    /// Share of each of its choices in the search.
    pub(super) share: f64,
    /// Choices that remain to be made.
    pub(super) left: Vec<Choice>,
    /// Choices that have been made.
    pub(super) made: Vec<Choice>,
    /// Choices that other branches explore.
    pub(super) asleep: Vec<Choice>,
}

/// Results of a search so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Explored {
    /// Number of schedules.
    pub schedules: u64,
    /// Number of different states.
    pub states: usize,
    /// Number of choices, without repeated ones.
    pub choices: u64,
    /// Maximum number of choices in a schedule.
    pub depth: usize,
    /// Completed share of the search, from 0 to 1. All choices in a state have the same share.
    pub share: f64,
    /// First violated invariant, with the choices that led to it.
    pub violation: Option<(Violation, Vec<Choice>)>,
}

/// A search within bounds.
#[derive(Debug)]
pub struct Explorer {
    pub(super) bounds: Bounds,
    pub(super) nodes: Vec<Node>,
    /// Nodes with choices that remain, oldest first.
    pub(super) open: Vec<usize>,
    /// Choices that slept at each visit of a state.
    pub(super) known: HashMap<u64, Vec<Choice>>,
    pub(super) done: Explored,
    /// Whether orders of choices that commute are left out.
    is_reduced: bool,
}

impl Explorer {
    /// Creates a search that has not begun.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            nodes: Vec::new(),
            open: Vec::new(),
            known: HashMap::new(),
            done: Explored::default(),
            is_reduced: true,
        }
    }

    /// Creates a search that also goes through orders of choices that commute. It finds the same
    /// states.
    pub fn unreduced(bounds: Bounds) -> Self {
        Self {
            is_reduced: false,
            ..Self::new(bounds)
        }
    }

    /// Returns the bounds.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Returns the results so far.
    pub fn explored(&self) -> &Explored {
        &self.done
    }

    /// Explores up to `schedules` more schedules. Ends early at a violation, or when no schedule
    /// remains.
    pub fn explore(&mut self, schedules: u64) {
        let end = self.done.schedules.saturating_add(schedules);
        while self.done.violation.is_none() && self.done.schedules < end && !self.is_complete() {
            self.explore_one();
        }
    }

    /// Returns whether all schedules have been explored.
    pub fn is_complete(&self) -> bool {
        !self.nodes.is_empty() && self.open.is_empty()
    }

    /// Explores one schedule, from its last known state to its end.
    fn explore_one(&mut self) {
        let mut random = Random::new(self.done.schedules);
        let mut stage = Stage::new(self.bounds, Trace::Off);
        let (drawn, older) = (random.below(self.open.len()), self.open.len());
        let mut next = if self.nodes.is_empty() {
            self.enter(&stage, None, 1.0, Vec::new())
        } else {
            let next = self.open[drawn];
            for choice in self.path(next) {
                stage.choose(choice);
            }
            Some(next)
        };
        let mut depth = next.map_or(0, |at| self.path(at).len());
        while let Some(at) = next {
            let node = &mut self.nodes[at];
            let choice = node.left.swap_remove(random.below(node.left.len()));
            let elsewhere = node.made.iter().chain(&node.asleep);
            let is_reduced = self.is_reduced;
            let asleep = elsewhere.filter(|other| is_reduced && other.commutes_with(choice));
            let asleep = asleep.copied().collect();
            node.made.push(choice);
            let share = node.share;
            self.done.choices += 1;
            depth += 1;
            self.done.depth = self.done.depth.max(depth);
            let is_possible = stage.choose(choice);
            if let Some(violation) = stage.violation() {
                let mut schedule = self.path(at);
                schedule.push(choice);
                self.done.violation = Some((violation.clone(), schedule));
                return;
            }
            next = is_possible
                .then(|| self.enter(&stage, Some((at, choice)), share, asleep))
                .flatten();
            if next.is_none() {
                self.done.share += share;
            }
        }
        self.done.schedules += 1;
        for position in (older..self.open.len()).rev() {
            self.close_if_done(position);
        }
        self.close_if_done(drawn);
    }

    /// Removes the node at this position of the open nodes after its last choice.
    fn close_if_done(&mut self, position: usize) {
        if let Some(at) = self.open.get(position)
            && self.nodes[*at].left.is_empty()
        {
            self.open.remove(position);
        }
    }

    /// Returns the choices that lead to a node.
    fn path(&self, mut at: usize) -> Vec<Choice> {
        let mut path = Vec::new();
        while let Some((before, choice)) = self.nodes[at].origin {
            path.push(choice);
            at = before;
        }
        path.reverse();
        path
    }

    /// Adds a node for the current state. Returns `None` if no choice remains to be explored.
    /// `share` is the share of all its choices.
    fn enter(
        &mut self,
        stage: &Stage,
        origin: Option<(usize, Choice)>,
        share: f64,
        asleep: Vec<Choice>,
    ) -> Option<usize> {
        let mut left = stage.choices();
        match self.known.entry(stage.identity()) {
            Entry::Vacant(entry) => {
                left.retain(|choice| !asleep.contains(choice));
                entry.insert(asleep.clone());
            }
            Entry::Occupied(mut entry) => {
                let slept = entry.get_mut();
                left.retain(|choice| slept.contains(choice) && !asleep.contains(choice));
                slept.retain(|choice| asleep.contains(choice));
            }
        }
        self.done.states = self.known.len();
        if left.is_empty() {
            return None;
        }
        let at = self.nodes.len();
        #[expect(clippy::cast_precision_loss, reason = "a few choices")]
        let share = share / left.len() as f64;
        self.nodes.push(Node {
            origin,
            share,
            left,
            made: Vec::new(),
            asleep,
        });
        self.open.push(at);
        Some(at)
    }
}

/// Repeats a schedule, and prints each step in the form that `trace` specifies. Returns the violated
/// invariant, if any.
pub fn replay(bounds: Bounds, schedule: &[Choice], trace: Trace) -> Option<Violation> {
    let mut stage = Stage::new(bounds, trace);
    for choice in schedule {
        stage.choose(*choice);
    }
    stage.violation().cloned()
}
