//! Model of a znode as one object that is created, set, deleted and read, with versions.
//!
//! No other event may change the znode. It must not have children, an owner, a TTL or a quota, its
//! parent must not be deleted, and all clients must have all permissions for it.

use super::Model;

/// Data of a znode, as a number. Each write must use a different number.
pub type Value = u64;

/// Model of a znode that is initially missing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Znode;

/// Question to a znode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// Operation create with this data.
    Create(Value),
    /// Operation setData.
    Set {
        /// New data.
        value: Value,
        /// Required version; `None` for any.
        version: Option<i32>,
    },
    /// Operation delete.
    Delete {
        /// Required version; `None` for any.
        version: Option<i32>,
    },
    /// Operation check, inside a multi.
    Check {
        /// Required version; `None` for any.
        version: Option<i32>,
    },
    /// Operation getData whose result is known to be current, such as directly after a sync.
    Read,
}

/// Answer to a request for a znode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The znode was created, deleted or checked. Also used for a setData whose new version the
    /// client does not know.
    Done,
    /// The data was set. Contains the new version.
    Version(i32),
    /// The data was read.
    Found {
        /// Data of the znode.
        value: Value,
        /// Version of the data.
        version: i32,
    },
    /// The znode does not exist.
    Missing,
    /// The znode already exists.
    Exists,
    /// The znode has a different version.
    BadVersion,
}

/// Value and version of the znode, or `None` if the znode does not exist.
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
