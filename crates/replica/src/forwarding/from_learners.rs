//! Requests that learners forward to their leader.

use jute::{Limits, Reader};
use proto::learner::{LearnerRequest, Touch};
use proto::request::Request;
use proto::{ErrorCode, OpCode};
use zab::leader::{Action, LinkId};

use crate::interface::host::{Host, State, Turn};
use crate::interface::note::Note;
use crate::order::long_requests::OrderItem;
use crate::order::proposals::ServerRequest;
use crate::replica::Replica;
use crate::roles::Role;
use crate::session::Owner;

impl<H: Host> Replica<H> {
    /// Records that sessions were active.
    pub(crate) fn touch_sessions(&self, touches: &[Touch], turn: &Turn<'_, H>) {
        let mut sessions = turn.state.sessions();
        for touch in touches {
            sessions.touch(touch.session, touch.timeout_ms, turn.now.ms);
        }
    }

    /// Handles the move of a client to a learner. If the session is live, it moves to that learner.
    pub(crate) fn revalidate(
        &mut self,
        from: LinkId,
        touch: Touch,
        actions: &mut Vec<Action>,
        turn: &mut Turn<'_, H>,
    ) {
        let Role::Leading(leading) = &mut self.role else {
            return;
        };
        let mut sessions = turn.state.sessions();
        let is_valid = sessions.move_to(touch, owner_of(from), turn.now.ms);
        drop(sessions);
        leading
            .leader
            .revalidated(from, touch.session, is_valid, actions);
        turn.note(Note::SessionRevalidated);
    }
}

/// Returns the owner number for the sessions that a learner's connection serves.
pub(crate) fn owner_of(link: LinkId) -> Owner {
    Owner(link.0)
}

/// Decodes a learner's request. Returns `None` for a request that is dropped without an answer.
///
/// An undecodable body becomes an error transaction with its own zxid, because the learner waits
/// for a transaction (LearnerHandler, PrepRequestProcessor). A request without identities becomes
/// an error transaction, too. Identities are also missing if they were too long to be kept.
pub(crate) fn incoming(
    from: LinkId,
    request: LearnerRequest,
    field_limits: Limits,
) -> Option<OrderItem> {
    let op = request.op();
    let LearnerRequest {
        session,
        cxid,
        body,
        authinfo,
        ..
    } = request;
    let Some(op) = op else {
        tracing::debug!(
            link = from.0,
            "dropping a learner's request of an unknown type"
        );
        return None;
    };
    if op == OpCode::Sync {
        return Some(OrderItem::Sync {
            link: from,
            session,
        });
    }
    let identities = authinfo.iter().flatten();
    let identities = identities.map(|id| id.scheme.len() + id.id.len());
    let record_bytes = body.len();
    let bytes = record_bytes + identities.sum::<usize>();
    let mut input = Reader::with_limits(body, field_limits);
    let write = match Request::decode_forwarded(op, &mut input) {
        Ok(Request::Write(write)) => Ok(write),
        Ok(Request::Read(_) | Request::Sync(_)) => {
            tracing::debug!(
                link = from.0,
                op = op.name(),
                "dropping a read that a learner forwarded"
            );
            return None;
        }
        Err(error) => Err(error),
    };
    // A session must be able to end, whatever its request contains.
    let needs_identities = !op.is_of_session();
    let request = match write {
        Ok(_) if needs_identities && authinfo.is_none() => {
            tracing::debug!(link = from.0, %session, op = op.name(), "refusing a forwarded request: its identities are missing or exceed jute.maxbuffer plus jute.maxbuffer.extrasize; the client must authenticate with fewer identities");
            Err(ErrorCode::MarshallingError)
        }
        Ok(write) => Ok(write),
        Err(error) => {
            tracing::debug!(link = from.0, %session, op = op.name(), err = %error, "cannot decode a request that a learner forwarded");
            Err(ErrorCode::MarshallingError)
        }
    };
    Some(OrderItem::Order(ServerRequest {
        owner: owner_of(from),
        session,
        cxid,
        op,
        identities: authinfo.unwrap_or_default(),
        request,
        link: Some(from),
        record_bytes,
        bytes,
    }))
}

#[cfg(test)]
mod tests {
    use jute::Encode;
    use proto::request::{CreateRequest, flags};
    use proto::{Acl, SessionId};

    use super::*;

    fn create(data_bytes: usize) -> LearnerRequest {
        let create = CreateRequest {
            path: Some("/a".into()),
            data: Some(vec![7; data_bytes].into()),
            acl: proto::multi::request_acl([Acl::open()]),
            flags: flags::PERSISTENT,
        };
        LearnerRequest {
            session: SessionId(1),
            cxid: 1,
            op: OpCode::Create.number(),
            body: create.to_bytes(),
            authinfo: Some(Vec::new()),
        }
    }

    #[test]
    fn a_request_may_be_as_long_as_the_configuration_allows() {
        let decoded = |data_bytes, limits| match incoming(LinkId(1), create(data_bytes), limits) {
            Some(OrderItem::Order(order)) => order.request.map(|_| ()),
            _ => panic!("a create is ordered"),
        };
        let raised = Limits::from_max_buffer(10 << 20, 10 << 20);
        for data_bytes in [1, 2 * 0xf_ffff, 2 * 0xf_ffff + 1, 9_000_000, 20 << 20] {
            assert_eq!(decoded(data_bytes, raised), Ok(()), "{data_bytes} bytes");
        }
        let refused = Err(ErrorCode::MarshallingError);
        assert_eq!(decoded((20 << 20) + 1, raised), refused);
        assert_eq!(decoded(3000, Limits::from_max_buffer(1000, 1024)), refused);
    }
}
