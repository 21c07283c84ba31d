//! Slots that many threads fill without waiting, and that one thread empties.

use std::marker::PhantomData;

use crate::primitives::{Lock, Parker, Primitives};
use crate::threads::Threads;

/// A value with room for every pending request. A sender changes the value and never waits for the
/// receiver, because a request that arrives while a request of the same kind is pending uses the
/// same slot.
#[derive(Debug)]
pub struct Mailbox<S: Send, P: Primitives = Threads> {
    slots: P::Lock<Slots<S>>,
    /// Parker of the receiver.
    parker: P::Parker,
    primitives: PhantomData<P>,
}

#[derive(Debug)]
struct Slots<S> {
    /// Slots for requests; `None` once the mailbox is closed.
    open: Option<S>,
    /// Whether no further request follows.
    is_finished: bool,
}

impl<S: Send, P: Primitives> Mailbox<S, P> {
    /// Creates an open mailbox with these slots.
    pub fn new(slots: S) -> Self {
        Self {
            slots: P::Lock::new(Slots {
                open: Some(slots),
                is_finished: false,
            }),
            parker: P::Parker::new(),
            primitives: PhantomData,
        }
    }

    /// Changes the slots and wakes the receiver. Returns `None` if the mailbox is closed.
    pub fn post<T>(&self, change: impl FnOnce(&mut S) -> T) -> Option<T> {
        let posted = self.slots.lock().open.as_mut().map(change);
        self.parker.unpark();
        posted
    }

    /// Removes and returns a request if `take` finds one. Returns `None` if it finds none, or if
    /// the mailbox is closed.
    pub fn try_take<T>(&self, take: impl FnOnce(&mut S) -> Option<T>) -> Option<T> {
        self.slots.lock().open.as_mut().and_then(take)
    }

    /// Waits until `take` finds a request. Returns `None` if the mailbox is closed, or if it is
    /// finished and `take` does not find a request. Only one thread at a time may call this
    /// function.
    pub fn take<T>(&self, mut take: impl FnMut(&mut S) -> Option<T>) -> Option<T> {
        self.parker.register();
        loop {
            let (taken, is_finished) = {
                let mut slots = self.slots.lock();
                (take(slots.open.as_mut()?), slots.is_finished)
            };
            if taken.is_some() || is_finished {
                return taken;
            }
            self.parker.park(None);
        }
    }

    /// Finishes the mailbox: the receiver handles the pending requests and ends.
    pub fn finish(&self) {
        self.slots.lock().is_finished = true;
        self.parker.unpark();
    }

    /// Closes the mailbox and returns its slots, or `None` if the mailbox was already closed.
    pub fn close(&self) -> Option<S> {
        let slots = self.slots.lock().open.take();
        self.parker.unpark();
        slots
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn equal_requests_share_a_slot_and_no_sender_waits() {
        let mailbox = Mailbox::<Option<u8>>::new(None);
        for number in 0..3 {
            assert!(mailbox.post(|slot| slot.replace(number)).is_some());
        }
        assert_eq!(mailbox.take(Option::take), Some(2));
        assert_eq!(mailbox.try_take(Option::take), None);
    }

    #[test]
    fn the_receiver_waits_for_a_request_and_for_the_end() {
        let mailbox = Arc::new(Mailbox::<Vec<u8>>::new(Vec::new()));
        let receiver = {
            let mailbox = mailbox.clone();
            thread::spawn(move || {
                let mut taken = Vec::new();
                while let Some(number) = mailbox.take(Vec::pop) {
                    taken.push(number);
                }
                taken
            })
        };
        mailbox.post(|slots| slots.push(7));
        mailbox.finish();
        assert_eq!(receiver.join().unwrap(), [7]);
        assert_eq!(mailbox.close(), Some(Vec::new()));
        assert_eq!(mailbox.post(|slots| slots.push(8)), None);
    }
}
