//! A worker behind a lock, the messages that wait for it, and the turns of whoever has it.
//!
//! ```text
//!  a thread with a message --> inbox --> worker <--lock-- its own thread, or one with a message
//! ```
//!
//! A worker that has a thread to itself must be woken for each message that comes alone, and that takes longer
//! than most messages. So a thread that brings one takes the worker itself, if that may be attended to and is
//! free; the log thread does so behind each small group. Only the worker's own thread ever waits for the lock.
//! Whoever lets go of it looks once more at the inbox: a message is seen by its sender, by who had the worker
//! meanwhile, or by the worker's own thread.

use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering, fence};
use std::thread::{self, Thread};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use parking_lot::{Mutex, MutexGuard};

use crate::{clock, limits};

/// Handles messages, on one thread at a time. It takes them from the inbox of its [`Attended`].
pub(crate) trait Worker {
    /// What it is told.
    type Message;

    /// What it leaves to a thread that has attended to it.
    type Errand;

    /// Handles some of what waits, and what is due. `is_elsewhere`: not on its own thread, and [`Worker::take_errand`]
    /// follows.
    fn turn(&mut self, is_elsewhere: bool);

    /// What is left to the caller, which does it when it has let go of the worker.
    fn take_errand(&mut self) -> Option<Self::Errand>;

    /// Does it, and tells the worker. It may wait for a disk.
    fn run_errand(errand: Self::Errand, tell: impl FnOnce(Self::Message));

    /// Whether it has come to its end. There are no more turns then.
    fn is_over(&self) -> bool;

    /// When it wants a turn although nobody tells it anything; a time of [`clock::session_ms`].
    fn deadline_ms(&self) -> Option<i64>;

    /// Whether threads with messages for it may give it its next turns.
    fn may_be_attended(&self) -> bool;
}

/// A worker, from before it begins until after it has ended.
pub(crate) struct Attended<W: Worker> {
    sender: Sender<W::Message>,
    inbox: Receiver<W::Message>,
    /// `None` before it begins and when it is over.
    worker: Mutex<Option<W>>,
    is_over: AtomicBool,
    /// What the worker said last.
    may_attend: AtomicBool,
    /// Whether others can run while a thread attends to the worker: never else, since it may wait for a disk.
    can_others_run: bool,
    /// Its own thread.
    thread: OnceLock<Thread>,
    /// Until when that sleeps if it is not woken.
    sleeps_until_ms: AtomicI64,
}

impl<W: Worker> Attended<W> {
    /// `threads`: how many of those that bring messages can run at a time.
    pub(crate) fn new(threads: usize) -> Self {
        let (sender, inbox) = crossbeam_channel::unbounded();
        Self {
            sender,
            inbox,
            worker: Mutex::new(None),
            is_over: AtomicBool::new(false),
            may_attend: AtomicBool::new(false),
            can_others_run: threads > 1,
            thread: OnceLock::new(),
            sleeps_until_ms: AtomicI64::new(i64::MIN),
        }
    }

    /// Where the worker finds its messages.
    pub(crate) fn inbox(&self) -> &Receiver<W::Message> {
        &self.inbox
    }

    /// The worker begins. Messages have waited for it; [`Attended::run`] follows.
    pub(crate) fn begin(&self, worker: W) {
        *self.worker.lock() = Some(worker);
    }

    /// Leaves a message for the worker's own thread. It is lost once the worker is over.
    pub(crate) fn send(&self, message: W::Message) {
        self.put(message);
        self.wake();
    }

    /// Leaves a message; [`Attended::attend`] must follow soon.
    pub(crate) fn put(&self, message: W::Message) {
        // There is always a receiver.
        let _ = self.sender.send(message);
        if self.is_over.load(Ordering::Acquire) {
            self.drain();
        }
    }

    /// Gives the worker turns for what waits, or wakes its thread for that. The caller must hold no lock that
    /// the worker takes. It may wait for a disk, when it has let go of the worker.
    pub(crate) fn attend(&self) {
        match self.may_attend.load(Ordering::Relaxed) {
            true => self.take_turns(),
            false => self.wake(),
        }
    }

