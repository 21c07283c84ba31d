//! The lock of a machine, its inbox, and the turns of the thread that holds the lock.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::primitives::{Atomic, Lock, Parker, Primitives, Queue};
use crate::threads::Threads;

/// State machine that handles messages, on one thread at a time. It removes them from the inbox of
/// its [`Executor`].
pub trait Machine: Send {
    /// Message that the machine handles.
    type Message: Send;

    /// Information that the machine needs about a *visiting* thread, which runs the machine inline
    /// after it has sent a message.
    type Visitor: Copy;

    /// Handles some of the messages, and everything that is due. Without a visitor, the machine's
    /// own thread runs the machine.
    fn turn(&mut self, visitor: Option<Self::Visitor>);

    /// Returns whether the machine has ended. In that case, it must not be run again.
    fn has_ended(&self) -> bool;

    /// Returns the time by [`Settings::now_ms`] at which the machine needs a turn even if no
    /// message arrives.
    fn deadline_ms(&self) -> Option<i64>;

    /// Returns whether visiting threads may run the machine's next turns.
    fn allows_inline(&self) -> bool;
}

/// Settings of an executor.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Number of turns after which a visiting thread leaves the rest to the machine's own thread.
    pub inline_turns_max: usize,
    /// Number of times that the machine's own thread yields to others before it parks.
    pub yields_before_park: usize,
    /// A monotonic clock.
    pub now_ms: fn() -> i64,
}

/// Inbox and lock of a machine. Messages may arrive before the machine begins and after it has
/// ended.
pub struct Executor<M: Machine, P: Primitives = Threads> {
    settings: Settings,
    inbox: P::Queue<M::Message>,
    /// The machine; `None` before it begins and after it has ended.
    machine: P::Lock<Option<M>>,
    has_ended: P::Flag,
    /// Last result of [`Machine::allows_inline`].
    allows_inline: P::Flag,
    parker: P::Parker,
    /// Time until which the machine's own thread parks. It is guarded by the lock.
    parked_until_ms: P::Number,
    primitives: PhantomData<P>,
}

