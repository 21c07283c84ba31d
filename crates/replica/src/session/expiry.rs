//! Expiry of sessions. Global sessions end with a transaction if this server decides about them;
//! local sessions end immediately.

use proto::request::WriteRequest;

use crate::interface::effect::Effect;
use crate::interface::host::{Host, State, Turn};
use crate::interface::note::Note;
use crate::order::long_requests::OrderItem;
use crate::order::proposals::ServerRequest;
use crate::replica::Replica;

/// Schedule of the checks of the session table.
#[derive(Debug, Default)]
pub(crate) struct Expiry {
    /// Time of the next check, ms; `None` while clients are not served.
    next_ms: Option<i64>,
}

impl Expiry {
    /// Starts the checks.
    pub(crate) fn begin(&mut self, now_ms: i64) {
        self.next_ms = Some(now_ms);
    }

    /// Stops the checks.
    pub(crate) fn end(&mut self) {
        self.next_ms = None;
    }
}

impl<H: Host> Replica<H> {
    pub(crate) fn expiry_ms(&self) -> Option<i64> {
        self.expiry.next_ms
    }

    pub(crate) fn expire_sessions(&mut self, turn: &mut Turn<'_, H>) {
        let now_ms = turn.now.ms;
        if self.expiry.next_ms.is_none_or(|at_ms| at_ms > now_ms) {
            return;
        }
        let (expired, next_ms) = {
            let mut sessions = turn.state.sessions();
            (sessions.expire(now_ms), sessions.next_deadline())
        };
        // Sessions expire at multiples of a tick, so earlier checks are useless. A session that
        // begins meanwhile lives longer than a tick.
        let in_a_tick_ms = now_ms.saturating_add(self.settings.tick_ms);
        let next_ms = next_ms.unwrap_or(in_a_tick_ms);
        self.expiry.next_ms = Some(next_ms.clamp(now_ms + 1, in_a_tick_ms.max(now_ms + 1)));
        for session in expired.local {
            tracing::debug!(%session, "local session expires");
            turn.note(Note::SessionExpires);
            turn.effect(Effect::CloseSession(session));
        }
        if expired.global.is_empty() {
            return;
        }
        for session in expired.global {
            tracing::debug!(%session, "session expires");
            turn.note(Note::SessionExpires);
            let close = ServerRequest::own(session, WriteRequest::CloseSession);
            self.incoming.push(OrderItem::Order(close));
        }
        self.carry_out_leader(Vec::new(), turn);
    }
}
