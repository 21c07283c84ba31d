//! Storms, and the search for storms that reach situations that no earlier storm has reached.
//!
//! A seed draws all faults of its storm. A mutated storm has the same past as another storm up to a
//! point in time. After it, another seed draws the faults, and a fault often happens immediately.
//! `coverage` records the situations that a storm reaches, and `search` decides which storms are
//! kept and mutated.

pub(crate) mod coverage;
mod names;
pub(crate) mod plan;
mod search;

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

pub use coverage::{Branch, Pair, Progress, Reached, Situation};
pub use search::Search;
use simulation::queue::Micros;

/// The faults and all other random choices of a run.
///
/// Its text is `SEED@TIME:SEED@TIME:SEED`, with any number of points.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Storm {
    /// Seed of the plan, and of the choices before the first point.
    pub seed: u64,
    /// Points, ordered by time.
    pub points: Vec<Point>,
}

/// A time from which another seed draws all choices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point {
    /// Time since the beginning of the simulation.
    pub at: Micros,
    /// Seed of the choices after this time.
    pub seed: u64,
}

impl Storm {
    /// Returns the storm of a single seed.
    pub fn of_seed(seed: u64) -> Self {
        let points = Vec::new();
        Self { seed, points }
    }

    /// Returns the storm with the same past up to `at`, and with another future.
    #[must_use]
    pub fn mutated(&self, at: Micros, seed: u64) -> Self {
        let earlier = self.points.iter().filter(|point| point.at < at);
        let mut points: Vec<Point> = earlier.copied().collect();
        points.push(Point { at, seed });
        Self {
            seed: self.seed,
            points,
        }
    }
}

impl fmt::Display for Storm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.seed)?;
        for Point { at, seed } in &self.points {
            write!(f, "@{at}:{seed}")?;
        }
        Ok(())
    }
}

/// Reason why a text is not a storm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StormError {
    /// A seed or a time is not a number.
    Number(ParseIntError),
    /// A point has no colon.
    Colon,
    /// The times do not increase.
    Order,
}

impl fmt::Display for StormError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(error) => error.fmt(f),
            Self::Colon => f.write_str("a point is TIME:SEED"),
            Self::Order => f.write_str("the times of points must be positive and increase"),
        }
    }
}

impl std::error::Error for StormError {}

impl From<ParseIntError> for StormError {
    fn from(error: ParseIntError) -> Self {
        Self::Number(error)
    }
}

impl FromStr for Storm {
    type Err = StormError;

    fn from_str(text: &str) -> Result<Self, StormError> {
        let mut parts = text.split('@');
        let seed = parts.next().unwrap_or_default().parse()?;
        let mut points: Vec<Point> = Vec::new();
        for part in parts {
            let (at, seed) = part.split_once(':').ok_or(StormError::Colon)?;
            let (at, seed) = (at.parse()?, seed.parse()?);
            if at <= points.last().map_or(0, |last| last.at) {
                return Err(StormError::Order);
            }
            points.push(Point { at, seed });
        }
        Ok(Self { seed, points })
    }
}
