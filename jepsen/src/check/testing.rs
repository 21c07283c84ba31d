//! Histories for the tests of checkers.

use serde_json::Value;

use crate::history::{Event, Kind, Process};
use crate::verdict::{Validity, Verdict};

/// A history under construction.
#[derive(Debug, Default, Clone)]
pub(crate) struct History {
    pub(crate) events: Vec<Event>,
}

impl History {
    pub(crate) fn invoke(&mut self, process: u64, f: &str, key: &str, value: Value) {
        let key = (!key.is_empty()).then(|| key.to_owned());
        self.push(process, Kind::Invoke, f.to_owned(), key, value);
    }

    /// Ends the last call of the process.
    pub(crate) fn end(&mut self, kind: Kind, process: u64, value: Value) {
        let of = Process::Client(process);
        let mut calls = self.events.iter().rev();
        let call = calls
            .find(|event| event.process == of && event.kind == Kind::Invoke)
            .expect("a call");
        let (f, key) = (call.f.clone(), call.key.clone());
        self.push(process, kind, f, key, value);
    }

    /// Adds a call that ends before any other event.
    pub(crate) fn call(&mut self, process: u64, f: &str, key: &str, value: Value, answer: Value) {
        self.invoke(process, f, key, value);
        self.end(Kind::Ok, process, answer);
    }

    fn push(&mut self, process: u64, kind: Kind, f: String, key: Option<String>, value: Value) {
        let index = self.events.len() as u64;
        self.events.push(Event {
            index,
            time_ns: index * 1_000_000,
            process: Process::Client(process),
            kind,
            f,
            key,
            value,
            error: None,
        });
    }
}

/// Checks that the verdict is invalid, and that a finding contains these words.
#[track_caller]
pub(crate) fn assert_found(verdict: &Verdict, words: &str) {
    assert_eq!(verdict.validity, Validity::Invalid, "{verdict:#?}");
    let mut findings = verdict.findings.iter();
    assert!(
        findings.any(|finding| finding.what.contains(words)),
        "no finding has {words:?}: {verdict:#?}"
    );
}

/// Checks that the verdict is valid, without a finding.
#[track_caller]
pub(crate) fn assert_valid(verdict: &Verdict) {
    assert_eq!(verdict.validity, Validity::Valid, "{verdict:#?}");
    assert!(verdict.findings.is_empty(), "{verdict:#?}");
}
