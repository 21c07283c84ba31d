//! State that all tasks of a run share.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use client::Client;
use config::membership::Membership;
use parking_lot::Mutex;
use proto::Sid;
use testkit::linearizability::Call;
use testkit::linearizability::znode::{Answer, Question};

use crate::clients::lines::Lines;
use crate::ensemble::Members;
use crate::ensemble::lives::Lives;
use crate::security::Security;
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

/// Znodes that must be absent or present at the end.
#[derive(Default)]
pub(crate) struct Expected {
    /// Directories whose znodes all vanish.
    pub(crate) empty: BTreeSet<String>,
    /// Znodes that vanish.
    pub(crate) absent: BTreeSet<String>,
    /// Znodes that remain.
    pub(crate) present: BTreeSet<String>,
    /// Clients that must exist until then, because they delete znodes in the background.
    pub(crate) clients: Vec<Client>,
    /// Numbers of sequential znodes.
    pub(crate) numbers: BTreeSet<i64>,
}

pub(crate) struct World {
    pub(crate) settings: Settings,
    pub(crate) members: tokio::sync::Mutex<Members>,
    pub(crate) lives: Arc<Lives>,
    /// Calls for each znode.
    pub(crate) calls: Vec<Mutex<Vec<ZnodeCall>>>,
    /// Connections of clients.
    pub(crate) lines: Arc<Lines>,
    /// Newest member list that an operator has seen.
    pub(crate) list: Mutex<Membership>,
    /// State that the checks at the end need.
    pub(crate) expected: Mutex<Expected>,
    /// Znodes that the checks at the end found although they must vanish.
    pub(crate) leftovers: Mutex<Vec<String>>,
    /// Number of requests of other programs that servers have executed.
    pub(crate) done: AtomicUsize,
    /// Number of changes of the member list.
    pub(crate) reconfigurations: AtomicUsize,
    /// Members at the end of the run.
    pub(crate) last_members: Mutex<Option<Vec<Sid>>>,
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
            lines: Arc::default(),
            list: Mutex::default(),
            expected: Mutex::default(),
            leftovers: Mutex::default(),
            done: AtomicUsize::new(0),
            reconfigurations: AtomicUsize::new(0),
            last_members: Mutex::default(),
            moment: AtomicI64::new(0),
            value: AtomicI64::new(0),
            violation: Mutex::new(None),
        }
    }

    /// Returns the members: those at the beginning or, after the faults, those at the end.
    pub(crate) fn listed_members(&self) -> Vec<Sid> {
        let last = self.last_members.lock().clone();
        last.unwrap_or_else(|| self.settings.members().collect())
    }

    /// Returns the security of the ensemble. Only secured runs have attackers and call this.
    pub(crate) fn security(&self) -> &Security {
        let security = self.settings.security.as_deref();
        security.expect("a secured run")
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
