//! State that all tasks of a run share.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use testkit::linearizability::Call;
use testkit::linearizability::znode::{Answer, Question};

use crate::ensemble::Members;
use crate::lives::Lives;
use crate::settings::Settings;

/// A violated invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Name of the invariant.
    pub invariant: &'static str,
    /// What happened.
    pub text: String,
}

/// A call for a znode.
pub(crate) type ZnodeCall = Call<Question, Answer>;

pub(crate) struct World {
    pub(crate) settings: Settings,
    pub(crate) members: tokio::sync::Mutex<Members>,
    pub(crate) lives: Arc<Lives>,
    /// Calls for each znode.
    pub(crate) calls: Vec<Mutex<Vec<ZnodeCall>>>,
    /// Number of clients that have not ended.
    pub(crate) active: AtomicUsize,
    /// Number of answers to operators.
    pub(crate) operator_answers: AtomicUsize,
    moment: AtomicI64,
    value: AtomicI64,
    violation: Mutex<Option<Violation>>,
}

impl World {
    pub(crate) fn new(settings: Settings, members: Members) -> Self {
        let calls = std::iter::repeat_with(Mutex::default).take(settings.znodes);
        Self {
            calls: calls.collect(),
            active: AtomicUsize::new(settings.clients),
            operator_answers: AtomicUsize::new(0),
            lives: members.lives.clone(),
            members: tokio::sync::Mutex::new(members),
            settings,
            moment: AtomicI64::new(0),
            value: AtomicI64::new(0),
            violation: Mutex::new(None),
        }
    }

    /// Returns a moment later than all earlier ones.
    pub(crate) fn moment(&self) -> i64 {
        self.moment.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns a value that was not written before.
    pub(crate) fn value(&self) -> u64 {
        self.value.fetch_add(1, Ordering::Relaxed).unsigned_abs()
    }

    /// Reports a violation. The first one counts.
    pub(crate) fn report(&self, invariant: &'static str, text: &str) {
        self.violation.lock().get_or_insert_with(|| Violation {
            invariant,
            text: text.to_owned(),
        });
    }

    pub(crate) fn found(&self) -> Option<Violation> {
        self.violation.lock().clone()
    }

    /// Returns whether all clients have ended.
    pub(crate) fn is_over(&self) -> bool {
        self.active.load(Ordering::Relaxed) == 0 || self.violation.lock().is_some()
    }
}
