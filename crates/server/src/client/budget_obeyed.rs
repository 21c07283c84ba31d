//! The budgets that apply to one connection.

use std::sync::Arc;

use proto::SessionId;
use replica::connection::{Holding, Identities};
use tree::WatcherId;

use super::budget_held::{Beyond, HeldBy};
use super::budgets::Share;
use super::connection::Connection;
use crate::clock;

/// The budgets that apply to a connection.
pub(crate) struct Obeyed {
    /// Identities of the connection when its shares were determined.
    identities: Identities,
    shares: Arc<[Arc<Share>]>,
}

/// A share that is too small for a request.
pub(crate) struct Refused {
    pub(super) share: Arc<Share>,
    pub(super) beyond: Beyond,
}

impl Obeyed {
    /// Registers a connection with its shares. `identities` are the identities for which the shares
    /// were determined.
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

    /// Returns whether the shares are still valid for a connection with these identities.
    pub(super) fn holds_for(&self, identities: &Identities) -> bool {
        Arc::ptr_eq(&self.identities, identities)
    }

    /// Removes the connection from its shares.
    pub(super) fn leave(&self, connection: &Connection) {
        for share in self.shares.iter() {
            share.with_held(|held| held.leave(connection.id));
        }
    }

    /// Admits a connection's request to hold `more` in addition to `held`.
    ///
    /// # Errors
    /// If the request exceeds a bound of a share.
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

    /// Records the end of the connection. Its session may live for its timeout, plus the time until
    /// a server notices the expiry.
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
