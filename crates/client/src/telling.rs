//! Notifier of the listeners to a session's state.
//!
//! Each listener has its own channel, and receives states in the order of subscription. tokio wakes
//! the receivers of one channel in a random order, which would make simulations unrepeatable.

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
pub(crate) struct Listening {
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
    pub(crate) fn new(state: State) -> (Self, Listening) {
        let (first, seen) = watch::channel(state);
        let listeners = Arc::<Mutex<Listeners>>::default();
        let listening = Listening {
            first: seen,
            listeners: Arc::downgrade(&listeners),
        };
        (Self { first, listeners }, listening)
    }

    pub(crate) fn is(&self, state: &State) -> bool {
        *self.first.borrow() == *state
    }

    /// Sends a state to all listeners, without holding the lock. A listener that borrows its state
    /// blocks the sender, and may subscribe again meanwhile. A new listener starts with the new
    /// state.
    pub(crate) fn tell(&self, state: State) {
        let mut told = {
            let mut listeners = self.listeners.lock();
            listeners.has_changed = true;
            self.first.send_replace(state.clone());
            std::mem::take(&mut listeners.all)
        };
        for listener in &told {
            listener.send_replace(state.clone());
        }
        let mut listeners = self.listeners.lock();
        told.append(&mut listeners.all);
        listeners.all = told;
    }
}

impl Listening {
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
        let (teller, listening) = StateSender::new(State::Reconnecting);
        let mut early = listening.listen();
        assert!(!early.has_changed().expect("it goes on"));
        teller.tell(State::Lost);
        let mut late = listening.listen();
        assert!(
            late.has_changed().expect("it goes on"),
            "as one that was there"
        );
        for listener in [&mut early, &mut late] {
            assert_eq!(*listener.borrow_and_update(), State::Lost);
        }
        assert_eq!(*listening.now(), State::Lost);
        drop(teller);
        assert!(early.has_changed().is_err() && late.has_changed().is_err());
        assert_eq!(*listening.listen().borrow(), State::Lost);
    }

    #[test]
    fn a_listener_may_subscribe_again_while_it_reads() {
        let (teller, listening) = StateSender::new(State::Reconnecting);
        let held = listening.listen();
        let state = held.borrow();
        std::thread::scope(|scope| {
            scope.spawn(|| teller.tell(State::Lost));
            // The sender has started, and waits for the state that is borrowed here.
            while *listening.now() != State::Lost {
                std::thread::yield_now();
            }
            assert_eq!(*listening.listen().borrow(), State::Lost);
            drop(state);
        });
        assert_eq!(*held.borrow(), State::Lost);
        teller.tell(State::Closed);
        assert_eq!(*held.borrow(), State::Closed);
    }

    #[test]
    fn dropped_listeners_are_removed() {
        let (teller, listening) = StateSender::new(State::Reconnecting);
        let kept: Vec<_> = (0..20).map(|_| listening.listen()).collect();
        for _ in 0..1000 {
            drop(listening.listen());
        }
        let count = teller.listeners.lock().all.len();
        assert!((20..=60).contains(&count), "{count}");
        drop(kept);
    }
}
