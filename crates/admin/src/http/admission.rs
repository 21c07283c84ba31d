//! Admission of connections to a port, and of requests.
//!
//! ```text
//!   accepted -> waits for a head -> (a slot) -> work, answer -> waits for the next head
//! ```
//!
//! A connection without a request does not hold a slot. If there are more than [`HTTP_WAITING_MAX`]
//! such connections, the oldest is closed in favour of a new one. A request holds its slot until
//! its work has ended and its answer is written. If all slots are in use, some requests wait.
//! Connections whose clients read their answers too slowly are then closed.
//!
//! [`HTTP_WAITING_MAX`]: limits::HTTP_WAITING_MAX

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until, timeout};

use crate::limits;

/// Minimum age of a connection that may be closed. The first bytes from a younger connection may
/// still be in transit.
const AGE_MIN: Duration = Duration::from_millis(50);

/// Interval between checks for slow clients while requests wait for a slot.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Admission of a port.
#[derive(Debug)]
pub(crate) struct Admission {
    slots: Arc<Semaphore>,
    /// Number of requests that wait for a slot.
    queued: AtomicUsize,
    connections: Mutex<Connections>,
}

#[derive(Debug, Default)]
struct Connections {
    last: u64,
    /// Connections that wait for a head, ordered by the start of their wait.
    waiting: BTreeMap<u64, Waiting>,
    /// Answers that are being written, ordered by their start.
    answering: BTreeMap<u64, Answering>,
}

#[derive(Debug)]
struct Waiting {
    since: Instant,
    give_way: Arc<Notify>,
}

#[derive(Debug)]
struct Answering {
    until: Instant,
    give_way: Arc<Notify>,
}

/// Connection to the port.
#[derive(Debug)]
pub(crate) struct AdmittedConnection {
    admission: Arc<Admission>,
    give_way: Arc<Notify>,
    /// Key of this connection in [`Connections::waiting`]. `None` if it does not wait for a head.
    waiting: Mutex<Option<u64>>,
}

/// Permit to execute a request. Work that outlives the request holds a clone.
pub(crate) type Permit = Arc<OwnedSemaphorePermit>;

/// Request that is being executed.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) permit: Permit,
    connection: Arc<AdmittedConnection>,
}

/// Answer that is being written. When it is dropped, the connection waits for the next head.
#[derive(Debug)]
pub(crate) struct Answer {
    number: Option<u64>,
    connection: Arc<AdmittedConnection>,
    _slot: Option<Slot>,
}

impl Admission {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            slots: Arc::new(Semaphore::new(limits::HTTP_CONNECTIONS_MAX)),
            queued: AtomicUsize::new(0),
            connections: Mutex::default(),
        })
    }

    /// Adds a new connection. If there are too many, closes the oldest connection without a
    /// request.
    pub(crate) async fn admit(self: &Arc<Self>) -> Arc<AdmittedConnection> {
        while let Some(at) = self.make_room() {
            sleep_until(at).await;
        }
        let connection = Arc::new(AdmittedConnection {
            admission: self.clone(),
            give_way: Arc::default(),
            waiting: Mutex::new(None),
        });
        connection.wait();
        connection
    }

    /// If the limit on waiting connections is reached, closes the oldest of them. If that
    /// connection is too young, does not close it, but returns the time of the next attempt.
    fn make_room(&self) -> Option<Instant> {
        let mut connections = self.connections.lock();
        if connections.waiting.len() < limits::HTTP_WAITING_MAX {
            return None;
        }
        let oldest = connections.waiting.first_entry()?;
        let ripe = oldest.get().since + AGE_MIN;
        if ripe > Instant::now() {
            return Some(ripe);
        }
        oldest.remove().give_way.notify_one();
        None
    }

    /// Closes the connection whose answer has been overdue for the longest time.
    fn end_overdue(&self) {
        let mut connections = self.connections.lock();
        let now = Instant::now();
        let overdue = connections.answering.iter();
        let overdue = overdue.filter(|(_, answering)| answering.until <= now);
        let longest = overdue.min_by_key(|(_, answering)| answering.until);
        let number = longest.map(|(number, _)| *number);
        if let Some(answering) = number.and_then(|number| connections.answering.remove(&number)) {
            answering.give_way.notify_one();
        }
    }
}

impl Connections {
    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

impl AdmittedConnection {
    /// Resolves when the connection must be closed in favour of another connection or request.
    pub(crate) async fn must_close(&self) {
        self.give_way.notified().await;
    }

    fn wait(&self) {
        let mut connections = self.admission.connections.lock();
        let number = connections.number();
        let waiting = Waiting {
            since: Instant::now(),
            give_way: self.give_way.clone(),
        };
        connections.waiting.insert(number, waiting);
        let before = self.waiting.lock().replace(number);
        if let Some(before) = before {
            connections.waiting.remove(&before);
        }
    }

    /// Records that a head has been received.
    pub(crate) fn head_received(&self) {
        let mut connections = self.admission.connections.lock();
        if let Some(number) = self.waiting.lock().take() {
            connections.waiting.remove(&number);
        }
    }

    /// Returns a slot for the request, or `None` if too many requests already wait for one.
    pub(crate) async fn slot(self: &Arc<Self>) -> Option<Slot> {
        let slots = &self.admission.slots;
        let permit = match slots.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => self.wait_for_slot().await?,
        };
        Some(Slot {
            permit: Arc::new(permit),
            connection: self.clone(),
        })
    }

