//! `backup/log`: the transactions after a given transaction, for backups. Apache ZooKeeper lacks a
//! similar command.
//!
//! `after` (`0x1a`) is the last transaction of the caller. The answer is a log file. If the log
//! contains that transaction, the answer begins with its record, so that the caller can compare it
//! with its own record. All later transactions that are committed and on the disk of this member
//! follow. The header `last_zxid` contains the zxid of the last transaction. An answer that ends
//! before this transaction is incomplete.

use std::io;

use bytes::Bytes;
use hyper::{Response, StatusCode};
use jute::Limits;
use metrics::role::Mode;
use proto::Zxid;
use proto::position::parse_zxid;
use storage::{
    DataDirs, LoggedTxn, LoggedTxns, RealDisk, StorageError, is_log_whole, log, read_txns_from,
};

use super::Admin;
use super::snapshots::BINARY;
use crate::answer::{Answer, Object};
use crate::commands::Call;
use crate::http::{Activity, Pieces, Requester, ResponseBody, Source, respond, with_head};
use crate::limits;
use crate::served::Served;

/// Reasons why the log is not sent.
#[derive(Debug, thiserror::Error)]
enum NoLog {
    #[error("`after` must be a zxid such as 0x1a")]
    Parameter,
    #[error("this member is not in a quorum, so its data may be uncommitted")]
    NotInQuorum,
    #[error("the last zxid of this server is {0}, which is lower than `after` ({1})")]
    Behind(Zxid, Zxid),
    #[error("the log begins after {0}: take a new snapshot")]
    NotKept(Zxid),
    #[error("{0}")]
    Storage(#[from] StorageError),
}

impl NoLog {
    fn status(&self) -> StatusCode {
        match self {
            Self::Parameter => StatusCode::BAD_REQUEST,
            Self::NotInQuorum => StatusCode::SERVICE_UNAVAILABLE,
            Self::Behind(..) => StatusCode::CONFLICT,
            Self::NotKept(_) => StatusCode::GONE,
            Self::Storage(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl Admin {
    pub(super) async fn log(
        &self,
        served: &Served,
        name: &str,
        call: &Call,
        activity: &Activity,
    ) -> Response<ResponseBody> {
        let at_work = activity.begin();
        let begun = self.begin_log(served, call).await;
        drop(at_work);
        match begun {
            Ok(reading) => {
                let headers = vec![("last_zxid", format!("0x{:x}", reading.upto.0))];
                let body = Pieces::of(reading, None, &self.workers, activity);
                with_head(StatusCode::OK, headers, Some(BINARY), body)
            }
            Err(error) => {
                if error.status().is_server_error() {
                    tracing::warn!(err = %error, "cannot send the log through the admin server");
                }
                let mut answer = Answer::found(Object::new().with("error", error.to_string()));
                answer.status = error.status();
                respond(answer.under(name, None))
            }
        }
    }

    async fn begin_log(&self, served: &Served, call: &Call) -> Result<Reading, NoLog> {
        let after = call
            .parameter("after")
            .and_then(|text| parse_zxid(text).ok());
        let after = after.ok_or(NoLog::Parameter)?;
        // Opening reads all files from `after` on, so it shares the permits of the history queries.
        // A permit is not held while the client reads, because a slow client would keep it.
        let turn = self.questions.clone().acquire_owned().await;
        let upto = committed(served).ok_or(NoLog::NotInQuorum)?;
        if upto < after {
            return Err(NoLog::Behind(upto, after));
        }
        let (dirs, limits) = (served.dirs.clone(), served.record_limits);
        let open = move |_: &Requester| {
            let _turn = turn;
            Reading::open(&dirs, after, upto, limits)
        };
        let opened = self.workers.run(open).await;
        opened.unwrap_or(Err(NoLog::NotInQuorum))
    }
}

/// Returns the last committed transaction that can be read from the log. Returns `None` if this
/// member is not in a quorum, or its tree may contain uncommitted transactions.
fn committed(served: &Served) -> Option<Zxid> {
    let mode = served.view.role().served_mode();
    let is_in_quorum = mode.is_some_and(|mode| mode != Mode::ReadOnly);
    // This operation checks again, because the role may have ended meanwhile. The tree may then
    // contain transactions that will be truncated.
    let last = (served.operations.committed)()?;
    is_in_quorum.then(|| last.min(served.log_end.get()))
}

/// Rest of the log that is being sent.
struct Reading {
    /// First bytes of the next piece.
    begun: Vec<u8>,
    next: Option<LoggedTxn>,
    txns: LoggedTxns<'static, RealDisk>,
    upto: Zxid,
    is_over: bool,
}

impl Reading {
    fn open(dirs: &DataDirs, after: Zxid, upto: Zxid, limits: Limits) -> Result<Self, NoLog> {
        let mut txns = read_txns_from(&RealDisk, dirs, after, limits)?;
        let first = match txns.next() {
            // A record after `upto` may be incomplete, and is not sent.
            Some(Err(_)) if upto == after => None,
            first => first.transpose()?,
        };
        let goes_on = match &first {
            Some(first) => {
                let zxid = first.record.header.zxid;
                zxid == after || after.is_followed_by(zxid)
            }
            // If `after` is the last transaction, the log may be empty, because a snapshot contains
            // `after`.
            None => upto == after,
        };
        if !goes_on || !is_log_whole(&RealDisk, dirs, after, upto, limits)? {
            return Err(NoLog::NotKept(after));
        }
        Ok(Self {
            begun: log::file_header().to_vec(),
            next: first,
            txns,
            upto,
            is_over: false,
        })
    }
}

impl Source for Reading {
    fn next(&mut self) -> io::Result<Option<Bytes>> {
        if self.is_over {
            return Ok(None);
        }
        let mut piece = std::mem::take(&mut self.begun);
        while let Some(txn) = self.next.take() {
            let zxid = txn.record.header.zxid;
            if zxid <= self.upto {
                log::put_record(&txn.payload, &mut piece);
            }
            // Later records may be incomplete.
            if zxid >= self.upto {
                break;
            }
            self.next = self.txns.next().transpose().map_err(|error| {
                tracing::warn!(err = %error, "cannot read the rest of a log that is being sent");
                io::Error::other(error)
            })?;
            if piece.len() >= limits::HTTP_PIECE_BYTES {
                return Ok(Some(piece.into()));
            }
        }
        self.is_over = true;
        Ok(Some(piece.into()))
    }
}
