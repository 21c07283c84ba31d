//! Turns of a socket's task and of another thread that may write to the socket directly.

use std::marker::PhantomData;

use crate::primitives::Primitives;
use crate::threads::Threads;

/// The right to write to a socket. The lock of the outbox guards this value, and is not held during
/// a write.
///
/// A task that waits for its client must be woken for each reply. The thread that has created the
/// reply may write it instead, while the task has no other work.
#[derive(Debug)]
pub struct DirectWrite<P: Primitives = Threads> {
    /// Whether another thread is writing.
    is_under_way: bool,
    /// Whether the task is writing the output that it has taken.
    is_task_writing: bool,
    /// Whether the task has output to write and waits for the end of the direct write.
    is_awaited: bool,
    /// Whether the task waits only for its client.
    is_task_idle: bool,
    primitives: PhantomData<P>,
}

impl<P: Primitives> Default for DirectWrite<P> {
    fn default() -> Self {
        Self {
            is_under_way: false,
            is_task_writing: false,
            is_awaited: false,
            is_task_idle: false,
            primitives: PhantomData,
        }
    }
}

impl<P: Primitives> DirectWrite<P> {
    /// Records that the task is about to wait, either only for its client or also for other work.
    pub fn task_waits(&mut self, is_task_idle: bool) {
        self.is_task_idle = is_task_idle;
    }

    /// Returns whether the task may take all output and write it. If not, the direct write wakes
    /// the task at its end. The task has written its output when it calls this function again.
    /// `has_output` states whether there is output now.
    pub fn task_takes(&mut self, has_output: bool) -> bool {
        self.is_awaited = self.is_under_way;
        self.is_task_writing = has_output && !self.is_under_way;
        !self.is_under_way
    }

    /// Returns whether another thread may write: the task neither writes nor has other work, and no
    /// other thread writes.
    pub fn may_begin(&self) -> bool {
        self.is_task_idle && !self.is_task_writing && !self.is_under_way
    }

    /// Records that a direct write begins.
    pub fn begin(&mut self) {
        self.is_under_way = true;
    }

    /// Records that the direct write has ended. `is_all` states whether all output has been
    /// written. Returns whether the task need not be woken.
    pub fn end(&mut self, is_all: bool) -> bool {
        self.is_under_way = false;
        let is_awaited = std::mem::take(&mut self.is_awaited);
        is_all && !is_awaited && self.is_task_idle
    }
}
