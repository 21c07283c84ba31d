//! `history/feed`: committed changes in order, as they occur.
//!
//! ```text
//! history thread -> Readers (recorded changes) -> a task per feed: reads a page, writes its lines
//!                                                  | a few pages; the feed ends if reading stops
//!                                                  v
//!                                                 the connection
//! ```
//!
//! A feed consists of JSON lines: changes; `{"progress", "head", "hidden"}`, first, and after every
//! few seconds without another line; and at the end
//! `{"end": {"reason", "text", "position", "resume_after"}}`. If this last line is missing, the
//! connection broke. A feed reads the recorded changes and does not keep its own copies, so a slow
//! feed holds only a few pages in memory. Positions are equal on all members of an ensemble.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use history::ask::{self, AskError};
use history::{FeedMemory, FeedPage, HistoryError, HistoryQuery, Position, Viewer};
use hyper::{Response, StatusCode};
use proto::Id;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::Instant;

use super::Admin;
use super::history::{FEED, effort, not_open, refused, resume_after};
use crate::answer::written;
use crate::commands::Call;
use crate::http::{NotDone, Pieces, ResponseBody, respond, with_head};
use crate::limits;
use crate::served::Current;

/// Content type of JSON lines.
const LINES: &str = "application/x-ndjson";

/// Running feed.
struct Feed {
    admin: Arc<Admin>,
    current: watch::Receiver<Current>,
    query: Arc<HistoryQuery>,
    identities: Arc<[Id]>,
    /// Position up to which all changes were sent.
    position: Position,
    /// Permissions of the reader that are known from earlier pages.
    memory: FeedMemory,
    hidden: u64,
    /// Maximum interval between lines. After a longer silence, a reader treats the connection as
    /// broken.
    every: Duration,
    /// Time of the last line.
    sent_at: Instant,
    _permit: OwnedSemaphorePermit,
}

/// Reason for the end of a feed.
enum End {
    /// The reader has not read for too long.
    Slow,
    /// The history is no longer open.
    Closed,
    /// The history returned an error.
    History(HistoryError),
    /// The reader has disconnected.
    Gone,
}

impl Admin {
    pub(super) async fn feed(self: &Arc<Self>, call: &Call) -> Response<ResponseBody> {
        let Ok(permit) = self.feeds.clone().try_acquire_owned() else {
            let text = format!(
                "{} feeds are already open, which is the limit; try again later",
                limits::FEEDS_MAX
            );
            let fields = json!({ "error": text });
            return respond(written(StatusCode::SERVICE_UNAVAILABLE, FEED, fields));
        };
        let (query, after) = match ask::feed(&call.parameters) {
            Ok(parsed) => parsed,
            Err(error) => return respond(refused(FEED, &error)),
        };
        let current = self.readers.subscribe();
        let Some(reader) = self.readers.get() else {
            return respond(not_open(FEED));
        };
        let idle = Duration::from_millis(self.config.admin.idle_timeout_ms.into());
        let mut feed = Feed {
            admin: self.clone(),
            current,
            query: Arc::new(query),
            identities: call.identities.clone().into(),
            position: after.unwrap_or_else(|| Position::after(reader.extent().head)),
            memory: FeedMemory::default(),
            hidden: 0,
            every: limits::FEED_PROGRESS_EVERY.min(idle / 3),
            sent_at: Instant::now(),
            _permit: permit,
        };
        drop(reader);
        // Errors in the first page are reported before the answer begins.
        let first = match feed.page().await {
            Ok(page) => page,
            Err(End::History(error)) => return respond(refused(FEED, &AskError::History(error))),
            Err(End::Closed | End::Slow | End::Gone) => return respond(not_open(FEED)),
        };
        let (lines, body) = mpsc::channel(limits::FEED_PAGES_MAX + 1);
        // This place in the queue is reserved for the last line.
        let Ok(last) = lines.clone().reserve_owned().await else {
            return respond(not_open(FEED));
        };
        // The task ends with the connection or the history.
        tokio::spawn(async move {
            let end = feed.run(first, &lines).await;
            if let Some(line) = feed.last_line(end) {
                last.send(Ok(line));
            }
        });
        let body = Pieces::sent_by(body);
        with_head(StatusCode::OK, Vec::new(), Some(LINES), body)
    }
}

