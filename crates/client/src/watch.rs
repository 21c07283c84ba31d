//! Handles of watches: each waits for its own events, and takes its watch off the server when it is
//! dropped.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use jute::Str;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::chores::{Chore, Chores};
use crate::chroot::Chroot;
use crate::error::{Error, Result};
use crate::limits::STREAM_EVENTS_MAX;
use crate::machine::{Sink, Waiter};
use crate::state::WatchEvent;

/// One standard watch: it tells of one change, and is over then.
///
/// It outlives connections: on the next one it is set again, and what changed meanwhile is told.
/// Dropping it takes the watch off the server unless somebody else waits for the same.
///
/// ```no_run
/// # async fn example(client: &client::Client) -> client::Result<()> {
/// let (data, _stat, mut watch) = client.watch_data("/config").await?;
/// println!("now {data:?}");
/// let event = watch.changed().await?;
/// println!("{:?} by {}", event.kind, event.zxid);
/// # Ok(())
/// # }
/// ```
pub struct Watch {
    path: Str,
    id: u64,
    chroot: Chroot,
    told: Told,
    chores: Arc<Chores>,
}

enum Told {
    NotYet(oneshot::Receiver<Result<WatchEvent>>),
    Done(Result<WatchEvent>),
}

impl Watch {
    /// A handle and what the session's table gets.
    pub(crate) fn new(path: &str, chroot: &Chroot, chores: &Arc<Chores>) -> (Self, Waiter) {
        let (sender, receiver) = oneshot::channel();
        let id = chores.next_id();
        let watch = Self {
            path: path.into(),
            id,
            chroot: chroot.clone(),
            told: Told::NotYet(receiver),
            chores: Arc::clone(chores),
        };
        let sink = Sink::Once(sender);
        (watch, Waiter { id, sink })
    }

    /// What is watched.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Waits for the change. The future may be dropped and made anew; once the change is told, it
    /// is told again.
    ///
    /// # Errors
    /// If the session ended first, or the watch was removed.
    pub async fn changed(&mut self) -> Result<WatchEvent> {
        if let Told::NotYet(receiver) = &mut self.told {
            let told = match receiver.await {
                Ok(Ok(event)) => Ok(event.inside(&self.chroot)),
                Ok(Err(error)) => Err(error),
                // The session ended without a word to anybody.
                Err(_) => Err(Error::Closed {
                    op: proto::OpCode::AddWatch,
                }),
            };
            self.told = Told::Done(told);
        }
        match &self.told {
            Told::Done(told) => told.clone(),
            Told::NotYet(_) => Err(Error::WatchRemoved {
                path: self.path.clone(),
            }),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Told::NotYet(receiver) = &mut self.told {
            // First, so that a reply that comes now finds nobody.
            receiver.close();
            self.chores.push(Chore::Forget(self.id));
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_over = matches!(self.told, Told::Done(_));
        let mut shown = f.debug_struct("Watch");
        shown.field("path", &self.path).field("is_over", &is_over);
        shown.finish_non_exhaustive()
    }
}

/// What a [`WatchStream`] brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A change.
    Event(WatchEvent),
    /// Changes may have been missed: the connection was lost for a while, or nobody took the
    /// events for too long. Whoever follows a state must read all of it again.
    Missed,
}

/// The events of a persistent watch, until it is dropped; then the watch is taken off the server
/// unless somebody else has the same.
///
/// A reader that is 1,024 events behind gets [`Change::Missed`] in their place.
pub struct WatchStream {
    path: Str,
    id: u64,
    chroot: Chroot,
    queue: Arc<StreamQueue>,
    chores: Arc<Chores>,
}

impl WatchStream {
    /// A handle and what the session's table gets.
    pub(crate) fn new(path: &str, chroot: &Chroot, chores: &Arc<Chores>) -> (Self, Waiter) {
        let queue = Arc::new(StreamQueue::default());
        let id = chores.next_id();
        let sink = Sink::Stream(Arc::clone(&queue));
        let stream = Self {
            path: path.into(),
            id,
            chroot: chroot.clone(),
            queue,
            chores: Arc::clone(chores),
        };
        (stream, Waiter { id, sink })
    }

    /// What is watched.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Waits for the next change. The future may be dropped and made anew: nothing is lost.
    ///
    /// # Errors
    /// If the session is over, or the watch was removed.
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
        self.chores.push(Chore::Forget(self.id));
    }
}

impl fmt::Debug for WatchStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("WatchStream");
        shown.field("path", &self.path).finish_non_exhaustive()
    }
}

/// Events between the session and the reader of a stream; bounded.
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
        // Who must read everything again gains nothing from what comes before that.
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
    fn a_reader_who_falls_behind_is_told_once_and_costs_no_memory() {
        let queue = StreamQueue::default();
        for number in 0..10_000 {
            queue.push(&event(number));
            assert!(queue.len() <= STREAM_EVENTS_MAX);
        }
        assert!(matches!(queue.pop(), Some(Ok(Change::Missed))));
        assert!(queue.pop().is_none());
        queue.push(&event(7));
        let Some(Ok(Change::Event(next))) = queue.pop() else {
            panic!("events go on");
        };
        assert_eq!(next.zxid, Zxid(7));
    }

    #[test]
    fn what_came_before_the_end_is_told_before_it() {
        let queue = StreamQueue::default();
        queue.push(&event(1));
        let op = proto::OpCode::AddWatch;
        queue.end(Error::Closed { op });
        assert!(matches!(queue.pop(), Some(Ok(Change::Event(_)))));
        assert!(matches!(queue.pop(), Some(Err(Error::Closed { .. }))));
        assert!(matches!(queue.pop(), Some(Err(Error::Closed { .. }))));
    }
}