impl<M: Machine, P: Primitives> Executor<M, P> {
    /// Creates an executor without a machine. Messages may already arrive.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            inbox: P::Queue::new(),
            machine: P::Lock::new(None),
            has_ended: P::Flag::new(false),
            allows_inline: P::Flag::new(false),
            parker: P::Parker::new(),
            parked_until_ms: P::Number::new(i64::MIN),
            primitives: PhantomData,
        }
    }

    /// Returns the queue from which the machine removes its messages.
    pub fn inbox(&self) -> &P::Queue<M::Message> {
        &self.inbox
    }

    /// Installs the machine. [`Executor::run`] must follow.
    pub fn begin(&self, machine: M) {
        *self.machine.lock() = Some(machine);
    }

    /// Sends a message and wakes the machine's own thread. If the machine has ended, the message is
    /// dropped.
    pub fn send(&self, message: M::Message) {
        self.put(message);
        self.wake();
    }

    /// Sends a message. [`Executor::run_inline`] or [`Executor::wake`] must follow soon, on the
    /// same thread.
    pub fn put(&self, message: M::Message) {
        self.inbox.push(message);
        // With the fence in `release`, either the thread that releases the machine sees the
        // message, or this thread sees that the machine is free. With the fence in `run`, either
        // `run` drops the message at its end, or this thread sees that the machine has ended.
        P::fence();
        if self.has_ended.load(Ordering::Relaxed) {
            self.drain();
        }
    }

    /// Runs the machine on this thread for the waiting messages, or wakes the machine's own thread
    /// if the machine does not permit inline runs. The caller must not hold a lock that the machine
    /// acquires.
    pub fn run_inline(&self, visitor: M::Visitor) {
        if self.allows_inline.load(Ordering::Relaxed) {
            self.run_inline_always(visitor);
        } else {
            self.wake();
        }
    }

    /// Runs the machine like [`Executor::run_inline`], even if the machine does not permit inline
    /// runs. Intended for a thread that would otherwise wait for the machine's next action.
    pub fn run_inline_always(&self, visitor: M::Visitor) {
        for _ in 0..self.settings.inline_turns_max {
            if self.inbox.is_empty() {
                return;
            }
            let Some(lock) = self.machine.try_lock() else {
                return;
            };
            let mut held = MachineGuard::<M, P>(lock);
            let Some(machine) = &mut *held else {
                return;
            };
            if !machine.has_ended() {
                machine.turn(Some(visitor));
            }
            let deadline_ms = machine.deadline_ms().unwrap_or(i64::MAX);
            let is_due_earlier = deadline_ms < self.parked_until_ms.load(Ordering::Relaxed);
            let is_wanted = machine.has_ended() || is_due_earlier;
            self.release(held);
            if is_wanted {
                self.parker.unpark();
                return;
            }
        }
        // The limit of turns is reached. The machine's own thread handles the remaining messages,
        // because this thread has its own work.
        if !self.inbox.is_empty() {
            self.parker.unpark();
        }
    }

    /// Runs the machine on its own thread, which is the calling one, until it has ended.
    pub fn run(&self) {
        self.parker.register();
        loop {
            let mut held = MachineGuard::<M, P>(self.machine.lock());
            let Some(machine) = &mut *held else {
                break;
            };
            self.run_turns(machine);
            if machine.has_ended() {
                let ended = held.take();
                drop(held);
                drop(ended);
                break;
            }
            let deadline_ms = machine.deadline_ms();
            let until_ms = deadline_ms.unwrap_or(i64::MAX);
            self.parked_until_ms.store(until_ms, Ordering::Relaxed);
            self.release(held);
            if self.inbox.is_empty() {
                self.parker
                    .park(deadline_ms.map(|at_ms| self.time_until(at_ms)));
            }
        }
        self.has_ended.store(true, Ordering::Relaxed);
        P::fence();
        self.drain();
    }

    /// Runs turns until no message has arrived for a short time. Meanwhile, senders need not wake
    /// this thread.
    fn run_turns(&self, machine: &mut M) {
        while !machine.has_ended() {
            machine.turn(None);
            let mut yields = 0;
            while self.inbox.is_empty() {
                if yields == self.settings.yields_before_park {
                    return;
                }
                yields += 1;
                P::yield_now();
            }
        }
    }

    fn time_until(&self, at_ms: i64) -> Duration {
        let left_ms = at_ms.saturating_sub((self.settings.now_ms)()).max(0);
        Duration::from_millis(left_ms.unsigned_abs())
    }

    /// Releases the machine. The caller must then check the inbox, because a thread that has sent a
    /// message and found the lock held relies on this check. The fences here and in `put` guarantee
    /// that either that thread sees the free lock, or this thread sees the message.
    fn release(&self, held: MachineGuard<'_, M, P>) {
        let allows_inline = held.as_ref().is_some_and(M::allows_inline);
        self.allows_inline.store(allows_inline, Ordering::Relaxed);
        drop(held);
        P::fence();
    }

    /// Wakes the machine's own thread for the messages that this thread has sent, unless another
    /// thread holds the machine.
    pub fn wake(&self) {
        if !self.machine.is_locked() {
            self.parker.unpark();
        }
    }

    /// Drops all messages.
    fn drain(&self) {
        while self.inbox.pop().is_some() {}
    }
}

impl<M: Machine, P: Primitives> std::fmt::Debug for Executor<M, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let waiting = self.inbox.len();
        f.debug_struct("Executor")
            .field("waiting", &waiting)
            .finish_non_exhaustive()
    }
}

/// A machine's own thread, which may wait for a deadline. A simulated clock does not wake the thread
/// when it moves, so the simulation must wake it.
pub trait WaitingThread: Send + Sync {
    /// Returns the deadline by [`Settings::now_ms`]; `i64::MAX` without one.
    fn deadline_ms(&self) -> i64;

    /// Wakes the thread.
    fn wake(&self);
}

impl<M: Machine, P: Primitives> WaitingThread for Executor<M, P>
where
    Self: Send + Sync,
{
    fn deadline_ms(&self) -> i64 {
        self.parked_until_ms.load(Ordering::Relaxed)
    }

    fn wake(&self) {
        Self::wake(self);
    }
}

/// A machine that one thread holds.
struct MachineGuard<'a, M: Machine + 'a, P: Primitives>(
    <P::Lock<Option<M>> as Lock<Option<M>>>::Guard<'a>,
);

impl<M: Machine, P: Primitives> Deref for MachineGuard<'_, M, P> {
    type Target = Option<M>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<M: Machine, P: Primitives> DerefMut for MachineGuard<'_, M, P> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl<M: Machine, P: Primitives> Drop for MachineGuard<'_, M, P> {
    /// After a panic, the state of the machine is unknown, so it is considered ended. Its parts are
    /// not dropped.
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::mem::forget(self.0.take());
        }
    }
}

#[cfg(test)]
#[path = "executor_tests.rs"]
mod tests;
