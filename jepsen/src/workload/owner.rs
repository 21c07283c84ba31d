//! Sessions that move from connection to connection while the old one continues to write: one owner
//! at a time. The workload opens the connections itself, because a client would take its session
//! back.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::frame::{put_request, split_reply};
use client::{Handshake, RawConnection};
use jute::Encode;
use proto::request::SetDataRequest;
use proto::{OpCode, Xid};
use serde_json::json;

use super::Context;
use super::caller::{CALL_LIMIT, Caller, Outcome};
use super::steps::{Definition, Steps, scratch};
use crate::history::Event;
use crate::verdict::Verdict;

const TOP: &str = "/jepsen-owner";
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);
/// Time limit for one server to accept a session.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);
/// Maximum number of moves of one session.
const MOVES_MAX: u64 = 20;

/// Owners of sessions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner;

impl Definition for Owner {
    type Client = Client;

    fn name(&self) -> &'static str {
        "owner"
    }

    fn promise(&self) -> &'static str {
        "after a session has moved to another connection, no write on an older connection is executed"
    }

    fn top(&self) -> &'static str {
        TOP
    }

    fn check(&self, events: &[Event], _steps_max: u64) -> Verdict {
        crate::check::owner::check(events)
    }
}

/// A connection and its number in its session.
struct Numbered {
    number: u64,
    connection: RawConnection,
    next_xid: i32,
}

pub(super) struct Client {
    caller: Caller,
    /// The two newest connections of one session, the newest last.
    connections: Vec<Numbered>,
}

impl Client {
    /// Opens another connection for the session, or for a new session.
    async fn claim(&mut self) {
        let members = Arc::clone(&self.caller.context().members);
        let server: Arc<str> = members[self.caller.rng.usize(..members.len())]
            .as_str()
            .into();
        let newest = self.connections.last();
        let number = newest.map_or(0, |newest| newest.number + 1);
        let session = newest.map(|newest| newest.connection.accepted.session.clone());
        let handshake = Handshake::default()
            .with_session_timeout(SESSION_TIMEOUT)
            .with_session(session)
            .with_connect_timeout(CONNECT_LIMIT);
        self.caller
            .invoke("claim", None, json!({"connection": number}));
        let outcome = match RawConnection::open(&server, &handshake).await {
            Ok(connection) => Outcome::Done(connection),
            Err(error) => Outcome::Unknown(error.to_string()),
        };
        self.caller.end("claim", None, &outcome, |connection| {
            json!({"session": connection.accepted.session.id.to_string(), "connection": number})
        });
        match outcome {
            Outcome::Done(connection) => {
                if self.connections.len() > 1 {
                    self.connections.remove(0);
                }
                self.connections.push(Numbered {
                    number,
                    connection,
                    next_xid: 1,
                });
            }
            // The owner is now unknown.
            _ => self.connections.clear(),
        }
    }

    /// Writes on one of the connections, and closes it if the write fails.
    async fn write(&mut self, at: usize) {
        let Some(numbered) = self.connections.get_mut(at) else {
            return;
        };
        let session = numbered.connection.accepted.session.id.to_string();
        let value = json!({"session": session, "connection": numbered.number});
        self.caller.invoke("write", None, value);
        let path = scratch(TOP, self.caller.first());
        let call = written(numbered, &path);
        let outcome = match tokio::time::timeout(CALL_LIMIT, call).await {
            Ok(Ok(zxid)) => Outcome::Done(zxid),
            Ok(Err(why)) => Outcome::Unknown(why),
            Err(_) => Outcome::Unknown(format!("no answer within {CALL_LIMIT:?}")),
        };
        self.caller
            .end("write", None, &outcome, |zxid| json!({"zxid": zxid}));
        if !matches!(outcome, Outcome::Done(_)) {
            self.connections.remove(at);
        }
    }
}

/// Sends a write and returns the zxid of its transaction.
async fn written(numbered: &mut Numbered, path: &str) -> Result<i64, String> {
    // Both connections use the same request numbers, so only the data distinguishes them.
    let data = Bytes::from(numbered.number.to_string());
    let wire = &mut numbered.connection.wire;
    let xid = Xid(numbered.next_xid);
    numbered.next_xid += 1;
    put_request(xid, OpCode::SetData.number(), wire.outbound(), |out| {
        SetDataRequest {
            path: Some(path.into()),
            data: Some(data),
            version: -1,
        }
        .encode(out);
    });
    loop {
        if let Some(frame) = wire.next_frame().map_err(|error| error.to_string())? {
            let (header, _) = split_reply(frame).map_err(|error| error.to_string())?;
            if header.xid != xid {
                continue;
            }
            return match header.err {
                0 => Ok(header.zxid.0),
                code => Err(format!("error {code}")),
            };
        }
        wire.turn().await.map_err(|error| error.to_string())?;
    }
}

impl Steps for Client {
    fn new(context: Context) -> Client {
        Client {
            caller: Caller::new(context),
            connections: Vec::new(),
        }
    }

    fn caller(&mut self) -> &mut Caller {
        &mut self.caller
    }

    async fn step(&mut self) {
        let newest = self.connections.len().checked_sub(1);
        let is_old = self
            .connections
            .last()
            .is_some_and(|newest| newest.number >= MOVES_MAX);
        if is_old {
            self.connections.clear();
        }
        match (newest.filter(|_| !is_old), self.caller.rng.u8(..6)) {
            (None, _) | (_, 0) => self.claim().await,
            (Some(newest), 1..=3) => self.write(newest).await,
            (Some(_), _) => self.write(0).await,
        }
    }

    /// Does nothing: the owner of a session that does not move proves nothing.
    async fn last(&mut self) {}
}
