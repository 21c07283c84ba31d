//! Reads without a leader: `readonlymode.enabled`.
//!
//! A member that has looked for a leader for a while serves the clients that said at the handshake
//! that reads will do, from the tree as it is. The election goes on meanwhile. With its end, whatever
//! it is, they lose their connections, and with them their sessions, which were local.
//!
//! Source: client-protocol.md 11.6, ensemble-protocol.md 19 (QuorumPeer.run,
//! ReadOnlyZooKeeperServer).

use config::Config;

use super::core::Core;
use super::role::Role;
use crate::clock;
use crate::service::Service;

/// An election is over sooner, if it can be won at all.
const GRACE_MS_MIN: i64 = 2000;

/// After how long without a leader reads are served; `None` for never.
pub(super) fn grace_ms(config: &Config) -> Option<i64> {
    let is_enabled = config.features.read_only_mode_enabled;
    is_enabled.then(|| GRACE_MS_MIN.max(config.tick_time_ms.into()))
}

impl Core {
    /// This server has begun to look for a leader.
    pub(super) fn plan_read_only(&mut self) {
        if let Some(member) = &mut self.member {
            let after_ms = member.read_only_after_ms;
            member.read_only_at_ms = after_ms.map(|after_ms| clock::session_ms() + after_ms);
        }
    }

    /// Serves reads if this server has looked for long enough.
    pub(super) fn begin_read_only_if_due(&mut self, now_ms: i64) {
        let Some(member) = &mut self.member else {
            return;
        };
        let due = member.read_only_at_ms.take_if(|at_ms| *at_ms <= now_ms);
        if due.is_some() && matches!(self.role, Role::Looking) {
            tracing::info!(zxid = %self.last_zxid, "no leader yet, serving reads to read-only clients");
            self.shared.serve(Service::ReadOnly);
            self.publish_role();
        }
    }

    /// There is a leader, or there is to be one: this server has something better to do.
    pub(super) fn end_read_only(&mut self) {
        if let Some(member) = &mut self.member {
            member.read_only_at_ms = None;
        }
        if self.shared.service.get() == Service::ReadOnly {
            tracing::info!("a leader is known, read-only clients are sent away");
            self.shared.stop_serving();
        }
    }
}
