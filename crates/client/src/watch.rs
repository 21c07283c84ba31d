//! Handles for watches. Each handle waits for its own events, and removes its watch from the server
//! when it is dropped.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use jute::Str;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::chroot::Chroot;
use crate::cleanup::{Cleanup, CleanupQueue};
use crate::error::{Error, Result};
use crate::limits::STREAM_EVENTS_MAX;
use crate::machine::watches::{Sink, Waiter};
use crate::state::WatchEvent;

/// Handle for a standard watch, which reports one change.
///
/// The watch survives a lost connection. The client sets it again on the next connection, and the
/// server reports a change that happened meanwhile. Dropping the handle removes the watch from the
/// server unless another handle has an equal watch.
///
/// ```no_run
/// # async fn example(client: &zoarium_client::Client) -> zoarium_client::Result<()> {
/// let (data, _stat, mut watch) = client.watch_data("/config").await?;
/// println!("now {data:?}");
/// let event = watch.changed().await?;
/// println!("{:?} by {}", event.kind, event.zxid);
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping the handle removes the watch"]
pub struct Watch {
    path: Str,
    id: u64,
    chroot: Chroot,
    outcome: WatchOutcome,
    cleanups: Arc<CleanupQueue>,
}

enum WatchOutcome {
    Pending(oneshot::Receiver<Result<WatchEvent>>),
    Done(Result<WatchEvent>),
}

impl Watch {
    /// Creates a handle and the waiter for the session's table.
    pub(crate) fn new(path: &str, chroot: &Chroot, cleanups: &Arc<CleanupQueue>) -> (Self, Waiter) {
        let (sender, receiver) = oneshot::channel();
        let id = cleanups.next_id();
        let watch = Self {
            path: path.into(),
            id,
            chroot: chroot.clone(),
            outcome: WatchOutcome::Pending(receiver),
            cleanups: Arc::clone(cleanups),
        };
        let sink = Sink::Once(sender);
        (watch, Waiter { id, sink })
    }

    /// Returns the watched path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Waits for the change. The future may be dropped and created again. After the change, each
    /// further call returns the same change.
    ///
    /// # Errors
    /// If the session ended first, or the watch was removed.
    pub async fn changed(&mut self) -> Result<WatchEvent> {
        if let WatchOutcome::Pending(receiver) = &mut self.outcome {
            let outcome = match receiver.await {
                Ok(Ok(event)) => Ok(event.inside(&self.chroot)),
                Ok(Err(error)) => Err(error),
                // The session ended without reporting an error.
                Err(_) => Err(Error::Closed {
                    op: proto::OpCode::AddWatch,
                }),
            };
            self.outcome = WatchOutcome::Done(outcome);
        }
        match &self.outcome {
            WatchOutcome::Done(outcome) => outcome.clone(),
            WatchOutcome::Pending(_) => Err(Error::WatchRemoved {
                path: self.path.clone(),
            }),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let WatchOutcome::Pending(receiver) = &mut self.outcome {
            // The receiver must be closed first, so that a concurrent reply finds the channel
            // closed.
            receiver.close();
            self.cleanups.push(Cleanup::Forget(self.id));
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_over = matches!(self.outcome, WatchOutcome::Done(_));
        let mut shown = f.debug_struct("Watch");
        shown.field("path", &self.path).field("is_over", &is_over);
        shown.finish_non_exhaustive()
    }
}

/// Item of a [`WatchStream`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Event of the watch.
    Event(WatchEvent),
    /// Events may be missing, because the connection was lost or the reader was too slow. A reader
    /// that maintains a copy must read everything again.
    Missed,
}

/// Stream of the events of a persistent watch. Dropping the stream removes the watch from the
/// server unless another handle has an equal watch.
///
/// If more than 1,024 events wait, the reader receives [`Change::Missed`] in their place.
#[must_use = "dropping the stream removes the watch"]
pub struct WatchStream {
    path: Str,
    id: u64,
    chroot: Chroot,
    queue: Arc<StreamQueue>,
    cleanups: Arc<CleanupQueue>,
}

impl WatchStream {
    /// Creates a handle and the waiter for the session's table.
    pub(crate) fn new(path: &str, chroot: &Chroot, cleanups: &Arc<CleanupQueue>) -> (Self, Waiter) {
        let queue = Arc::new(StreamQueue::default());
        let id = cleanups.next_id();
        let sink = Sink::Stream(Arc::clone(&queue));
        let stream = Self {
            path: path.into(),
            id,
            chroot: chroot.clone(),
            queue,
            cleanups: Arc::clone(cleanups),
        };
        (stream, Waiter { id, sink })
    }

