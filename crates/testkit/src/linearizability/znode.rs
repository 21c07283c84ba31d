//! A znode as one object: created, set, deleted and read, with versions.
//!
//! Nothing else may change it: it has no children, no owner, no TTL and no quota, its parent stays,
//! and everybody may do everything with it.

use super::Model;

/// What is written into a znode. The one who writes it uses no number twice.
pub type Value = u64;

/// The model of a znode that is not there at first.
#[derive(Debug, Clone, Copy, Default)]
pub struct Znode;

/// What a znode can be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// create with this data.
    Create(Value),
    /// setData.
    Set {
        /// The data.
        value: Value,
        /// The version that it must have; `None` for any.
        version: Option<i32>,
    },
    /// delete.
    Delete {
        /// The version that it must have; `None` for any.
        version: Option<i32>,
    },
    /// check, inside a multi.
    Check {
        /// The version that it must have; `None` for any.
        version: Option<i32>,
    },
    /// getData behind a sync; or both parts of a read that is known to be up to date.
    Read,
}

/// What it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Created, deleted or checked; or set, and the client did not hear the version.
    Done,
    /// Set: the version it has since.
    Version(i32),
    /// Read.
    Found {
        /// The data.
        value: Value,
        /// Its version.
        version: i32,
    },
    /// It is not there.
    Missing,
    /// It is there already.
    Exists,
    /// It has another version.
    BadVersion,
}

/// Value and version of a znode that is there.
pub type State = Option<(Value, i32)>;

impl Model for Znode {
    type State = State;
    type Question = Question;
    type Answer = Answer;

    fn start(&self) -> State {
        None
    }

    fn step(&self, state: &State, question: &Question, answer: Option<&Answer>) -> Option<State> {
        let (said, next) = match (question, *state) {
            (Question::Create(value), None) => (Answer::Done, Some((*value, 0))),
            (Question::Create(_), Some(_)) => (Answer::Exists, *state),
            (_, None) => (Answer::Missing, None),
            (Question::Read, Some((value, version))) => (Answer::Found { value, version }, *state),
            (
                Question::Set { version, .. }
                | Question::Delete { version }
                | Question::Check { version },
                Some((_, is)),
            ) if version.is_some_and(|version| version != is) => (Answer::BadVersion, *state),
            (Question::Set { value, .. }, Some((_, version))) => {
                let version = version.wrapping_add(1);
                (Answer::Version(version), Some((*value, version)))
            }
            (Question::Delete { .. }, Some(_)) => (Answer::Done, None),
            (Question::Check { .. }, Some(_)) => (Answer::Done, *state),
        };
        let is_right = match answer {
            None => true,
            Some(Answer::Done) => matches!(said, Answer::Done | Answer::Version(_)),
            Some(answer) => *answer == said,
        };
        is_right.then_some(next)
    }
}
