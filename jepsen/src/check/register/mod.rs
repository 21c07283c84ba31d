//! A register with a version: the data of one znode.
//!
//! | f | invoke | ok |
//! |---|---|---|
//! | `read` | null | `[version, value]` |
//! | `write` | value | `[version, value]` |
//! | `cas` | `[expected version, value]` | `[version, value]` |
//!
//! A `cas` that fails with `BadVersion` also proves something: at some moment the version was
//! different. Any other `fail` proves nothing.

pub mod rejoin;

use serde_json::Value;

use super::Broken;
use super::linearizable::Model;
use super::ops::{Op, Outcome};

/// Part of [`Event::error`](crate::history::Event::error) if the version was different: the number
/// of KeeperException's `BadVersion`, as the client writes it after the name.
pub const BAD_VERSION: &str = "(-103)";

/// The model: every write increments the version.
#[derive(Debug, Clone, Copy)]
pub struct Register {
    /// Initial version and value.
    pub start: (i64, i64),
}

/// A call of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// A read and its answer.
    Read {
        /// Version.
        version: i64,
        /// Value.
        value: i64,
    },
    /// A write and its new version.
    Write {
        /// The new value.
        value: i64,
        /// The new version, `None` without an answer.
        version: Option<i64>,
    },
    /// A write that is executed at only one version.
    Cas {
        /// The expected version.
        expected: i64,
        /// The new value.
        value: i64,
        /// The new version, `None` without an answer.
        version: Option<i64>,
    },
    /// A compare-and-set that failed because of another version.
    Refused {
        /// The version that the call expected.
        expected: i64,
    },
}

impl Model for Register {
    type State = (i64, i64);
    type Call = Call;

    fn start(&self) -> Self::State {
        self.start
    }

    fn call(&self, op: &Op<'_>) -> Result<Option<Call>, Broken> {
        let asked = &op.call.value;
        let answer = op.answer().map(|answer| pair(op, answer)).transpose()?;
        let version = answer.map(|(version, _)| version);
        let is_refused = op.outcome() == Outcome::Fail;
        Ok(match op.f() {
            "read" => answer.map(|(version, value)| Call::Read { version, value }),
            "write" if is_refused => None,
            "write" => {
                let value = asked.as_i64();
                let value =
                    value.ok_or_else(|| op.broken("the value of a write is not a number"))?;
                Some(Call::Write { value, version })
            }
            "cas" => {
                let (expected, value) = pair(op, asked)?;
                let error = op.end.and_then(|end| end.error.as_deref());
                let was_other = error.is_some_and(|error| error.contains(BAD_VERSION));
                match (is_refused, was_other) {
                    (true, true) => Some(Call::Refused { expected }),
                    (true, false) => None,
                    (false, _) => Some(Call::Cas {
                        expected,
                        value,
                        version,
                    }),
                }
            }
            other => return Err(op.broken(format!("unknown operation {other:?}"))),
        })
    }

    fn step(&self, &(now, held): &Self::State, call: &Call) -> Option<Self::State> {
        let next = now + 1;
        let may_be = |version: &Option<i64>| version.is_none_or(|version| version == next);
        match call {
            Call::Read { version, value } => {
                ((*version, *value) == (now, held)).then_some((now, held))
            }
            Call::Write { value, version } => may_be(version).then_some((next, *value)),
            Call::Cas {
                expected,
                value,
                version,
            } => (*expected == now && may_be(version)).then_some((next, *value)),
            Call::Refused { expected } => (*expected != now).then_some((now, held)),
        }
    }

    fn is_past(&self, &(now, _): &Self::State, call: &Call) -> bool {
        match call {
            Call::Read { version, .. } => now > *version,
            Call::Write { version, .. } => version.is_some_and(|version| now >= version),
            Call::Cas { expected, .. } => now > *expected,
            Call::Refused { .. } => false,
        }
    }
}

fn pair(op: &Op<'_>, value: &Value) -> Result<(i64, i64), Broken> {
    let number = |at: usize| value.get(at).and_then(Value::as_i64);
    match (number(0), number(1)) {
        (Some(first), Some(second)) => Ok((first, second)),
        _ => Err(op.broken(format!("{value} is not a pair of numbers"))),
    }
}
