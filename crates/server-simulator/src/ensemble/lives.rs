//! Lives of the members, from their starts to their ends.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use proto::Sid;

/// Numbers of the current lives. Each start of a member begins another life.
#[derive(Debug, Default)]
pub(crate) struct Lives(Mutex<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    last: u64,
    current: BTreeMap<Sid, u64>,
}

impl Lives {
    /// Records that a member runs.
    pub(crate) fn begin(&self, member: Sid) {
        let mut numbers = self.0.lock();
        numbers.last += 1;
        let number = numbers.last;
        numbers.current.insert(member, number);
    }

    /// Records that a member begins to end.
    pub(crate) fn end(&self, member: Sid) {
        self.0.lock().current.remove(&member);
    }

    /// Returns the number of the current life, or `None` if the member does not run.
    pub(crate) fn of(&self, member: Sid) -> Option<u64> {
        self.0.lock().current.get(&member).copied()
    }
}
