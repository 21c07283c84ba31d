//! Where session ids come from.

use proto::SessionId;

/// Gives out session ids: the server's id in the top byte, the start time in the next five, a
/// counter that starts at 0 in the last two (and may run into the time's bits).
///
/// Source: SessionTrackerImpl.initializeNextSessionId; differs: 0 is
/// never given out, because it means "no session" on the wire.
#[derive(Debug, Clone)]
pub struct SessionIds {
    next: i64,
}

impl SessionIds {
    /// Server id of a standalone server, whatever its `myid`.
    pub const STANDALONE_SERVER: u8 = 1;

    /// Ids of one run of a server.
    ///
    /// `server_id` is the low byte of the server's `myid`. `now_ms` may count from anywhere, but
    /// should be later than at every earlier start on the same data, or ids could repeat: whoever
    /// takes them leaves out those of living sessions. Only its low 40 bits (34 years) are used.
    pub fn new(server_id: u8, now_ms: i64) -> Self {
        let time = (now_ms.cast_unsigned() << 24) >> 8;
        let server = u64::from(server_id) << 56;
        Self {
            next: (server | time).cast_signed(),
        }
    }

    /// The next id.
    ///
    /// Skips the value that as an ephemeral owner marks a container.
    #[allow(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> SessionId {
        while matches!(self.next, 0 | i64::MIN) {
            self.next += 1;
        }
        let id = SessionId(self.next);
        self.next = self.next.wrapping_add(1);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_id_holds_server_and_time() {
        // 0x15ccec ms after the clock's origin, as in the recorded id.
        let mut ids = SessionIds::new(SessionIds::STANDALONE_SERVER, 0x0015_ccec);
        assert_eq!(ids.next(), SessionId(0x0100_0015_ccec_0000));
        assert_eq!(ids.next(), SessionId(0x0100_0015_ccec_0001));
    }

    #[test]
    fn a_clock_that_needs_more_than_40_bits_leaves_the_server_byte_alone() {
        let id = SessionIds::new(0xfe, 0x0123_4567_89ab_cdef).next();
        assert_eq!(id.0.cast_unsigned(), 0xfe67_89ab_cdef_0000);
    }

    #[test]
    fn the_containers_mark_and_zero_are_skipped() {
        assert_eq!(SessionIds::new(0x80, 0).next(), SessionId(i64::MIN + 1));
        assert_eq!(SessionIds::new(0, 0).next(), SessionId(1));
        let mut ids = SessionIds { next: i64::MAX };
        assert_eq!(ids.next(), SessionId(i64::MAX));
        assert_eq!(ids.next(), SessionId(i64::MIN + 1));
    }
}
