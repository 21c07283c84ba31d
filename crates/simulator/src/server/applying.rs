//! Requests become transactions, transactions become changes, events and replies.

use jute::{Decode, Encode, Reader};
use proto::learner::{LearnerRequest, Touch};
use proto::request::{Request, WriteRequest};
use proto::txn::{Txn, TxnRecord};
use proto::{ErrorCode, OpCode, SessionId, Zxid};
use session::Owner;
use tree::{PrepareContext, SessionKind};
use zab::Record;
use zab::leader::LinkId;

use super::{Role, Server};
use crate::Mutant;
use crate::world::World;

impl Server {
    /// A learner's client wants something.
    pub(super) fn learner_request(
        &mut self,
        from: LinkId,
        request: &LearnerRequest,
        world: &mut World,
    ) {
        let owner = Owner(from.0);
        let (session, cxid) = (request.session, request.cxid);
        let write = match request.op() {
            Some(OpCode::Sync) => {
                // Answered whoever owns the session: the learner counts the answers.
                return self.lead(world, |core, _, out| core.sync(from, out));
            }
            Some(OpCode::CreateSession) => {
                let timeout_ms = Reader::new(request.body.clone()).i32();
                timeout_ms
                    .ok()
                    .map(|timeout_ms| WriteRequest::CreateSession { timeout_ms })
            }
            Some(op) => match Request::decode(op, &mut Reader::new(request.body.clone())) {
                Ok(Request::Write(write)) => Some(write),
                _ => None,
            },
            None => None,
        };
        match write {
            Some(write) => {
                self.propose(owner, session, cxid, &write, world);
            }
            None => world
                .checks
                .fail("requests are whole", format!("{request:?}")),
        }
    }

    fn check_owner(
        &mut self,
        session: SessionId,
        owner: Owner,
        world: &World,
    ) -> Result<SessionKind, ErrorCode> {
        let Role::Leading(leading) = &mut self.role else {
            return Err(ErrorCode::SessionExpired);
        };
        let Some(office) = &mut leading.office else {
            return Err(ErrorCode::SessionExpired);
        };
        if world.is(Mutant::OwnerIgnored) {
            let is_live = office.tracker.contains(session) && !office.tracker.is_closing(session);
            return is_live
                .then_some(SessionKind::Global)
                .ok_or(ErrorCode::SessionExpired);
        }
        office
            .tracker
            .check(session, owner)
            .map(|_| SessionKind::Global)
    }

    /// Makes a transaction and proposes it. `false`: this server does not lead.
    pub(crate) fn propose(
        &mut self,
        owner: Owner,
        session: SessionId,
        cxid: i32,
        request: &WriteRequest,
        world: &mut World,
    ) -> bool {
        if !self.is_leading() {
            return false;
        }
        let now_ms = world.now_ms();
        let session_check = match request {
            WriteRequest::CreateSession { .. } | WriteRequest::CloseSession => {
                Ok(SessionKind::Global)
            }
            _ => self.check_owner(session, owner, world),
        };
        let Role::Leading(leading) = &mut self.role else {
            return false;
        };
        let Some(office) = &mut leading.office else {
            return false;
        };
        match request {
            WriteRequest::CreateSession { timeout_ms } => {
                office.tracker.add(session, *timeout_ms, now_ms);
                office.tracker.set_owner(session, owner);
            }
            WriteRequest::CloseSession => drop(office.tracker.set_closing(session)),
            _ => {}
        }
        let context = PrepareContext {
            session,
            cxid,
            zxid: leading.core.next_zxid(),
            time_ms: 1_700_000_000_000 + now_ms,
            identities: &[],
            session_check,
        };
        let record = office.overlay.prepare(&self.tree, request, &context);
        let record = Record::new(record.header.zxid, record.to_bytes());
        self.lead(world, |core, now_ms, out| {
            if core.propose(record, now_ms, out).is_err() {
                out.clear();
            }
        });
        true
    }

    /// A session is over for its leader.
    pub(super) fn close_session(&mut self, session: SessionId, world: &mut World) {
        self.propose(
            Owner::THIS_SERVER,
            session,
            0,
            &WriteRequest::CloseSession,
            world,
        );
    }

    /// Does a session that came to a learner live? If so it moves there.
    pub(super) fn revalidate(&mut self, from: LinkId, touch: Touch, world: &mut World) {
        let is_valid = self.move_session(touch.session, touch.timeout_ms, Owner(from.0), world);
        self.lead(world, |core, _, out| {
            core.revalidated(from, touch.session, is_valid, out)
        });
    }

