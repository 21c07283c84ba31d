//! A machine that counts its messages and ends after the last one.

use std::collections::BTreeSet;

use zoarium_executor::{Executor, Machine, Primitives, Queue, Settings};

/// A path of a message to the machine.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Path {
    Send,
    Inline,
    InlineAlways,
}

pub(crate) struct Probe<P: Primitives> {
    inbox: P::Queue<usize>,
    expected: usize,
    handled: BTreeSet<usize>,
    allows_inline: fn(usize) -> bool,
}

impl<P: Primitives> Machine for Probe<P> {
    type Message = usize;
    type Visitor = ();

    fn turn(&mut self, _visitor: Option<()>) {
        assert!(!self.has_ended(), "a turn after the end");
        if let Some(message) = self.inbox.pop() {
            assert!(self.handled.insert(message), "{message} is handled twice");
        }
    }

    fn has_ended(&self) -> bool {
        self.handled.len() >= self.expected
    }

    fn deadline_ms(&self) -> Option<i64> {
        None
    }

    fn allows_inline(&self) -> bool {
        (self.allows_inline)(self.handled.len())
    }
}

/// Creates an executor whose machine ends after this number of messages. If a message is lost, the
/// machine's own thread never ends, and the checker reports a deadlock.
pub(crate) fn executor<P: Primitives>(
    expected: usize,
    inline_turns_max: usize,
    allows_inline: fn(usize) -> bool,
) -> Executor<Probe<P>, P> {
    let executor = Executor::<Probe<P>, P>::new(Settings {
        inline_turns_max,
        yields_before_park: 0,
        now_ms: || 0,
    });
    executor.begin(Probe {
        inbox: executor.inbox().clone(),
        expected,
        handled: BTreeSet::new(),
        allows_inline,
    });
    executor
}

pub(crate) fn send<P: Primitives>(executor: &Executor<Probe<P>, P>, message: usize, path: Path) {
    match path {
        Path::Send => executor.send(message),
        Path::Inline => {
            executor.put(message);
            executor.run_inline(());
        }
        Path::InlineAlways => {
            executor.put(message);
            executor.run_inline_always(());
        }
    }
}

/// Checks that the inbox is empty, after every thread has returned.
pub(crate) fn assert_empty<P: Primitives>(executor: &Executor<Probe<P>, P>) {
    assert_eq!(executor.inbox().len(), 0, "a message outlives the end");
}