    async fn wait_for_slot(&self) -> Option<OwnedSemaphorePermit> {
        struct Queued<'a>(&'a AtomicUsize);
        impl Drop for Queued<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let admission = &self.admission;
        let before = admission.queued.fetch_add(1, Ordering::Relaxed);
        let _queued = Queued(&admission.queued);
        if before >= limits::HTTP_QUEUED_MAX {
            return None;
        }
        let mut acquiring = Box::pin(admission.slots.clone().acquire_owned());
        loop {
            admission.end_overdue();
            if let Ok(permit) = timeout(LOOK_EVERY, acquiring.as_mut()).await {
                return permit.ok();
            }
        }
    }

    /// Returns the [`Answer`] to a request that does not hold a slot.
    pub(crate) fn answer_at_once(self: Arc<Self>) -> Answer {
        Answer {
            number: None,
            connection: self,
            _slot: None,
        }
    }
}

impl Drop for AdmittedConnection {
    fn drop(&mut self) {
        self.head_received();
    }
}

impl Slot {
    /// Returns the signal that closes the connection.
    pub(super) fn give_way(&self) -> Arc<Notify> {
        self.connection.give_way.clone()
    }

    /// Converts the slot to an [`Answer`] of `bytes`, which becomes overdue if the client reads it
    /// too slowly. An answer of unknown length (`None`), such as a feed or a long listing, never
    /// becomes overdue.
    pub(crate) fn answer(self, bytes: Option<u64>) -> Answer {
        let connection = self.connection.clone();
        let number = bytes.map(|bytes| {
            let mebibytes = u32::try_from(bytes >> 20).unwrap_or(u32::MAX);
            let patience = limits::HTTP_PATIENCE
                .saturating_add(Duration::from_secs(1).saturating_mul(mebibytes))
                .min(limits::HTTP_PATIENCE_MAX);
            let mut connections = connection.admission.connections.lock();
            let number = connections.number();
            let answering = Answering {
                until: Instant::now() + patience,
                give_way: connection.give_way.clone(),
            };
            connections.answering.insert(number, answering);
            number
        });
        Answer {
            number,
            connection,
            _slot: Some(self),
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let mut connections = self.connection.admission.connections.lock();
            connections.answering.remove(&number);
        }
        self.connection.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    async fn must_close_now(connection: &AdmittedConnection) -> bool {
        let closing = pin!(connection.must_close());
        timeout(Duration::ZERO, closing).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_silent_connection_gives_way() {
        let admission = Admission::new();
        let mut admitted = Vec::new();
        for _ in 0..limits::HTTP_WAITING_MAX {
            admitted.push(admission.admit().await);
        }
        // A connection with a request stays, regardless of its age.
        admitted[0].head_received();
        let slot = admitted[0].slot().await.unwrap();
        admitted.push(admission.admit().await);
        assert!(!must_close_now(&admitted[1]).await, "there was room");
        let begun = Instant::now();
        admitted.push(admission.admit().await);
        assert!(begun.elapsed() >= AGE_MIN, "all were new");
        assert!(must_close_now(&admitted[1]).await);
        assert!(!must_close_now(&admitted[0]).await && !must_close_now(&admitted[2]).await);
        // After its answer, the connection waits again, at the end of the queue.
        drop(slot.answer(Some(1)));
        admitted.push(admission.admit().await);
        assert!(must_close_now(&admitted[2]).await && !must_close_now(&admitted[0]).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slot_lasts_until_work_and_answer_have_ended() {
        let admission = Admission::new();
        let mut slots = Vec::new();
        for _ in 0..limits::HTTP_CONNECTIONS_MAX {
            let connection = admission.admit().await;
            connection.head_received();
            slots.push(connection.slot().await.unwrap());
        }
        let late = admission.admit().await;
        late.head_received();
        let no_slot = timeout(Duration::from_secs(600), late.slot());
        assert!(no_slot.await.is_err(), "all work");
        // The client of one request has disconnected, and its work continues.
        let slot = slots.pop().unwrap();
        let work = slot.permit.clone();
        drop(slot.answer(Some(0)));
        let no_slot = timeout(Duration::from_secs(600), late.slot());
        assert!(no_slot.await.is_err());
        drop(work);
        let slot = late.slot().await.unwrap();
        // An answer that the client does not read is aborted in favour of a waiting request, unless
        // the answer is a feed.
        let feed = slots.pop().unwrap();
        let feeding = feed.connection.clone();
        let _feed = feed.answer(None);
        let slow = slots.pop().unwrap();
        let slow_one = slow.connection.clone();
        let mut slow = Some(slow.answer(Some(3 << 20)));
        let last = admission.admit().await;
        last.head_received();
        let begun = Instant::now();
        let mut waiting = pin!(last.slot());
        tokio::select! {
            _ = waiting.as_mut() => panic!("a slot too many"),
            () = slow_one.must_close() => {}
        }
        let patience = limits::HTTP_PATIENCE + Duration::from_secs(3);
        assert!(begun.elapsed() >= patience && begun.elapsed() <= patience + 2 * LOOK_EVERY);
        slow.take();
        assert!(waiting.await.is_some());
        assert!(!must_close_now(&feeding).await);
        drop(slot);
    }
}
