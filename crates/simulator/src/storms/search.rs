//! The search: storms that reached new pairs are kept and mutated.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use simulation::queue::{MS, Micros, SECOND};
use testkit::Random;

use super::Storm;
use super::coverage::{Pair, Reached};

/// Percentage of storms that are new seeds.
const FRESH_PERCENT: usize = 20;
/// Maximum number of kept storms for each pair.
const EXAMPLES_MAX: usize = 4;
/// Number of pairs of which the one that was reached and chosen least often is chosen.
const CANDIDATES: usize = 6;
/// Maximum time of a point. Later points would make storms long.
const POINT_MAX: Micros = 16 * SECOND;
/// Percentage of mutations that begin exactly when the pair is reached.
const EXACT_PERCENT: usize = 70;
/// Maximum time by which other mutations begin earlier.
const EARLIER_MAX: Micros = 300 * MS;

/// A search for storms. It repeats exactly if it begins with the same seed and the same storms.
#[derive(Debug)]
pub struct Search {
    random: Random,
    next_seed: u64,
    pairs: BTreeMap<Pair, Known>,
}

/// A reached pair.
#[derive(Debug, Default)]
struct Known {
    /// Number of storms that reached the pair, and of mutations that began with it.
    times: u64,
    examples: Vec<Example>,
}

/// A storm that reached a pair.
#[derive(Debug)]
struct Example {
    storm: Rc<Storm>,
    at: Micros,
}

impl Search {
    /// Creates a search whose new seeds are `from` and the following numbers.
    pub fn new(from: u64) -> Self {
        Self {
            random: Random::new(from),
            next_seed: from,
            pairs: BTreeMap::new(),
        }
    }

    /// Returns the next storm: a new seed, or a kept storm with another future.
    pub fn next_storm(&mut self) -> Storm {
        if !self.random.percent(FRESH_PERCENT)
            && let Some(mutated) = self.mutated()
        {
            return mutated;
        }
        let seed = self.next_seed;
        self.next_seed = self.next_seed.wrapping_add(1);
        Storm::of_seed(seed)
    }

    fn mutated(&mut self) -> Option<Storm> {
        let known = self.pairs.len();
        let candidates = [(); CANDIDATES].map(|()| self.random.below(known));
        let all: Vec<&mut Known> = self.pairs.values_mut().collect();
        let chosen = candidates
            .into_iter()
            .min_by_key(|index| all.get(*index).map(|known| known.times))?;
        let chosen = all.into_iter().nth(chosen)?;
        chosen.times += 1;
        let example = chosen
            .examples
            .get(self.random.below(chosen.examples.len()))?;
        let earlier = if self.random.percent(EXACT_PERCENT) {
            0
        } else {
            self.random.range(0, EARLIER_MAX)
        };
        let seed = u64::from(u32::MAX) & self.random.any();
        Some(example.storm.mutated((example.at - earlier).max(1), seed))
    }

    /// Adds the coverage of a storm. Returns the number of new pairs.
    pub fn add(&mut self, storm: Storm, reached: &Reached) -> usize {
        let storm = Rc::new(storm);
        let before = self.pairs.len();
        for (pair, at) in reached {
            let known = self.pairs.entry(*pair).or_default();
            known.times += 1;
            let example = || Example {
                storm: Rc::clone(&storm),
                at: *at,
            };
            if *at > POINT_MAX {
                continue;
            }
            if known.examples.len() < EXAMPLES_MAX {
                known.examples.push(example());
            } else if self.random.below(usize::try_from(known.times).unwrap_or(1)) < EXAMPLES_MAX {
                // Each storm that reached the pair has the same chance to be kept.
                let index = self.random.below(known.examples.len());
                known.examples[index] = example();
            }
        }
        self.pairs.len() - before
    }

    /// Returns the reached pairs, each with the number of its storms and mutations.
    pub fn pairs(&self) -> impl Iterator<Item = (&Pair, u64)> {
        self.pairs.iter().map(|(pair, known)| (pair, known.times))
    }

    /// Returns all kept storms.
    pub fn corpus(&self) -> BTreeSet<&Storm> {
        let examples = self.pairs.values().flat_map(|known| &known.examples);
        examples.map(|example| &*example.storm).collect()
    }
}
