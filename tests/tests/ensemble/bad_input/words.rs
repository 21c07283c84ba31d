//! Packets of peers, valid and invalid, byte by byte. Source: QuorumCnxManager, FastLeaderElection,
//! QuorumPacket.

/// Version of the election handshake.
pub(crate) const HANDSHAKE: i64 = -65536;

/// A builder of bytes in network order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl Bytes {
    pub(crate) fn int(mut self, value: i32) -> Bytes {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn long(mut self, value: i64) -> Bytes {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn raw(mut self, bytes: &[u8]) -> Bytes {
        self.0.extend(bytes);
        self
    }

    /// Appends the length of the bytes, and the bytes.
    pub(crate) fn sized(self, bytes: &[u8]) -> Bytes {
        let length = i32::try_from(bytes.len()).expect("a short text");
        self.int(length).raw(bytes)
    }
}

/// Returns the handshake of an election connection.
pub(crate) fn handshake(sid: i64, address: &str) -> Bytes {
    Bytes::default()
        .long(HANDSHAKE)
        .long(sid)
        .sized(address.as_bytes())
}

/// Returns a notification without a configuration, as from servers before 3.5.
pub(crate) fn notification(state: i32, leader: i64, zxid: i64, round: i64, epoch: i64) -> Bytes {
    let message = Bytes::default()
        .int(state)
        .long(leader)
        .long(zxid)
        .long(round)
        .long(epoch);
    Bytes::default().sized(&message.int(1).0)
}

pub(crate) const REQUEST: i32 = 1;
pub(crate) const PROPOSAL: i32 = 2;
pub(crate) const ACK: i32 = 3;
pub(crate) const PING: i32 = 5;
pub(crate) const REVALIDATE: i32 = 6;
pub(crate) const FOLLOWERINFO: i32 = 11;
pub(crate) const OBSERVERINFO: i32 = 16;
pub(crate) const LEADERINFO: i32 = 17;
pub(crate) const ACKEPOCH: i32 = 18;

/// Returns a quorum packet. `None` is null data.
pub(crate) fn packet(kind: i32, zxid: i64, data: Option<&[u8]>) -> Bytes {
    let packet = Bytes::default().int(kind).long(zxid);
    let packet = match data {
        Some(data) => packet.sized(data),
        None => packet.int(-1),
    };
    // No authinfo.
    packet.int(-1)
}

/// Returns the first packet of a learner, with the epoch that it has accepted.
pub(crate) fn learner_info(kind: i32, sid: i64, protocol: i32, accepted_epoch: i64) -> Bytes {
    let info = Bytes::default().long(sid).int(protocol).long(0);
    packet(kind, accepted_epoch << 32, Some(&info.0))
}