    /// [`Attended::attend`], whatever the worker has said: for a thread that would else wait for what the worker does
    /// next.
    pub(crate) fn take_turns(&self) {
        for _ in 0..limits::TURNS_ON_OTHER_THREADS {
            // Against what has been put: see `let_go`.
            fence(Ordering::SeqCst);
            if self.inbox.is_empty() {
                return;
            }
            let Some(lock) = self.worker.try_lock() else {
                return;
            };
            let mut held = Held(lock);
            let Some(worker) = &mut *held else {
                return;
            };
            let mut errand = None;
            if !worker.is_over() {
                worker.turn(true);
                errand = worker.take_errand();
            }
            let deadline_ms = worker.deadline_ms().unwrap_or(i64::MAX);
            let sleeps_until_ms = self.sleeps_until_ms.load(Ordering::Relaxed);
            let is_wanted = worker.is_over() || deadline_ms < sleeps_until_ms;
            self.let_go(held);
            if is_wanted {
                self.unpark();
            }
            if let Some(errand) = errand {
                W::run_errand(errand, |message| self.put(message));
            } else if is_wanted {
                return;
            }
        }
        // Others go on bringing messages: this thread has something else to do as well.
        if !self.inbox.is_empty() {
            self.unpark();
        }
    }

    /// Gives the worker its turns, on its own thread, until it is over.
    pub(crate) fn run(&self) {
        // It is run once.
        let _ = self.thread.set(thread::current());
        loop {
            let mut held = Held(self.worker.lock());
            let Some(worker) = &mut *held else {
                break;
            };
            self.work(worker);
            if worker.is_over() {
                let ended = held.take();
                drop(held);
                drop(ended);
                break;
            }
            let deadline_ms = worker.deadline_ms();
            let until_ms = deadline_ms.unwrap_or(i64::MAX);
            self.sleeps_until_ms.store(until_ms, Ordering::Relaxed);
            self.let_go(held);
            if self.inbox.is_empty() {
                sleep_until(deadline_ms);
            }
        }
        self.is_over.store(true, Ordering::Release);
        self.drain();
    }

    /// Turns until nothing has waited for a short time: those who bring messages need not wake this thread meanwhile.
    fn work(&self, worker: &mut W) {
        while !worker.is_over() {
            worker.turn(false);
            let mut yields = 0;
            while self.inbox.is_empty() {
                if yields == limits::YIELDS_BEFORE_SLEEP {
                    return;
                }
                yields += 1;
                thread::yield_now();
            }
        }
    }

    /// Then the inbox is to be looked at: who has left a message and found the lock taken relies on that. Either
    /// it sees that the lock is free, or it is seen here: so say both fences.
    fn let_go(&self, held: Held<'_, W>) {
        let may_be_attended = held.as_ref().is_some_and(W::may_be_attended);
        let may_attend = may_be_attended && self.can_others_run;
        self.may_attend.store(may_attend, Ordering::Relaxed);
        drop(held);
        fence(Ordering::SeqCst);
    }

    /// Wakes the worker's own thread for what waits, unless somebody has the worker.
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if !self.worker.is_locked() {
            self.unpark();
        }
    }

    fn unpark(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// What nobody handles any more.
    fn drain(&self) {
        while self.inbox.try_recv().is_ok() {}
    }
}

fn sleep_until(deadline_ms: Option<i64>) {
    let Some(at_ms) = deadline_ms else {
        return thread::park();
    };
    let left_ms = at_ms.saturating_sub(clock::session_ms()).max(0);
    thread::park_timeout(Duration::from_millis(left_ms.unsigned_abs()));
}

/// The worker, held by one thread.
struct Held<'a, W>(MutexGuard<'a, Option<W>>);

impl<W> Deref for Held<'_, W> {
    type Target = Option<W>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<W> DerefMut for Held<'_, W> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl<W> Drop for Held<'_, W> {
    /// Behind a panic nobody knows what state it is in: it has ended. What it holds is left as it is.
    fn drop(&mut self) {
        if thread::panicking() {
            std::mem::forget(self.0.take());
        }
    }
}

#[cfg(test)]
#[path = "attended_tests.rs"]
mod tests;
