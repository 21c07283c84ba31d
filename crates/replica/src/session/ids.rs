//! Generator of session ids.

use proto::SessionId;

/// Generator of session ids. The top byte is the server's id, the next five bytes are the start,
/// and the last two are a counter from 0 (which may overflow into the start's bits).
///
/// Source: SessionTrackerImpl.initializeNextSessionId. Differs from Java, where the start is a
/// time. The id 0 is never used, because it means "no session" on the wire.
#[derive(Debug, Clone)]
pub struct SessionIds {
    next: i64,
}

impl SessionIds {
    /// Server id of a standalone server, whatever its `myid`.
    pub const STANDALONE_SERVER: u8 = 1;

    /// Creates the generator for one run of a server.
    ///
    /// `server_id` is the low byte of the server's `myid`. `start` must differ at every start on
    /// the same data, or ids repeat. The caller skips ids of live sessions. A repeated id would
    /// still be a danger: its password depends on the id only, so the client of an ended session
    /// could take over the new one. A wall clock is not sufficient, because it may show the same
    /// time at two starts. Only the low 39 bits are used, so the counter cannot reach the server's
    /// byte.
    pub fn new(server_id: u8, start: u64) -> Self {
        let start = (start & Self::START_MASK) << 16;
        let server = u64::from(server_id) << 56;
        Self {
            next: (server | start).cast_signed(),
        }
    }

    const START_MASK: u64 = (1 << 39) - 1;

    /// Returns the next id.
    ///
    /// Skips 0, and the id that would mark a container if it were an ephemeral owner.
    #[allow(clippy::should_implement_trait, reason = "this generator never ends")]
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
    fn the_first_id_holds_server_and_start() {
        // The id in the recording.
        let mut ids = SessionIds::new(SessionIds::STANDALONE_SERVER, 0x0015_ccec);
        assert_eq!(ids.next(), SessionId(0x0100_0015_ccec_0000));
        assert_eq!(ids.next(), SessionId(0x0100_0015_ccec_0001));
    }

    #[test]
    fn a_start_of_more_than_39_bits_leaves_the_server_byte_alone() {
        let id = SessionIds::new(0xfe, 0x0123_4567_89ab_cdef).next();
        assert_eq!(id.0.cast_unsigned(), 0xfe67_89ab_cdef_0000);
        let mut last = SessionIds::new(0x05, u64::MAX);
        for _ in 0..=0xffff {
            last.next();
        }
        assert_eq!(last.next().0.cast_unsigned() >> 56, 0x05);
    }

    #[test]
    fn the_id_of_containers_and_zero_are_skipped() {
        assert_eq!(SessionIds::new(0x80, 0).next(), SessionId(i64::MIN + 1));
        assert_eq!(SessionIds::new(0, 0).next(), SessionId(1));
        let mut ids = SessionIds { next: i64::MAX };
        assert_eq!(ids.next(), SessionId(i64::MAX));
        assert_eq!(ids.next(), SessionId(i64::MIN + 1));
    }
}
