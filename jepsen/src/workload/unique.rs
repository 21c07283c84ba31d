//! Unique ids: the numbers of sequential znodes.

use client::Create;
use serde_json::{Value, json};

use super::Context;
use super::caller::{Caller, Outcome};
use super::steps::{Definition, Steps};
use crate::history::Event;
use crate::verdict::Verdict;

const TOP: &str = "/jepsen-unique";
const DIRECTORY: &str = "/jepsen-unique/ids";
/// Digits at the end of the name of a sequential znode.
const DIGITS: usize = 10;

/// Numbers of sequential znodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unique;

impl Definition for Unique {
    type Client = Client;

    fn name(&self) -> &'static str {
        "unique"
    }

    fn promise(&self) -> &'static str {
        "the numbers of a directory's sequential znodes are unique, and later znodes have greater numbers"
    }

    fn top(&self) -> &'static str {
        TOP
    }

    fn znodes(&self) -> Vec<(String, String)> {
        vec![(DIRECTORY.into(), String::new())]
    }

    fn check(&self, events: &[Event], _steps_max: u64) -> Verdict {
        crate::check::unique::check(events)
    }
}

pub(super) struct Client(Caller);

impl Steps for Client {
    fn new(context: Context) -> Client {
        Client(Caller::new(context))
    }

    fn caller(&mut self) -> &mut Caller {
        &mut self.0
    }

    async fn step(&mut self) {
        let Some(session) = self.0.session().await else {
            return;
        };
        self.0.invoke("take", None, Value::Null);
        let create = Create::persistent().sequential();
        let path = format!("{DIRECTORY}/id-");
        let call = session.create(&path, "", &create);
        let outcome = self.0.conclude("take", None, call, |path| json!(id(path)));
        if let Outcome::Done(path) = outcome.await {
            // Numbers are never reused, so the directory does not need to grow.
            session.delete(&path, -1).await.ok();
        }
    }

    async fn last(&mut self) {
        self.step().await;
    }
}

/// Returns the number at the end of a path.
fn id(path: &str) -> Option<i64> {
    path.get(path.len().checked_sub(DIGITS)?..)?.parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_number_is_at_the_end() {
        assert_eq!(super::id("/a/id-0000000017"), Some(17));
        assert_eq!(super::id("/a"), None);
    }
}
