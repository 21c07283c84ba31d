//! The processes of members, for code that must kill them immediately.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process};

/// Process ids of running members, by their ids. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Registered(Arc<Mutex<BTreeMap<u64, u32>>>);

impl Registered {
    /// Locks the ids. While the lock is held, no member is started and none is reaped, so that no
    /// id belongs to another process.
    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Kills all members. No member can be started while the returned value lives.
pub fn kill_all(registered: &Registered) -> impl Drop + '_ {
    let members = registered.lock();
    let ids = members.values().filter_map(|&id| i32::try_from(id).ok());
    for process in ids.filter_map(Pid::from_raw) {
        kill_process(process, Signal::KILL).ok();
    }
    members
}
