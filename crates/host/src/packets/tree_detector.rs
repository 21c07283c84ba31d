//! Position of a leader's snapshot among its packets.

use proto::Zxid;
use proto::leader::LeaderPacket;

/// Detection of the tree in a leader's packets. The bytes of a tree follow a SNAP packet that opens
/// the synchronisation. At any other position, SNAP is an invalid packet.
#[derive(Debug, Default)]
pub(super) struct TreeDetector {
    is_opened: bool,
    snapshot: Option<Zxid>,
}

impl TreeDetector {
    /// Returns whether a tree follows this packet.
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

    /// Returns whether a tree is next.
    pub(super) fn is_at_tree(&self) -> bool {
        self.snapshot.is_some()
    }

    /// Removes and returns the zxid of the SNAP packet if a tree is next.
    pub(super) fn take_tree(&mut self) -> Option<Zxid> {
        self.snapshot.take()
    }
}
