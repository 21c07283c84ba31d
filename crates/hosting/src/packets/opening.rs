//! Where a leader's snapshot stands among its packets.

use proto::Zxid;
use proto::leader::LeaderPacket;

/// How a leader opens the synchronisation. The bytes of a tree follow a SNAP packet that opens it; in
/// any other place that is a packet that nobody understands.
#[derive(Debug, Default)]
pub(super) struct Opening {
    is_opened: bool,
    snapshot: Option<Zxid>,
}

impl Opening {
    /// Whether a tree, and no packet, comes behind this one.
    pub(super) fn ends_packets(&mut self, packet: &LeaderPacket) -> bool {
        match packet {
            LeaderPacket::Snap { zxid } if !self.is_opened => {
                self.is_opened = true;
                self.snapshot = Some(*zxid);
            }
            LeaderPacket::Diff { .. } | LeaderPacket::Trunc { .. } => self.is_opened = true,
            _ => {}
        }
        self.snapshot.is_some()
    }

    /// Whether a tree comes next.
    pub(super) fn is_at_tree(&self) -> bool {
        self.snapshot.is_some()
    }

    /// The zxid of the SNAP packet, if a tree comes next, which is taken now.
    pub(super) fn take_tree(&mut self) -> Option<Zxid> {
        self.snapshot.take()
    }
}
