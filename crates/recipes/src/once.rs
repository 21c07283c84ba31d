//! Transactions that are executed at most once, even after lost connections.
//!
//! The first operation of each transaction writes a marker: an ephemeral znode of this client, with
//! its expected version. After the first execution, a repeated request, or a request that is still
//! unread in an old connection, finds another version and is refused. The refusal proves that the
//! transaction was executed.

use bytes::Bytes;
use client::{Client, Create, Error as ClientError, MultiOp, MultiResult};
use proto::{ErrorCode, SessionId};

use crate::error::Result;
use crate::queue_entry::{Queue as Contenders, QueueEntry, UncertaintyCause};
use crate::session::{connected, is_transient, retry};

/// Data of a marker after a transaction.
const DONE: &str = "done";
const GIVEN_UP: &str = "given up";
const MARKER: &str = "marker";
/// Number of writes after which a new marker replaces an old one, long before versions wrap.
const VERSION_MAX: i32 = 1_000_000_000;

/// Outcome of a transaction.
#[derive(Debug)]
pub(crate) enum TxnOutcome {
    /// The transaction was executed once. Its results are missing if its answer was lost.
    Done(Vec<MultiResult>),
    /// The transaction was not executed and never will be, because a server refused the operation
    /// with this index, from 0.
    Refused { index: usize, error: ClientError },
    /// The marker is deleted, usually because its session ended. If `is_known` is true, the
    /// transaction was not executed. Otherwise, this is unknown.
    Gone { is_known: bool },
}

/// Answer to a request or to one of its repetitions.
enum MarkerAnswer {
    Done(Vec<MultiResult>),
    /// The marker has the next version, so an earlier request without an answer was executed.
    Another,
    Refused(usize, ClientError),
    Gone,
}

/// Znode that guards transactions, one at a time.
#[derive(Debug)]
pub(crate) struct Marker {
    entry: QueueEntry,
    version: i32,
    /// Whether a request without an answer may have been executed. The flag stays set when a future
    /// is dropped.
    is_asked: bool,
}

impl Marker {
    pub(crate) fn owner(&self) -> SessionId {
        self.entry.owner()
    }

    pub(crate) fn is_certain(&self) -> bool {
        self.entry.is_certain()
    }

    pub(crate) async fn wait_until_uncertain(&self) -> UncertaintyCause {
        self.entry.wait_until_uncertain().await
    }

    fn client(&self) -> &Client {
        &self.entry.queue().client
    }

    /// Executes a transaction, retrying after lost connections. If an earlier future was dropped,
    /// the caller must call [`settle`](Self::settle) first.
    pub(crate) async fn run(&mut self, ops: &[MultiOp]) -> Result<TxnOutcome> {
        let (answer, was_asked) = self.ask(DONE, ops).await?;
        Ok(match answer {
            MarkerAnswer::Done(results) => TxnOutcome::Done(results),
            // Other clients do not write this marker, and earlier transactions have been settled,
            // so a request of this transaction was executed.
            MarkerAnswer::Another => {
                self.begin_next();
                TxnOutcome::Done(Vec::new())
            }
            MarkerAnswer::Refused(index, error) if !was_asked => {
                TxnOutcome::Refused { index, error }
            }
            // The request without an answer may still be in flight.
            MarkerAnswer::Refused(index, error) => match self.settle().await? {
                Some(true) => TxnOutcome::Done(Vec::new()),
                Some(false) => TxnOutcome::Refused { index, error },
                None => TxnOutcome::Gone { is_known: false },
            },
            MarkerAnswer::Gone => TxnOutcome::Gone {
                is_known: !was_asked,
            },
        })
    }

