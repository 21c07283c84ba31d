//! Turns of a socket's task and of another thread that may write to the socket directly.

use std::marker::PhantomData;

use crate::primitives::Primitives;
use crate::threads::Threads;

/// The right to write to a socket. The lock of the outbox guards this value, and is not held during
/// a write.
///
/// A task that waits for its client must be woken for each reply. The thread that has made the
/// reply may write it instead, while the task does not have other work.
#[derive(Debug)]
pub struct DirectWrite<P: Primitives = Threads> {
    /// Another thread writes.
    is_under_way: bool,
    /// The task has output to write and waits for the end of the direct write.
    is_awaited: bool,
    /// The task waits for its client only.
    is_task_idle: bool,
    primitives: PhantomData<P>,
}

impl<P: Primitives> Default for DirectWrite<P> {
    fn default() -> Self {
        Self {
            is_under_way: false,
            is_awaited: false,
            is_task_idle: false,
            primitives: PhantomData,
        }
    }
}

impl<P: Primitives> DirectWrite<P> {
    /// Records that the task is about to wait: for its client only, or for other work too.
    pub fn task_waits(&mut self, is_task_idle: bool) {
        self.is_task_idle = is_task_idle;
    }

    /// Returns whether the task may take output and write it. If not, the direct write wakes the
    /// task at its end.
    pub fn task_may_write(&mut self) -> bool {
        self.is_awaited = self.is_under_way;
        !self.is_under_way
    }

    /// Returns whether another thread may write, as far as the task is concerned.
    pub fn may_begin(&self) -> bool {
        self.is_task_idle
    }

    /// Records that a direct write begins.
    pub fn begin(&mut self) {
        self.is_under_way = true;
    }

    /// Records that the direct write has ended. `is_all` states whether all output is written.
    /// Returns whether the task need not be woken.
    pub fn end(&mut self, is_all: bool) -> bool {
        self.is_under_way = false;
        let is_awaited = std::mem::take(&mut self.is_awaited);
        is_all && !is_awaited && self.is_task_idle
    }
}
