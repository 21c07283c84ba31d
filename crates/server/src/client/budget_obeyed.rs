//! The budgets that one connection obeys.

use std::sync::Arc;

use proto::SessionId;
use replica::connection::{Holding, Identities};
use tree::WatcherId;

use super::budget_held::{Beyond, HeldBy};
use super::budgets::Share;
use super::connection::Connection;
use crate::clock;

/// What a connection obeys.
pub(crate) struct Obeyed {
    /// As they were when the shares were looked for.
    identities: Identities,
    shares: Arc<[Arc<Share>]>,
}

/// A share that is too small for a request.
pub(crate) struct Refused {
    pub(super) share: Arc<Share>,
    pub(super) beyond: Beyond,
}

impl Obeyed {
    /// A connection with these identities has these shares.
    pub(super) fn begin(
        connection: &Connection,
        identities: Identities,
        shares: Arc<[Arc<Share>]>,
    ) -> Self {
        for share in shares.iter() {
            share.with_held(|held| held.join(connection.id));
        }
        Self { identities, shares }
    }

    /// Whether they are still those of a connection that has these identities now.
    pub(super) fn holds_for(&self, identities: &Identities) -> bool {
        Arc::ptr_eq(&self.identities, identities)
    }

    /// The connection has them no longer.
    pub(super) fn leave(&self, connection: &Connection) {
        for share in self.shares.iter() {
            share.with_held(|held| held.leave(connection.id));
        }
    }

    /// Whether a connection for which so much is held may have so much more.
    ///
    /// # Errors
    /// By what it may not.
    pub(super) fn may_hold(
        &self,
        connection: WatcherId,
        (held, more): (Holding, Holding),
    ) -> Result<(), Refused> {
        for share in self.shares.iter() {
            let judge = |of: &mut HeldBy| of.judge(connection, (held, more), share.budget());
            if let Some(beyond) = share.with_held(judge).flatten() {
                let share = share.clone();
                return Err(Refused { share, beyond });
            }
        }
        Ok(())
    }

    /// The connection ends, and its session may live for as long as its timeout, and until somebody has looked.
    pub(super) fn end(&self, connection: &Connection) {
        let timeout_ms = u64::try_from(connection.timeout_ms()).unwrap_or(0);
        let until_ms = clock::monotonic_ms().saturating_add(2 * timeout_ms);
        let session = connection.session();
        for share in self.shares.iter() {
            if share.budget().ephemerals.is_some() && session != SessionId::NONE {
                share.with_held(|held| held.depart(connection.id, (session, until_ms)));
            }
        }
        self.leave(connection);
    }

    pub(super) fn shares(&self) -> Arc<[Arc<Share>]> {
        self.shares.clone()
    }
}