    /// Ensures that requests without an answer are not executed later. Returns whether such a
    /// request was executed, or `None` if the marker has been deleted.
    pub(crate) async fn settle(&mut self) -> Result<Option<bool>> {
        if !self.is_asked {
            return Ok(Some(false));
        }
        let (answer, _) = self.ask(GIVEN_UP, &[]).await?;
        match answer {
            MarkerAnswer::Done(_) => return Ok(Some(false)),
            MarkerAnswer::Gone => return Ok(None),
            MarkerAnswer::Refused(_, error) => return Err(error.into()),
            MarkerAnswer::Another => {}
        }
        let (client, path) = (self.client().clone(), self.entry.path());
        let is_done = match retry(&client, || client.get_data(path)).await {
            Ok((data, _)) => data.as_deref() != Some(GIVEN_UP.as_bytes()),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        self.begin_next();
        Ok(Some(is_done))
    }

    /// Sends a request until there is an answer. Also returns whether there was a request without
    /// an answer.
    async fn ask(&mut self, data: &'static str, ops: &[MultiOp]) -> Result<(MarkerAnswer, bool)> {
        let client = self.client().clone();
        let mut all = vec![MultiOp::set_data(self.entry.path(), data, self.version)];
        all.extend_from_slice(ops);
        loop {
            let was_asked = std::mem::replace(&mut self.is_asked, true);
            let error = match client.multi(&all).await {
                Ok(results) => {
                    self.begin_next();
                    let results = results.into_iter().skip(1).collect();
                    return Ok((MarkerAnswer::Done(results), was_asked));
                }
                Err(error) => error,
            };
            let answer = match (&error, error.code()) {
                (ClientError::Multi { index: 0, .. }, Some(ErrorCode::BadVersion)) if was_asked => {
                    MarkerAnswer::Another
                }
                // The marker is missing, or another client wrote it by mistake.
                (
                    ClientError::Multi { index: 0, .. },
                    Some(ErrorCode::NoNode | ErrorCode::BadVersion),
                ) => MarkerAnswer::Gone,
                (ClientError::Multi { index: 0, .. }, _) => return Err(error.into()),
                (ClientError::Multi { index, .. }, _) => {
                    self.is_asked = was_asked;
                    MarkerAnswer::Refused(index - 1, error)
                }
                _ if is_transient(&client, &error) => {
                    if matches!(error, ClientError::Unreachable { .. }) {
                        self.is_asked = was_asked;
                    }
                    connected(&client).await?;
                    continue;
                }
                _ => return Err(error.into()),
            };
            return Ok((answer, was_asked));
        }
    }

    fn begin_next(&mut self) {
        self.version += 1;
        self.is_asked = false;
    }
}

/// Unused markers in one directory.
#[derive(Debug)]
pub(crate) struct Markers {
    contenders: Contenders,
    free: parking_lot::Mutex<Vec<Marker>>,
}

impl Markers {
    pub(crate) fn new(contenders: Contenders) -> Self {
        Self {
            contenders,
            free: parking_lot::Mutex::default(),
        }
    }

    pub(crate) fn directory(&self) -> &str {
        &self.contenders.directory
    }

    /// Returns a marker that belongs to the client's session.
    pub(crate) async fn get(&self) -> Result<Marker> {
        let client = &self.contenders.client;
        connected(client).await?;
        let current = client.session_id();
        let free = {
            let mut free = self.free.lock();
            free.retain(|marker| marker.owner() == current);
            free.pop()
        };
        if let Some(marker) = free {
            return Ok(marker);
        }
        let (data, kind) = (Bytes::new(), Create::ephemeral());
        Ok(Marker {
            entry: self.contenders.join_as(MARKER, &data, &kind).await?,
            version: 0,
            is_asked: false,
        })
    }

    /// Keeps a marker for later use, unless it is unsettled or must be replaced.
    pub(crate) fn put_back(&self, marker: Marker) {
        if !marker.is_asked && marker.version < VERSION_MAX {
            self.free.lock().push(marker);
        }
    }

    pub(crate) async fn list(&self) -> Result<Vec<String>> {
        Ok(self.contenders.list().await?.unwrap_or_default())
    }
}