    /// Returns the watched path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Waits for the next change. The future may be dropped and created again without losing
    /// events.
    ///
    /// # Errors
    /// If the session has ended, or the watch was removed.
    pub async fn next(&mut self) -> Result<Change> {
        loop {
            let woken = self.queue.woken.notified();
            if let Some(next) = self.queue.pop() {
                return next.map(|change| match change {
                    Change::Event(event) => Change::Event(event.inside(&self.chroot)),
                    Change::Missed => Change::Missed,
                });
            }
            woken.await;
        }
    }
}

impl Drop for WatchStream {
    fn drop(&mut self) {
        self.queue.inner.lock().is_abandoned = true;
        self.cleanups.push(Cleanup::Forget(self.id));
    }
}

impl fmt::Debug for WatchStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("WatchStream");
        shown.field("path", &self.path).finish_non_exhaustive()
    }
}

/// Bounded queue of events between the session and the reader of a stream.
#[derive(Debug, Default)]
pub(crate) struct StreamQueue {
    inner: Mutex<Inner>,
    woken: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    events: VecDeque<WatchEvent>,
    is_missing: bool,
    is_abandoned: bool,
    end: Option<Error>,
}

impl StreamQueue {
    pub(crate) fn push(&self, event: &WatchEvent) {
        let mut inner = self.inner.lock();
        // The reader has to read everything again, so earlier events are no longer useful.
        if inner.is_missing {
            return;
        }
        if inner.events.len() >= STREAM_EVENTS_MAX {
            inner.events.clear();
            inner.is_missing = true;
        } else {
            inner.events.push_back(event.clone());
        }
        drop(inner);
        self.woken.notify_one();
    }

    pub(crate) fn miss(&self) {
        let mut inner = self.inner.lock();
        inner.events.clear();
        inner.is_missing = true;
        drop(inner);
        self.woken.notify_one();
    }

    pub(crate) fn end(&self, error: Error) {
        self.inner.lock().end = Some(error);
        self.woken.notify_one();
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.inner.lock().is_abandoned
    }

    fn pop(&self) -> Option<Result<Change>> {
        let mut inner = self.inner.lock();
        if std::mem::take(&mut inner.is_missing) {
            return Some(Ok(Change::Missed));
        }
        let event = inner.events.pop_front();
        event
            .map(|event| Ok(Change::Event(event)))
            .or_else(|| inner.end.clone().map(Err))
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.inner.lock().events.len()
    }
}

#[cfg(test)]
mod tests {
    use proto::Zxid;
    use proto::watch::EventType;

    use super::*;

    fn event(zxid: i64) -> WatchEvent {
        WatchEvent {
            kind: EventType::NodeCreated,
            path: "/a".into(),
            zxid: Zxid(zxid),
        }
    }

    #[test]
    fn a_slow_reader_gets_one_missed_marker_and_bounded_memory() {
        let queue = StreamQueue::default();
        for number in 0..10_000 {
            queue.push(&event(number));
            assert!(queue.len() <= STREAM_EVENTS_MAX);
        }
        assert!(matches!(queue.pop(), Some(Ok(Change::Missed))));
        assert!(queue.pop().is_none());
        queue.push(&event(7));
        let Some(Ok(Change::Event(next))) = queue.pop() else {
            panic!("later events arrive");
        };
        assert_eq!(next.zxid, Zxid(7));
    }

    #[test]
    fn events_before_the_end_are_delivered_before_it() {
        let queue = StreamQueue::default();
        queue.push(&event(1));
        let op = proto::OpCode::AddWatch;
        queue.end(Error::Closed { op });
        assert!(matches!(queue.pop(), Some(Ok(Change::Event(_)))));
        assert!(matches!(queue.pop(), Some(Err(Error::Closed { .. }))));
        assert!(matches!(queue.pop(), Some(Err(Error::Closed { .. }))));
    }
}
