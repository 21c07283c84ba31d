//! Whether what several clients were told of one object can have happened in one order.
//!
//! A [`Call`] takes effect at one moment between its question and its answer. A history is
//! *linearizable* if such moments can be chosen that each answer is what a [`Model`] of the object,
//! asked in their order, would have said. A call without an answer has an unknown outcome: it took
//! effect at some moment after its question, or never.
//!
//! [`check`] searches for the order as Wing and Gong do ("Testing and verifying concurrent objects",
//! 1993), and remembers with Lowe which calls led to which state ("Testing for linearizability",
//! 2017), so that no part of the search is done twice. The search can still be long: it ends after a
//! given number of steps and then says so.
//!
//! Histories of several objects are checked one by one, as linearizability is a property of each of
//! them (Herlihy and Wing, 1990). [`znode`] is the model of a znode.

mod search;
#[cfg(test)]
mod tests;
pub mod znode;

pub use search::check;

/// An object that answers one call after the other.
pub trait Model {
    /// What the object holds.
    type State: Clone + Eq + std::hash::Hash;
    /// What it can be asked.
    type Question;
    /// What it says.
    type Answer;

    /// What it holds before the first call.
    fn start(&self) -> Self::State;

    /// What it holds after a call that was answered so; `None` if it would have said something
    /// else. Without an answer, whatever it would have said is right.
    fn step(
        &self,
        state: &Self::State,
        question: &Self::Question,
        answer: Option<&Self::Answer>,
    ) -> Option<Self::State>;
}

/// What one client asked and was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call<Q, A> {
    /// What it asked.
    pub question: Q,
    /// When, on a clock that all clients share; any unit.
    pub asked_at: i64,
    /// What it was told and when; `None` if it never heard.
    pub answer: Option<(A, i64)>,
}

/// What a search has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// There is an order: the positions of the calls in the history, those without an answer only if
    /// they are needed.
    Linearizable(Vec<usize>),
    /// There is none.
    NotLinearizable {
        /// As many calls as can be put into an order.
        longest: Vec<usize>,
        /// The call that must be next by then, and cannot.
        stuck_at: usize,
    },
    /// The search took more than the steps allowed.
    Undecided,
}
