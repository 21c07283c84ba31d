//! Pairs the events of a history to calls.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::Broken;
use crate::history::{Event, Kind, Process};

/// Outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It happened.
    Ok,
    /// It did not happen.
    Fail,
    /// It is unknown, and may happen at any time after its invocation.
    Unknown,
}

/// A call and its end.
#[derive(Debug, Clone, Copy)]
pub struct Op<'a> {
    /// The calling process.
    pub process: u64,
    /// Event of its begin.
    pub call: &'a Event,
    /// Event of its end. A history may end before a call does.
    pub end: Option<&'a Event>,
}

impl<'a> Op<'a> {
    /// Returns the operation's name.
    pub fn f(&self) -> &'a str {
        &self.call.f
    }

    /// Returns the key, or the empty string if the workload has only one.
    pub fn key(&self) -> &'a str {
        self.call.key.as_deref().unwrap_or_default()
    }

    /// Returns the outcome.
    pub fn outcome(&self) -> Outcome {
        match self.end.map(|end| end.kind) {
            Some(Kind::Ok) => Outcome::Ok,
            Some(Kind::Fail) => Outcome::Fail,
            Some(Kind::Info | Kind::Invoke) | None => Outcome::Unknown,
        }
    }

    /// Returns the answer, if the call is known to have happened.
    pub fn answer(&self) -> Option<&'a Value> {
        let end = self.end.filter(|end| end.kind == Kind::Ok);
        end.map(|end| &end.value)
    }

    /// Returns the index of its begin.
    pub fn first(&self) -> u64 {
        self.call.index
    }

    /// Returns the index of its end. A call with an unknown outcome has the greatest index, because
    /// it may still happen.
    pub fn last(&self) -> u64 {
        match (self.outcome(), self.end) {
            (Outcome::Ok | Outcome::Fail, Some(end)) => end.index,
            _ => u64::MAX,
        }
    }

    /// Returns the indexes of its events.
    pub fn events(&self) -> impl Iterator<Item = u64> + use<> {
        let end = self.end.map(|end| end.index);
        std::iter::once(self.call.index).chain(end)
    }

    /// Returns an error about the form of the answer, or of the arguments if there is no answer.
    pub fn broken(&self, what: impl Into<String>) -> Broken {
        Broken {
            event: self.end.unwrap_or(self.call).index,
            what: what.into(),
        }
    }

    /// Returns a whole number of the answer.
    ///
    /// # Errors
    /// If the answer does not contain a number of this name.
    pub fn number(&self, name: &str) -> Result<i64, Broken> {
        let value = self.answer().and_then(|answer| answer.get(name));
        let number = value.and_then(Value::as_i64);
        number.ok_or_else(|| {
            self.broken(format!(
                "the reply does not contain a whole number \"{name}\""
            ))
        })
    }

    /// Returns a text of the answer.
    ///
    /// # Errors
    /// If the answer does not contain a text of this name.
    pub fn text(&self, name: &str) -> Result<&'a str, Broken> {
        let value = self.answer().and_then(|answer| answer.get(name));
        let text = value.and_then(Value::as_str);
        text.ok_or_else(|| self.broken(format!("the reply does not contain a text \"{name}\"")))
    }
}

/// Returns all calls of clients, in the order of their invocations.
///
/// # Errors
/// If the indexes do not grow, a process calls during another call of its own or after an unknown
/// outcome, or a call ends without a begin.
pub fn calls(events: &[Event]) -> Result<Vec<Op<'_>>, Broken> {
    let mut calls: Vec<Op<'_>> = Vec::new();
    let mut open: HashMap<u64, usize> = HashMap::new();
    let mut last = None;
    for event in events {
        let broken = |what: &str| Broken {
            event: event.index,
            what: what.to_owned(),
        };
        if last >= Some(event.index) {
            return Err(broken("its index is not greater than the previous index"));
        }
        last = Some(event.index);
        let Process::Client(process) = event.process else {
            continue;
        };
        if event.kind == Kind::Invoke {
            if open.insert(process, calls.len()).is_some() {
                return Err(broken(
                    "an earlier call of its process is open or has an unknown outcome",
                ));
            }
            calls.push(Op {
                process,
                call: event,
                end: None,
            });
            continue;
        }
        let position = open.get(&process).copied();
        let call = position.and_then(|position| calls.get_mut(position));
        let Some(call) = call.filter(|call| call.end.is_none() && call.call.f == event.f) else {
            return Err(broken("it ends a call that did not begin"));
        };
        call.end = Some(event);
        if event.kind != Kind::Info {
            open.remove(&process);
        }
    }
    Ok(calls)
}

/// Returns the calls of each key, in their order.
pub fn by_key(calls: Vec<Op<'_>>) -> BTreeMap<&str, Vec<Op<'_>>> {
    let mut keys: BTreeMap<&str, Vec<Op<'_>>> = BTreeMap::new();
    for op in calls {
        keys.entry(op.key()).or_default().push(op);
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::History;

    #[test]
    fn a_call_has_the_end_of_its_own_process() {
        let mut history = History::default();
        history.invoke(1, "read", "", Value::Null);
        history.invoke(2, "write", "", Value::from(5));
        history.end(Kind::Ok, 2, Value::from(5));
        history.end(Kind::Info, 1, Value::Null);
        let calls = calls(&history.events).expect("whole");
        assert_eq!(calls[0].outcome(), Outcome::Unknown);
        assert_eq!((calls[1].first(), calls[1].last()), (1, 2));
        assert_eq!(calls[0].last(), u64::MAX);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let mut history = History::default();
        history.invoke(1, "read", "", Value::Null);
        history.invoke(1, "read", "", Value::Null);
        assert_eq!(calls(&history.events).expect_err("two at once").event, 1);

        let mut history = History::default();
        history.invoke(1, "read", "", Value::Null);
        history.end(Kind::Info, 1, Value::Null);
        history.invoke(1, "read", "", Value::Null);
        assert_eq!(calls(&history.events).expect_err("goes on").event, 2);

        let mut history = History::default();
        history.invoke(1, "read", "", Value::Null);
        history.end(Kind::Ok, 1, Value::Null);
        history.events[1].process = Process::Client(2);
        assert_eq!(calls(&history.events).expect_err("no beginning").event, 1);
    }
}
