//! Listings of client state, written in parts at the pace of the client.
//!
//! The first part is produced immediately, and most listings consist of one part. The server
//! continues only one long listing at a time. A long listing reserves memory from the pool that
//! long replies use.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use hyper::{Response, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::Admin;
use crate::answer::{Answer, Body, JSON, Json, Listing};
use crate::commands::List;
use crate::http::{Activity, Pieces, ResponseBody, Source, respond, with_head};
use crate::limits;
use crate::served::{Reservation, Served};

/// Reason for the refusal of a listing.
const BUSY: &str = "too many long listings are being read: try again later";

/// Number of bytes of a listing in memory: the waiting pieces, and two that are being written.
const LISTING_BYTES: usize = (limits::HTTP_PIECES_MAX + 2) * limits::HTTP_PIECE_BYTES;

/// Queue in which long listings take turns.
pub(super) struct Turns {
    /// Permits of the waiting listings and of the current listing.
    waiting: Arc<Semaphore>,
    /// Permit of the current long listing.
    turn: Arc<Semaphore>,
}

impl Turns {
    pub(super) fn new() -> Self {
        Self {
            waiting: Arc::new(Semaphore::new(limits::LISTINGS_MAX)),
            turn: Arc::new(Semaphore::new(1)),
        }
    }

    /// Resolves when the current listing has had its turn for a while and another one waits.
    async fn wanted_back(&self) {
        sleep(limits::LISTING_PATIENCE).await;
        // The current listing has one permit.
        while self.waiting.available_permits() + 1 >= limits::LISTINGS_MAX {
            sleep(limits::LISTING_PATIENCE / 10).await;
        }
    }
}

/// Rest of a long listing.
struct Continued {
    admin: Arc<Admin>,
    listing: Listing,
    first: Option<Bytes>,
    bytes_taken: Arc<AtomicUsize>,
    watching: AbortHandle,
    _permits: (OwnedSemaphorePermit, OwnedSemaphorePermit, Reservation),
}

impl Admin {
    /// Sends a listing, with the fields `command` and `error` at its end.
    pub(super) async fn list(
        self: &Arc<Self>,
        served: &Served,
        name: &'static str,
        list: List,
        activity: &Activity,
    ) -> Response<ResponseBody> {
        let (at_work, at_work_on_first) = (activity.begin(), activity.begin());
        let admin = self.clone();
        let beginning = self.workers.run(move |_| {
            let view = &*admin.served.get()?.view;
            let mut listing = list(view).with("command", name).with("error", Json::Null);
            let first = listing.next_part(view);
            // The work holds the slot of the request until the work ends.
            drop(at_work_on_first);
            Some((Bytes::from(first?), listing))
        });
        let Some((first, listing)) = beginning.await.ok().flatten() else {
            return respond(Answer::status(StatusCode::INTERNAL_SERVER_ERROR));
        };
        if listing.is_complete() {
            let body = Body::Bytes(Some(JSON), first.into());
            return respond(Answer::of(StatusCode::OK, body));
        }
        let Ok(waiting) = self.listings.waiting.clone().try_acquire_owned() else {
            return respond(Answer::busy(BUSY));
        };
        let Ok(turn) = self.listings.turn.clone().acquire_owned().await else {
            return respond(Answer::busy(BUSY));
        };
        let memory = (served.operations.reserve)(LISTING_BYTES).await;
        drop(at_work);
        let bytes_taken = Arc::new(AtomicUsize::new(0));
        let watching = tokio::spawn(watch(self.clone(), bytes_taken.clone(), activity.clone()));
        let continued = Continued {
            admin: self.clone(),
            listing,
            first: Some(first),
            bytes_taken,
            watching: watching.abort_handle(),
            _permits: (waiting, turn, memory),
        };
        let body = Pieces::of(continued, None, &self.workers, activity);
        with_head(StatusCode::OK, Vec::new(), Some(JSON), body)
    }
}

/// Ends the connection of a client that reads too slowly while other listings wait for their turn.
async fn watch(admin: Arc<Admin>, bytes_taken: Arc<AtomicUsize>, activity: Activity) {
    loop {
        let before = bytes_taken.load(Ordering::Relaxed);
        admin.listings.wanted_back().await;
        let of_late = bytes_taken.load(Ordering::Relaxed) - before;
        if of_late < limits::LISTING_PACE_BYTES {
            return activity.end_connection();
        }
    }
}

impl Source for Continued {
    fn next(&mut self) -> io::Result<Option<Bytes>> {
        let piece = match self.first.take() {
            Some(first) => Some(first),
            None => {
                let served = self.admin.served.get();
                let part = served.and_then(|served| self.listing.next_part(&*served.view));
                part.map(Bytes::from)
            }
        };
        // A piece is produced when an earlier piece has been sent, so this measures the client's
        // pace.
        let bytes = piece.as_ref().map_or(0, Bytes::len);
        self.bytes_taken.fetch_add(bytes, Ordering::Relaxed);
        Ok(piece)
    }
}

impl Drop for Continued {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_listing_is_wanted_back_while_another_one_waits() {
        let turns = Turns::new();
        let waiting = || turns.waiting.clone().try_acquire_owned().unwrap();
        let _first = waiting();
        let mut wanted = pin!(turns.wanted_back());
        let longer = timeout(10 * limits::LISTING_PATIENCE, wanted.as_mut());
        assert!(longer.await.is_err(), "no other listing waits");
        let _second = waiting();
        wanted.await;
    }
}