    /// Whether the session lives, in which case it now belongs to `owner`.
    pub(super) fn move_session(
        &mut self,
        session: SessionId,
        timeout_ms: i32,
        owner: Owner,
        world: &World,
    ) -> bool {
        let now_ms = world.now_ms();
        let Role::Leading(leading) = &mut self.role else {
            return false;
        };
        let Some(office) = &mut leading.office else {
            return false;
        };
        let is_valid = office.tracker.touch(session, timeout_ms, now_ms);
        if is_valid && !world.is(Mutant::OwnerIgnored) {
            office.tracker.set_owner(session, owner);
        }
        is_valid
    }

    /// Sends a request up, or proposes it. `false`: there is nobody to take it.
    pub(super) fn submit(
        &mut self,
        session: SessionId,
        cxid: i32,
        request: &WriteRequest,
        world: &mut World,
    ) -> bool {
        if self.is_leading() {
            return self.propose(Owner::THIS_SERVER, session, cxid, request, world);
        }
        let mut body = Vec::new();
        if Request::Write(request.clone()).encode(&mut body).is_err() {
            return false;
        }
        let request = LearnerRequest {
            session,
            cxid,
            op: request.op().number(),
            body: body.into(),
            authinfo: Some(Vec::new()),
        };
        self.forward(request, world)
    }

    pub(super) fn forward(&mut self, request: LearnerRequest, world: &mut World) -> bool {
        let mut is_taken = false;
        self.learn(world, |core, _, out| is_taken = core.forward(request, out));
        is_taken
    }

    /// Applies what is committed; events go before the reply that follows from it.
    pub(super) fn apply(&mut self, record: &Record, world: &mut World) {
        let Some(mut txn) = decode(record) else {
            let text = format!("server {}: {record} does not decode", self.sid);
            return world.checks.fail("transactions are whole", text);
        };
        let mut events = Vec::new();
        let session = txn.header.session;
        if world.is(Mutant::EphemeralsStay)
            && let Txn::CloseSession { paths } = &mut txn.txn
        {
            *paths = Some(Vec::new());
            txn.header.session = SessionId::NONE;
        }
        let outcome = self.tree.apply(&txn, &mut self.watches.lock(), &mut events);
        txn.header.session = session;
        if let Role::Leading(leading) = &mut self.role
            && let Some(office) = &mut leading.office
        {
            office.overlay.applied(txn.header.zxid);
            if matches!(txn.txn, Txn::CloseSession { .. }) {
                office.tracker.remove(txn.header.session);
            }
        }
        if self.is_serving() {
            world.checks.applied(self.sid, &txn, &self.tree);
        }
        self.fire(events, world);
        self.answer_write(&txn, &outcome, world);
    }

    /// Applies what is history for the next role: nobody is told.
    pub(super) fn replay(&mut self, record: &Record) {
        match decode(record) {
            Some(txn) => {
                self.tree
                    .apply(&txn, &mut self.watches.lock(), &mut Vec::new());
            }
            None => self.exit(format!("{record} does not decode")),
        }
    }

    /// Passes a question for a session up. `false`: there is nobody to ask.
    pub(super) fn ask_about(&mut self, session: Touch, world: &mut World) -> bool {
        let mut is_taken = false;
        self.learn(world, |core, _, out| {
            is_taken = core.revalidate(session, out)
        });
        is_taken
    }

    pub(super) fn last_proposed(&self) -> Option<Zxid> {
        match &self.role {
            Role::Leading(leading) if leading.core.outstanding() > 0 => {
                Some(Zxid(leading.core.next_zxid().0 - 1))
            }
            _ => None,
        }
    }

    /// A session was heard from; learners tell with the next ping.
    pub(super) fn hears_session(&mut self, session: SessionId, timeout_ms: i32, world: &World) {
        let now_ms = world.now_ms();
        match &mut self.role {
            Role::Learning(learning) => drop(learning.touched.insert(session, timeout_ms)),
            Role::Leading(leading) => {
                if let Some(office) = &mut leading.office {
                    office.tracker.touch(session, timeout_ms, now_ms);
                }
            }
            _ => {}
        }
    }
}

pub(crate) fn decode(record: &Record) -> Option<TxnRecord> {
    TxnRecord::decode(&mut Reader::new(record.txn.clone())).ok()
}
