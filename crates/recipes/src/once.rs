//! Transactions that are carried out at most once, however often the connection is lost.
//!
//! Each writes a marker first: an ephemeral znode of this client, with the version that it is known
//! to have. Whatever is asked a second time, or lies unread in an old connection, finds another
//! version and is refused, and that tells that the first one was carried out.

use bytes::Bytes;
use client::{Client, Create, Error as ClientError, MultiOp, MultiResult};
use proto::mutant::{self, Mutant};
use proto::{ErrorCode, SessionId};

use crate::error::Result;
use crate::place::{Doubt, Place, Queue as Contenders};
use crate::session::{connected, insist, may_pass};

/// What a marker says after a transaction, and after one that was given up.
const DONE: &str = "done";
const GIVEN_UP: &str = "given up";
const MARKER: &str = "marker";
/// A marker that was written so often makes room for a new one, long before versions wrap.
const VERSION_MAX: i32 = 1_000_000_000;

/// What became of a transaction.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It was carried out, once. Its results are not known if its answer was lost.
    Done(Vec<MultiResult>),
    /// It was not and never will be: this operation, from 0, was refused.
    Refused { index: usize, error: ClientError },
    /// The marker is gone, as it goes with its session.
    Gone { is_known: bool },
}

/// The answer to one request, or to those that repeat it.
enum Answer {
    Done(Vec<MultiResult>),
    /// The marker has the next version: one before was carried out that has no answer.
    Another,
    Refused(usize, ClientError),
    Gone,
}

/// A marker. One transaction at a time.
#[derive(Debug)]
pub(crate) struct Marker {
    place: Place,
    version: i32,
    /// Whether something may have been carried out that there was no answer to. It stays so if a
    /// future is dropped.
    is_asked: bool,
}

impl Marker {
    pub(crate) fn owner(&self) -> SessionId {
        self.place.owner()
    }

    pub(crate) fn is_certain(&self) -> bool {
        self.place.is_certain()
    }

    pub(crate) async fn doubt(&self) -> Doubt {
        self.place.doubt().await
    }

    fn client(&self) -> &Client {
        &self.place.queue().client
    }

    /// Carries out a transaction, over lost connections. After a dropped future, first
    /// [`settle`](Self::settle).
    pub(crate) async fn run(&mut self, ops: &[MultiOp]) -> Result<Outcome> {
        let (answer, was_asked) = self.ask(DONE, ops).await?;
        Ok(match answer {
            Answer::Done(results) => Outcome::Done(results),
            // Nobody else writes a marker, and what was asked before was settled.
            Answer::Another => {
                self.go_on();
                Outcome::Done(Vec::new())
            }
            Answer::Refused(index, error) if !was_asked => Outcome::Refused { index, error },
            // The one without an answer may still be on its way.
            Answer::Refused(index, error) => match self.settle().await? {
                Some(true) => Outcome::Done(Vec::new()),
                Some(false) => Outcome::Refused { index, error },
                None => Outcome::Gone { is_known: false },
            },
            Answer::Gone => Outcome::Gone {
                is_known: !was_asked,
            },
        })
    }

    /// Sees to it that nothing is carried out any more that was asked, and says whether it was;
    /// `None` if the marker is gone.
    pub(crate) async fn settle(&mut self) -> Result<Option<bool>> {
        if !self.is_asked {
            return Ok(Some(false));
        }
        let (answer, _) = self.ask(GIVEN_UP, &[]).await?;
        match answer {
            Answer::Done(_) => return Ok(Some(false)),
            Answer::Gone => return Ok(None),
            Answer::Refused(_, error) => return Err(error.into()),
            Answer::Another => {}
        }
        let (client, path) = (self.client().clone(), self.place.path());
        let is_done = match insist(&client, || client.get_data(path)).await {
            Ok((data, _)) => data.as_deref() != Some(GIVEN_UP.as_bytes()),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        self.go_on();
        Ok(Some(is_done))
    }

    /// Asks until there is an answer, and says whether there was a request without one.
    async fn ask(&mut self, data: &'static str, ops: &[MultiOp]) -> Result<(Answer, bool)> {
        let client = self.client().clone();
        let version = match mutant::is(Mutant::RepeatedUnconditionally) {
            true => -1,
            false => self.version,
        };
        let mut all = vec![MultiOp::set_data(self.place.path(), data, version)];
        all.extend_from_slice(ops);
        loop {
            let was_asked = std::mem::replace(&mut self.is_asked, true);
            let error = match client.multi(&all).await {
                Ok(results) => {
                    self.go_on();
                    let results = results.into_iter().skip(1).collect();
                    return Ok((Answer::Done(results), was_asked));
                }
                Err(error) => error,
            };
            let answer = match (&error, error.code()) {
                (ClientError::Multi { index: 0, .. }, Some(ErrorCode::BadVersion)) if was_asked => {
                    Answer::Another
                }
                // Somebody wrote it who should not.
                (
                    ClientError::Multi { index: 0, .. },
                    Some(ErrorCode::NoNode | ErrorCode::BadVersion),
                ) => Answer::Gone,
                (ClientError::Multi { index: 0, .. }, _) => return Err(error.into()),
                (ClientError::Multi { index, .. }, _) => {
                    self.is_asked = was_asked;
                    Answer::Refused(index - 1, error)
                }
                _ if may_pass(&client, &error) => {
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

    fn go_on(&mut self) {
        self.version += 1;
        self.is_asked = false;
    }
}

/// Markers in one directory that are not in use.
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

    /// One of the client's session.
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
            place: self.contenders.join_as(MARKER, &data, &kind).await?,
            version: 0,
            is_asked: false,
        })
    }

    /// Takes one back for the next.
    pub(crate) fn put_back(&self, marker: Marker) {
        if !marker.is_asked && marker.version < VERSION_MAX {
            self.free.lock().push(marker);
        }
    }

    pub(crate) async fn list(&self) -> Result<Vec<String>> {
        Ok(self.contenders.list().await?.unwrap_or_default())
    }
}
