//! Linearizability check: whether the answers of one object to several clients are possible in one
//! order of the calls.
//!
//! A [`Call`] takes effect at a moment between its question and its answer. A history is
//! *linearizable* if such moments exist for all calls, and a [`Model`] of the object returns the
//! same answers in the order of these moments. A call without an answer has an unknown outcome: it
//! took effect at some moment after its question, or never.
//!
//! [`check`] searches for the order with the algorithm of Wing and Gong ("Testing and verifying
//! concurrent objects", 1993). As proposed by Lowe ("Testing for linearizability", 2017), it
//! remembers which calls led to which state, so that it does not search the same part twice. The
//! search can still take long, so it ends after a given number of steps and reports this.
//!
//! Linearizability is a property of each object, so histories of several objects are checked one by
//! one (Herlihy and Wing, 1990). [`znode`] is the model of a znode.

mod search;
#[cfg(test)]
mod tests;
pub mod znode;

pub use search::check;

/// Model of an object that answers one call after the other.
pub trait Model {
    /// State of the object.
    type State: Clone + Eq + std::hash::Hash;
    /// Question to the object.
    type Question;
    /// Answer of the object.
    type Answer;

    /// Returns the state before the first call.
    fn start(&self) -> Self::State;

    /// Returns the state after a call with this answer, or `None` if the object would have answered
    /// differently. If `answer` is `None`, every answer of the object is possible.
    fn step(
        &self,
        state: &Self::State,
        question: &Self::Question,
        answer: Option<&Self::Answer>,
    ) -> Option<Self::State>;
}

/// Call by one client: its question and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call<Q, A> {
    /// Question of the client.
    pub question: Q,
    /// Time of the question, on a clock that all clients share, in any unit.
    pub asked_at: i64,
    /// Answer with its time, or `None` if the client received none.
    pub answer: Option<(A, i64)>,
}

/// Result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// An order exists. Contains the calls in this order, as positions in the history. Calls
    /// without an answer may be missing.
    Linearizable(Vec<usize>),
    /// No order exists.
    NotLinearizable {
        /// Longest valid order of calls that was found, as positions in the history.
        longest: Vec<usize>,
        /// Position of the remaining call with the earliest answer. This call cannot continue the
        /// order.
        stuck_at: usize,
    },
    /// The search exceeded the permitted number of steps.
    Undecided,
}
