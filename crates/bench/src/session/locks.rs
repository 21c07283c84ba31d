//! Locks that sessions hand over, with the fair recipe: each contender has an ephemeral sequential
//! znode and watches its predecessor.
//!
//! The measured time is from the request for a lock until the lock is held. The lock is then
//! released immediately and requested again. A change of holder costs a delete, a notification, a
//! getChildren, and a create for the old holder, which enters the queue again.

use bytes::Bytes;
use client::frame::{put_request, split_reply};
use client::{LossReason, RawConnection};
use jute::{Decode, Encode, Reader};
use proto::request::{CreateRequest, PathVersionRequest, PathWatchRequest, flags};
use proto::response::{CreateResponse, NamesResponse};
use proto::{Acl, ErrorCode, OpCode, Xid, multi};

use crate::session::control::Phase;
use crate::session::template::numbered;
use crate::session::workload::{KEY_DIGITS, key_prefix, xid_after};
use crate::session::{Context, Report, close_session};

/// Prefix of the names of contenders' znodes. The server appends a number.
const CONTENDER: &str = "lock-";
/// Number of digits in the number of a sequential znode.
const SEQUENCE_DIGITS: usize = 10;

/// Acquires and releases the session's lock repeatedly until the measurement ends.
pub(crate) async fn contend(context: &Context, session: u32, mut connection: RawConnection) {
    context.control.reached(Phase::Warmup).await;
    let lock = session % context.plan.keys.max(1);
    let mut contender = Contender {
        context,
        directory: numbered(&key_prefix(&context.plan.root), KEY_DIGITS, lock.into()),
        connection: &mut connection,
        next_xid: 1,
    };
    let end = tokio::select! {
        end = contender.take_turns() => end,
        // At the end of the measurement, a contender does not wait for its lock, because other
        // sessions may hold the lock or wait for it.
        () = context.control.reached(Phase::Stopping) => Ok(()),
    };
    context.report(Report::Finished);
    match end {
        Ok(()) => close_session(&mut connection).await,
        Err(Failure::Refused(code)) => {
            context.stats.borrow_mut().refuse(code);
            close_session(&mut connection).await;
        }
        Err(Failure::Lost(reason)) => context.note_lost(session, &reason, 1),
    }
}

/// Reason why a contender cannot continue.
enum Failure {
    Refused(i32),
    Lost(LossReason),
}

impl<E: Into<LossReason>> From<E> for Failure {
    fn from(reason: E) -> Self {
        Self::Lost(reason.into())
    }
}

struct Contender<'a> {
    context: &'a Context,
    /// Znode of the lock.
    directory: String,
    connection: &'a mut RawConnection,
    next_xid: i32,
}

impl Contender<'_> {
    async fn take_turns(&mut self) -> Result<(), Failure> {
        let control = &self.context.control;
        while control.grant(1) == 1 {
            let start_ns = control.now_ns();
            let own = self.join().await?;
            self.wait(&own).await?;
            if control.is_measuring() {
                let latency_ns = control.now_ns().saturating_sub(start_ns);
                self.context.stats.borrow_mut().record(latency_ns, 1);
            }
            control.add_answers(1);
            let request = PathVersionRequest {
                path: Some(self.path(&own).into()),
                version: -1,
            };
            self.call(OpCode::Delete, |out| request.encode(out)).await?;
        }
        Ok(())
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }

    /// Joins the end of the queue, and returns the name of the contender's znode.
    async fn join(&mut self) -> Result<String, Failure> {
        let request = CreateRequest {
            path: Some(self.path(CONTENDER).into()),
            data: Some(Bytes::new()),
            acl: multi::request_acl([Acl::open()]),
            flags: flags::EPHEMERAL_SEQUENTIAL,
        };
        let body = self.call(OpCode::Create, |out| request.encode(out)).await?;
        let response: CreateResponse = decode("answer to create", body)?;
        let (_, name) = response.path.rsplit_once('/').unwrap_or_default();
        Ok(name.to_owned())
    }

    /// Waits until no contender precedes `own`.
    async fn wait(&mut self, own: &str) -> Result<(), Failure> {
        let directory = PathWatchRequest {
            path: Some(self.directory.as_str().into()),
            watch: false,
        };
        loop {
            let body = self
                .call(OpCode::GetChildren, |out| directory.encode(out))
                .await?;
            let list: NamesResponse = decode("answer to getChildren", body)?;
            let Some(ahead) = ahead_of(own, list.names.iter().map(|name| &**name)) else {
                return Ok(());
            };
            let read = PathWatchRequest {
                path: Some(self.path(ahead).into()),
                watch: true,
            };
            match self.call(OpCode::GetData, |out| read.encode(out)).await {
                Ok(_) => self.event().await?,
                // The predecessor was deleted between the getChildren and the watch.
                Err(Failure::Refused(code)) if code == ErrorCode::NoNode.code() => {}
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Sends a request and waits for its answer.
    async fn call(
        &mut self,
        op: OpCode,
        record: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Bytes, Failure> {
        let xid = Xid(self.next_xid);
        self.next_xid = xid_after(self.next_xid);
        put_request(xid, op.number(), self.connection.wire.outbound(), record);
        loop {
            while let Some(frame) = self.connection.wire.next_frame()? {
                let (header, body) = split_reply(frame)?;
                if header.xid != xid {
                    continue;
                }
                return match header.err {
                    0 => Ok(Bytes::copy_from_slice(body)),
                    code => Err(Failure::Refused(code)),
                };
            }
            self.connection.wire.turn().await?;
        }
    }

    /// Waits for the event of the only watch. After any event, the caller reads the list again.
    async fn event(&mut self) -> Result<(), Failure> {
        loop {
            while let Some(frame) = self.connection.wire.next_frame()? {
                if split_reply(frame)?.0.xid == Xid::EVENT {
                    return Ok(());
                }
            }
            self.connection.wire.turn().await?;
        }
    }
}

fn decode<T: Decode>(what: &'static str, body: Bytes) -> Result<T, LossReason> {
    T::decode(&mut Reader::new(body)).map_err(|source| LossReason::Decode { what, source })
}

/// Returns the contender directly before `own`, if there is one.
fn ahead_of<'a>(own: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let own = number_of(own)?;
    let numbered = names.filter_map(|name| Some((number_of(name)?, name)));
    let below = numbered.filter(|(number, _)| *number < own);
    below.max().map(|(_, name)| name)
}

fn number_of(name: &str) -> Option<u32> {
    let at = name.len().checked_sub(SEQUENCE_DIGITS)?;
    name.get(at..)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contender_waits_for_its_predecessor() {
        let names = ["lock-0000000012", "lock-0000000009", "x", "lock-0000000010"];
        let ahead = |own| ahead_of(own, names.into_iter());
        assert_eq!(ahead("lock-0000000012"), Some("lock-0000000010"));
        assert_eq!(ahead("lock-0000000010"), Some("lock-0000000009"));
        assert_eq!(ahead("lock-0000000009"), None);
    }
}
