//! Unanswered requests, and the match between replies and requests.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use proto::connect::ReplyHeader;
use proto::{OpCode, Xid};
use tokio::sync::oneshot;

use super::watches::{Registration, UnwantedWatch};
use crate::cleanup::Cleanup;
use crate::error::{Call, Error, LossReason, Result, XidOrNothing};

/// A successful reply (`header.err` is 0), not yet decoded.
#[derive(Debug, Clone)]
pub struct Reply {
    /// Header of the reply.
    pub header: ReplyHeader,
    /// Record after the header.
    pub body: Bytes,
}

/// A request that waits for its answer. Without `Debug`, because the packet may contain a
/// credential.
pub(crate) struct Pending {
    pub(crate) xid: Xid,
    pub(crate) call: Call,
    /// Time at which the request was sent.
    pub(crate) sent: Duration,
    pub(crate) watch: Option<Registration>,
    /// Packet of an auth request, to repeat on the next connection.
    pub(crate) auth: Option<Bytes>,
    pub(crate) asker: ReplyTarget,
}

/// Requester that waits for an answer.
pub(crate) enum ReplyTarget {
    /// A call of the application.
    Caller(oneshot::Sender<Result<Reply>>),
    /// Background work of the session.
    Cleanup(Cleanup),
    /// No requester: a `sync` before a search, or the removal of a watch.
    Nobody,
}

/// Unanswered requests of one connection, oldest first.
#[derive(Default)]
pub(crate) struct InFlight {
    requests: VecDeque<Pending>,
}

impl InFlight {
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(crate) fn push(&mut self, pending: Pending) {
        self.requests.push_back(pending);
    }

    /// Removes and returns the request that a reply with this header answers.
    ///
    /// Replies arrive in the order of the requests, with exceptions. Auth and sasl bypass the
    /// server's queue, and the server sends some refusals before a request enters the queue.
    ///
    /// # Errors
    /// If the reply does not answer a request or is out of order. The connection is then unusable.
    pub(crate) fn answered_by(&mut self, header: &ReplyHeader) -> Result<Pending, LossReason> {
        let expected = self.requests.front().map(|oldest| oldest.xid.0);
        let may_overtake = |pending: &Pending| {
            header.err != 0 || matches!(pending.call.op, OpCode::Auth | OpCode::Sasl)
        };
        let index = self
            .requests
            .iter()
            .position(|pending| pending.xid == header.xid);
        index
            .filter(|index| *index == 0 || self.requests.get(*index).is_some_and(may_overtake))
            .or_else(|| self.find_after_auths(header.xid))
            .and_then(|index| self.requests.remove(index))
            .ok_or(LossReason::OutOfOrder {
                got: header.xid.0,
                expected: XidOrNothing(expected),
            })
    }

    /// Finds the request with this xid if all earlier requests are auth requests. A server does not
    /// order ordinary replies relative to replies to earlier auth requests.
    fn find_after_auths(&self, xid: Xid) -> Option<usize> {
        let oldest_ordinary = self
            .requests
            .iter()
            .position(|pending| pending.call.op != OpCode::Auth)?;
        let found = self.requests.get(oldest_ordinary)?.xid == xid;
        found.then_some(oldest_ordinary)
    }

    /// Returns whether a request in flight may set the watch that is to be removed.
    pub(crate) fn may_set(&self, unwanted: &UnwantedWatch) -> bool {
        let registrations = self.requests.iter().filter_map(|sent| sent.watch.as_ref());
        let mut same_path = registrations.filter(|registration| registration.path == unwanted.path);
        same_path.any(|registration| registration.effect.sets() == Some(unwanted.kind))
    }

    /// Returns whether any background work waits for answers.
    pub(crate) fn has_cleanups(&self) -> bool {
        let mut askers = self.requests.iter().map(|pending| &pending.asker);
        askers.any(|asker| matches!(asker, ReplyTarget::Cleanup(_)))
    }

    /// Reports the loss of the connection to all callers, and returns the unanswered background
    /// work.
    pub(crate) fn fail_all(&mut self, reason: &LossReason) -> Vec<Cleanup> {
        let mut cleanups = Vec::new();
        for pending in self.requests.drain(..) {
            match pending.asker {
                ReplyTarget::Caller(reply) => {
                    let lost = Error::ConnectionLost {
                        call: pending.call,
                        reason: reason.clone(),
                    };
                    // Fails if the caller no longer waits.
                    let _ = reply.send(Err(lost));
                }
                ReplyTarget::Cleanup(cleanup) => cleanups.push(cleanup),
                ReplyTarget::Nobody => {}
            }
        }
        cleanups
    }
}

#[cfg(test)]
mod tests {
    use proto::Zxid;

    use super::*;

    fn in_flight(requests: &[(i32, OpCode)]) -> InFlight {
        let mut in_flight = InFlight::default();
        for (xid, op) in requests {
            in_flight.push(Pending {
                xid: Xid(*xid),
                call: Call {
                    op: *op,
                    path: None,
                    server: "server".into(),
                },
                sent: Duration::ZERO,
                watch: None,
                auth: None,
                asker: ReplyTarget::Nobody,
            });
        }
        in_flight
    }

    fn reply(xid: i32, err: i32) -> ReplyHeader {
        ReplyHeader {
            xid: Xid(xid),
            zxid: Zxid(1),
            err,
        }
    }

    #[test]
    fn replies_match_in_order_only() {
        let mut two = in_flight(&[(1, OpCode::Create), (2, OpCode::GetData)]);
        let error = two.answered_by(&reply(2, 0)).err().unwrap();
        assert_eq!(
            error.to_string(),
            "received a reply with xid 2, expected xid 1"
        );
        assert_eq!(two.answered_by(&reply(1, 0)).unwrap().xid, Xid(1));
        assert_eq!(two.answered_by(&reply(2, -101)).unwrap().xid, Xid(2));
        let error = two.answered_by(&reply(3, 0)).err().unwrap();
        assert_eq!(
            error.to_string(),
            "received a reply with xid 3, expected no reply"
        );
    }

    #[test]
    fn a_refusal_may_overtake_earlier_replies() {
        let mut two = in_flight(&[(1, OpCode::Create), (2, OpCode::SetData)]);
        assert_eq!(two.answered_by(&reply(2, -119)).unwrap().xid, Xid(2));
        assert_eq!(two.answered_by(&reply(1, 0)).unwrap().xid, Xid(1));
    }

    #[test]
    fn auth_overtakes_and_may_be_overtaken() {
        let auth = (Xid::AUTH.0, OpCode::Auth);
        let mut three = in_flight(&[(1, OpCode::Create), auth, (2, OpCode::Create)]);
        assert_eq!(
            three.answered_by(&reply(-4, 0)).unwrap().call.op,
            OpCode::Auth
        );
        assert_eq!(three.answered_by(&reply(1, 0)).unwrap().xid, Xid(1));

        let mut three = in_flight(&[auth, (1, OpCode::Create), (2, OpCode::Create)]);
        assert_eq!(three.answered_by(&reply(1, 0)).unwrap().xid, Xid(1));
        assert_eq!(
            three.answered_by(&reply(-4, 0)).unwrap().call.op,
            OpCode::Auth
        );
        assert_eq!(three.answered_by(&reply(2, 0)).unwrap().xid, Xid(2));
    }
}
