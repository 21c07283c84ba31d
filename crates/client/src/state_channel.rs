//! Channels that report the state of a session to its listeners.
//!
//! Each listener has its own channel. A new state is sent to the listeners in the order in which
//! they subscribed. tokio wakes the receivers of one channel in a random order, which would make
//! simulations unrepeatable.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::state::State;

/// Minimum number of listeners at which dropped listeners are removed.
const LISTENERS_MIN: usize = 8;

/// Sender of states. Dropping it ends the channels of the listeners.
#[derive(Debug)]
pub(crate) struct StateSender {
    first: watch::Sender<State>,
    listeners: Arc<Mutex<Listeners>>,
}

/// Handle that accepts new listeners.
#[derive(Debug)]
pub(crate) struct StateReceiver {
    first: watch::Receiver<State>,
    listeners: Weak<Mutex<Listeners>>,
}

#[derive(Debug, Default)]
struct Listeners {
    all: Vec<watch::Sender<State>>,
    /// Number of listeners at which dropped listeners are removed.
    full_at: usize,
    has_changed: bool,
}

impl StateSender {
    pub(crate) fn new(state: State) -> (Self, StateReceiver) {
        let (first, receiver) = watch::channel(state);
        let listeners = Arc::<Mutex<Listeners>>::default();
        let receiver = StateReceiver {
            first: receiver,
            listeners: Arc::downgrade(&listeners),
        };
        (Self { first, listeners }, receiver)
    }

    /// Sends a state to all listeners without holding the lock, because a listener that borrows its
    /// state blocks the sender, and may subscribe again meanwhile. A new listener starts with the
    /// new state.
    pub(crate) fn send(&self, state: State) {
        let mut senders = {
            let mut listeners = self.listeners.lock();
            listeners.has_changed = true;
            self.first.send_replace(state.clone());
            std::mem::take(&mut listeners.all)
        };
        for listener in &senders {
            listener.send_replace(state.clone());
        }
        let mut listeners = self.listeners.lock();
        senders.append(&mut listeners.all);
        listeners.all = senders;
    }
}

impl StateReceiver {
    /// Returns the current state.
    pub(crate) fn now(&self) -> watch::Ref<'_, State> {
        self.first.borrow()
    }

    /// Adds a listener. If the state has ever changed, the listener starts with an unseen change.
    pub(crate) fn listen(&self) -> watch::Receiver<State> {
        let Some(listeners) = self.listeners.upgrade() else {
            return self.first.clone();
        };
        let mut listeners = listeners.lock();
        if listeners.all.len() >= listeners.full_at {
            listeners.all.retain(|listener| !listener.is_closed());
            listeners.full_at = LISTENERS_MIN.max(listeners.all.len() * 2);
        }
        let (sender, mut listener) = watch::channel(self.first.borrow().clone());
        if listeners.has_changed {
            listener.mark_changed();
        }
        listeners.all.push(sender);
        listener
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_listener_receives_every_state_and_the_end() {
        let (sender, receiver) = StateSender::new(State::Reconnecting);
        let mut early = receiver.listen();
        assert!(!early.has_changed().expect("it goes on"));
        sender.send(State::Lost);
        let mut late = receiver.listen();
        assert!(
            late.has_changed().expect("it goes on"),
            "as one that was there"
        );
        for listener in [&mut early, &mut late] {
            assert_eq!(*listener.borrow_and_update(), State::Lost);
        }
        assert_eq!(*receiver.now(), State::Lost);
        drop(sender);
        assert!(early.has_changed().is_err() && late.has_changed().is_err());
        assert_eq!(*receiver.listen().borrow(), State::Lost);
    }

    #[test]
    fn a_listener_may_subscribe_again_while_it_reads() {
        let (sender, receiver) = StateSender::new(State::Reconnecting);
        let held = receiver.listen();
        let state = held.borrow();
        std::thread::scope(|scope| {
            scope.spawn(|| sender.send(State::Lost));
            // The sender has started, and waits for the state that is borrowed here.
            while *receiver.now() != State::Lost {
                std::thread::yield_now();
            }
            assert_eq!(*receiver.listen().borrow(), State::Lost);
            drop(state);
        });
        assert_eq!(*held.borrow(), State::Lost);
        sender.send(State::Closed);
        assert_eq!(*held.borrow(), State::Closed);
    }

    #[test]
    fn dropped_listeners_are_removed() {
        let (sender, receiver) = StateSender::new(State::Reconnecting);
        let kept: Vec<_> = (0..20).map(|_| receiver.listen()).collect();
        for _ in 0..1000 {
            drop(receiver.listen());
        }
        let count = sender.listeners.lock().all.len();
        assert!((20..=60).contains(&count), "{count}");
        drop(kept);
    }
}
