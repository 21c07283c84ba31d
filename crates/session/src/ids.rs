//! Where session ids come from.

use proto::SessionId;

/// Gives out session ids: the server's id in the top byte, the start in the next five, a counter
/// that starts at 0 in the last two (and may run into the start's bits).
///
/// Source: SessionTrackerImpl.initializeNextSessionId; differs: the start is a time there, and 0 is
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
    /// `server_id` is the low byte of the server's `myid`. `start` is to be another one at every
    /// start on the same data, or ids repeat. Whoever takes them leaves out those of living
    /// sessions, but a password follows from its id: who still holds a session that is over could
    /// take over the new one. A wall clock does not do, because it may stand at the same time at
    /// each start. Only the low 39 bits are used: no counter gets from there to the server's byte.
    pub fn new(server_id: u8, start: u64) -> Self {
        let start = (start & Self::START_MASK) << 16;
        let server = u64::from(server_id) << 56;
        Self {
            next: (server | start).cast_signed(),
        }
    }

    const START_MASK: u64 = (1 << 39) - 1;

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
    fn the_first_id_holds_server_and_start() {
        // As in the recorded id.
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
    fn the_containers_mark_and_zero_are_skipped() {
        assert_eq!(SessionIds::new(0x80, 0).next(), SessionId(i64::MIN + 1));
        assert_eq!(SessionIds::new(0, 0).next(), SessionId(1));
        let mut ids = SessionIds { next: i64::MAX };
        assert_eq!(ids.next(), SessionId(i64::MAX));
        assert_eq!(ids.next(), SessionId(i64::MIN + 1));
    }
}