impl Feed {
    /// Returns the page of recorded changes after `self.position`.
    async fn page(&mut self) -> Result<FeedPage, End> {
        let reader = self.current.borrow_and_update().reader.clone();
        let reader = reader.ok_or(End::Closed)?;
        let (admin, query) = (self.admin.clone(), self.query.clone());
        let (identities, position) = (self.identities.clone(), self.position);
        let mut memory = std::mem::take(&mut self.memory);
        // A feed that waits for a query permit does not block other work.
        let turn = self.admin.questions.clone().acquire_owned().await;
        let turn = turn.map_err(|_| End::Closed)?;
        let workers = self.admin.workers.clone();
        let reading = workers.run(move |requester| {
            let _turn = turn;
            let reader = reader.within(effort(requester.flag()));
            let caller = Viewer::Client {
                tree: admin.served.get()?.view.tree(),
                identities: &identities,
            };
            let page = reader.feed_with_memory(&query, position, &caller, &mut memory);
            Some((page, memory))
        });
        match reading.await {
            Ok(Some((page, memory))) => {
                self.memory = memory;
                page.map_err(End::History)
            }
            Ok(None) | Err(NotDone) => Err(End::Closed),
        }
    }

    async fn run(&mut self, first: FeedPage, to: &mpsc::Sender<io::Result<Bytes>>) -> End {
        match self.follow(first, to).await {
            Ok(never) => match never {},
            Err(end) => end,
        }
    }

    async fn follow(
        &mut self,
        first: FeedPage,
        to: &mpsc::Sender<io::Result<Bytes>>,
    ) -> Result<Infallible, End> {
        // The line is sent immediately to show the reader that the feed works.
        self.send(self.progress_line(&first), to).await?;
        let mut page = first;
        loop {
            self.send_page(&page, to).await?;
            loop {
                let due = self.sent_at + self.every;
                let is_more = has_more(&page);
                tokio::select! {
                    biased;
                    () = to.closed() => return Err(End::Gone),
                    () = tokio::time::sleep_until(due) => {
                        self.send(self.progress_line(&page), to).await?;
                    }
                    () = std::future::ready(()), if is_more => break,
                    changed = self.current.changed() => {
                        changed.map_err(|_| End::Closed)?;
                        break;
                    }
                }
            }
            page = self.page().await?;
        }
    }

    async fn send_page(
        &mut self,
        page: &FeedPage,
        to: &mpsc::Sender<io::Result<Bytes>>,
    ) -> Result<(), End> {
        if !page.results.is_empty() {
            self.send(history::json::lines(&page.results), to).await?;
        }
        self.position = page.position;
        self.hidden += page.hidden;
        Ok(())
    }

    async fn send(
        &mut self,
        text: impl Into<Bytes>,
        to: &mpsc::Sender<io::Result<Bytes>>,
    ) -> Result<(), End> {
        self.sent_at = Instant::now();
        match to.send_timeout(Ok(text.into()), self.every).await {
            Ok(()) => Ok(()),
            Err(mpsc::error::SendTimeoutError::Timeout(_)) => Err(End::Slow),
            Err(mpsc::error::SendTimeoutError::Closed(_)) => Err(End::Gone),
        }
    }

    fn progress_line(&self, page: &FeedPage) -> String {
        let progress = json!({
            "progress": self.position.to_string(),
            "head": history::json::hex(page.head.0),
            "hidden": self.hidden,
        });
        format!("{progress}\n")
    }

    /// Returns the last line, with the position at which to continue. Returns `None` if the reader
    /// has disconnected.
    fn last_line(&self, end: End) -> Option<Bytes> {
        let (reason, text, resume_after) = match end {
            End::Gone => return None,
            End::Slow => ("slow", "the client did not read for too long".into(), None),
            End::Closed => ("closed", "the change history was closed".into(), None),
            End::History(error) => {
                let reason = match error {
                    HistoryError::NotKept { .. } => "not_kept",
                    HistoryError::Hole { .. } => "hole",
                    _ => "failed",
                };
                (reason, error.to_string(), resume_after(&error))
            }
        };
        let position = self.position.to_string();
        let resume_after = resume_after.unwrap_or_else(|| position.clone());
        let end = json!({ "end": {
            "reason": reason,
            "text": text,
            "position": position,
            "resume_after": resume_after,
        }});
        Some(format!("{end}\n").into())
    }
}

/// Returns whether to read the next page immediately. This is also necessary if the page ends
/// before a hole, because the next page reports the hole.
fn has_more(page: &FeedPage) -> bool {
    page.has_more || page.position < Position::after(page.head)
}

#[cfg(test)]
mod tests {
    use proto::Zxid;

    use super::*;

    #[test]
    fn a_page_in_front_of_a_hole_is_not_the_end() {
        let page = |upto: i64, has_more| FeedPage {
            results: Vec::new(),
            position: Position::after(Zxid(upto)),
            hidden: 0,
            has_more,
            head: Zxid(9),
        };
        assert!(!has_more(&page(9, false)));
        assert!(has_more(&page(9, true)));
        assert!(has_more(&page(4, false)));
    }
}
