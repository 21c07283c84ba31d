//! Deletion of empty containers and expired TTL znodes, by the server that orders.
//!
//! Source: ContainerManager.

use std::collections::VecDeque;

use proto::SessionId;
use proto::request::WriteRequest;

use super::long_requests::OrderItem;
use super::proposals::ServerRequest;
use crate::interface::host::{Host, State, Turn};
use crate::interface::settings::ContainerSettings;
use crate::replica::Replica;
use crate::roles::Role;

/// Number of deletions in one batch, if they need not be spread over time.
const DELETIONS_AT_ONCE: usize = 100;

/// Schedule of the checks, and the znodes to be deleted.
#[derive(Debug)]
pub(crate) struct ContainerCheck {
    settings: ContainerSettings,
    /// Time of the next round or of the next deletion, ms.
    next_ms: i64,
    due: VecDeque<jute::Str>,
}

impl ContainerCheck {
    pub(crate) fn new(settings: ContainerSettings, now_ms: i64) -> Self {
        Self {
            next_ms: now_ms.saturating_add(settings.check_interval_ms),
            due: VecDeque::new(),
            settings,
        }
    }
}

impl<H: Host> Replica<H> {
    pub(crate) fn containers_ms(&self) -> Option<i64> {
        matches!(self.role, Role::Leading(_)).then_some(self.containers.next_ms)
    }

    pub(crate) fn delete_containers(&mut self, turn: &mut Turn<'_, H>) {
        let now_ms = turn.now.ms;
        if now_ms < self.containers.next_ms {
            return;
        }
        let orders = matches!(&self.role, Role::Leading(leading) if leading.leader.is_leading());
        let check = &mut self.containers;
        let settings = check.settings;
        if !orders {
            check.due.clear();
        } else if check.due.is_empty() {
            let tree = turn.state.tree();
            let never_used_ms = settings.max_never_used_ms;
            check.due = tree
                .expired_candidates(turn.now.wall_ms, never_used_ms)
                .into();
        }
        let at_once = match settings.min_spacing_ms {
            0 => DELETIONS_AT_ONCE,
            _ => 1,
        };
        let now = check.due.len().min(at_once);
        for path in check.due.drain(..now) {
            tracing::debug!(path = &*path, "deleting a container or TTL znode");
            let delete = WriteRequest::DeleteContainer { path };
            let order = ServerRequest::own(SessionId::NONE, delete);
            self.incoming.push(OrderItem::Order(order));
        }
        let pause_ms = if check.due.is_empty() {
            settings.check_interval_ms
        } else {
            settings.min_spacing_ms.max(1)
        };
        check.next_ms = now_ms.saturating_add(pause_ms);
        if now > 0 {
            self.carry_out_leader(Vec::new(), turn);
        }
    }
}
