//! Budgets that apply to one connection.

use std::sync::Arc;

use proto::SessionId;
use replica::connection::{Identities, ResourceCounts};
use tree::WatcherId;

use super::resources::{ExceededBound, ShareResources};
use super::share::Share;

/// Budgets that apply to a connection.
pub struct ConnectionBudgets {
    connection: WatcherId,
    /// Identities of the connection when its shares were determined.
    identities: Identities,
    shares: Arc<[Arc<Share>]>,
}

/// Error for a request that exceeds a share.
pub struct BudgetExceeded {
    pub(super) share: Arc<Share>,
    pub(super) exceeded: ExceededBound,
}

impl ConnectionBudgets {
    /// Registers a connection with its shares. `identities` are the identities for which the shares
    /// were determined.
    pub fn begin(connection: WatcherId, identities: Identities, shares: Arc<[Arc<Share>]>) -> Self {
        for share in shares.iter() {
            share.with_resources(|held| held.join(connection));
        }
        Self {
            connection,
            identities,
            shares,
        }
    }

    /// Returns whether the shares are still valid for a connection with these identities.
    pub fn is_valid_for(&self, identities: &Identities) -> bool {
        Arc::ptr_eq(&self.identities, identities)
    }

    /// Removes the connection from its shares.
    pub fn leave(&self) {
        for share in self.shares.iter() {
            share.with_resources(|held| held.leave(self.connection));
        }
    }

    /// Admits a request to hold `more` in addition to `held`.
    ///
    /// # Errors
    /// If the request exceeds a bound of a share.
    pub fn permits_resources(
        &self,
        held: ResourceCounts,
        more: ResourceCounts,
    ) -> Result<(), BudgetExceeded> {
        for share in self.shares.iter() {
            let judge =
                |of: &mut ShareResources| of.judge(self.connection, held, more, share.budget());
            if let Some(exceeded) = share.with_resources(judge).flatten() {
                let share = share.clone();
                return Err(BudgetExceeded { share, exceeded });
            }
        }
        Ok(())
    }

    /// Records the end of the connection. Its session may exist until the given time, in ms.
    pub fn end(&self, session: SessionId, until_ms: u64) {
        for share in self.shares.iter() {
            if share.budget().ephemerals.is_some() && session != SessionId::NONE {
                share.with_resources(|held| held.disconnect(self.connection, session, until_ms));
            }
        }
        self.leave();
    }

    /// Returns the shares.
    pub fn shares(&self) -> Arc<[Arc<Share>]> {
        self.shares.clone()
    }
}
