//! Reads without a leader (`readonlymode.enabled`).
//!
//! A member that has been looking for a leader for a while serves reads from its current tree to
//! clients that accepted this in the handshake. The election continues meanwhile. When it ends,
//! whatever the result, these clients lose their connections and their sessions, which were local.
//!
//! Source: QuorumPeer.run, ReadOnlyZooKeeperServer.

use super::Role;
use crate::interface::effect::Service;
use crate::interface::host::{Host, Turn};
use crate::replica::Replica;

impl<H: Host> Replica<H> {
    /// Schedules the start of reads when this server begins to look for a leader.
    pub(crate) fn schedule_read_only(&mut self, now_ms: i64) {
        if let Some(member) = &mut self.member {
            // A member without a trusted log cannot serve reads.
            let after_ms = member.settings.read_only_after_ms;
            let after_ms = after_ms.filter(|_| member.is_trusted);
            member.read_only_at_ms = after_ms.map(|after_ms| now_ms.saturating_add(after_ms));
        }
    }

    /// Serves reads if this server has been looking for a leader long enough.
    pub(crate) fn begin_read_only_if_due(&mut self, turn: &mut Turn<'_, H>) {
        let Some(member) = &mut self.member else {
            return;
        };
        let now_ms = turn.now.ms;
        let due = member.read_only_at_ms.take_if(|at_ms| *at_ms <= now_ms);
        if due.is_some() && matches!(self.role, Role::Looking) {
            self.serve(Service::ReadOnly, turn);
            self.publish_view(turn);
            // Test suites of clients wait for the first four words of this line. Source:
            // ReadOnlyZooKeeperServer.
            tracing::info!(
                zxid = %self.last_zxid,
                "Read-only server started: no leader is known yet, and read-only clients are served"
            );
        }
    }

    /// Ends the reads because a leader is known or designated. Read-only clients must then
    /// reconnect.
    pub(crate) fn end_read_only(&mut self, turn: &mut Turn<'_, H>) {
        if let Some(member) = &mut self.member {
            member.read_only_at_ms = None;
        }
        if self.service == Service::ReadOnly {
            tracing::info!("a leader is known, disconnecting read-only clients");
            self.stop_serving(turn);
        }
    }
}
