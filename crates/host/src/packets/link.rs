//! Inputs for the replica from a connection between members.

use std::io;
use std::sync::Arc;

use bytes::{Buf, BytesMut};
use jute::Limits;
use proto::Zxid;
use proto::leader::{LeaderPacket, SNAPSHOT_SIGNATURE};
use replica::{Input, LeaderEvent, LearnerEvent, Port};
use tree::{Tree, TreeSettings};
use zab::leader::LinkId;

use super::{Batch, PacketBuffer, TreeDetector};
use crate::learners::read_tree;

/// Identity of a connection to another member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkName {
    /// A learner that is connected to this port.
    Learner(Port, LinkId),
    /// The leader, with the number in the effect that requested the connection.
    Leader(u64),
}

impl LinkName {
    /// Returns the input for an opened connection.
    pub fn connected(self) -> Input {
        match self {
            Self::Learner(port, link) => Input::Learner(port, LearnerEvent::Connected { link }),
            Self::Leader(attempt) => of_leader(attempt, LeaderEvent::Connected),
        }
    }

    /// Returns the input for a connection that was closed or could not be opened.
    pub fn closed(self) -> Input {
        match self {
            Self::Learner(port, link) => Input::Learner(port, LearnerEvent::Closed { link }),
            Self::Leader(attempt) => of_leader(attempt, LeaderEvent::Closed),
        }
    }

    /// Returns the input for a requested tree that has been sent.
    pub fn tree_sent(self) -> Input {
        match self {
            Self::Learner(port, link) => Input::Learner(port, LearnerEvent::SnapshotSent { link }),
            // A tree is never sent to a leader.
            Self::Leader(_) => self.closed(),
        }
    }

    /// Returns the input for an arrived part of a tree.
    pub fn tree_progress(self) -> Input {
        self.by_leader(LeaderEvent::SnapshotProgress)
    }

    /// Returns the input for an arrived tree; `None` if the tree cannot be used.
    pub fn tree_received(self, tree: Option<Tree>) -> Input {
        self.by_leader(match tree {
            Some(tree) => LeaderEvent::SnapshotReceived(Box::new(tree)),
            None => LeaderEvent::SnapshotDamaged,
        })
    }

    fn by_leader(self, event: LeaderEvent) -> Input {
        match self {
            Self::Leader(attempt) => of_leader(attempt, event),
            // A learner does not send a tree.
            Self::Learner(..) => self.closed(),
        }
    }
}

fn of_leader(attempt: u64, event: LeaderEvent) -> Input {
    Input::Leader { attempt, event }
}

/// Reader of a connection, for packets and for a leader's tree at its position among them.
#[derive(Debug)]
pub struct LinkReader {
    of: LinkName,
    /// Received bytes.
    pub buffer: PacketBuffer,
    tree_detector: TreeDetector,
}

/// A leader's tree.
#[derive(Debug)]
pub struct ReceivedTree {
    /// Zxid of the SNAP packet, which is the last zxid of the tree.
    pub zxid: Zxid,
    /// Received tree.
    pub tree: Tree,
    /// Size of the tree on the wire, without its signature, bytes.
    pub bytes: u64,
}

impl LinkReader {
    /// Creates a reader for a new connection.
    pub fn new(of: LinkName, buffer: PacketBuffer) -> Self {
        let tree_detector = TreeDetector::default();
        Self {
            of,
            buffer,
            tree_detector,
        }
    }

    /// Returns the identity of the connection.
    pub fn of(&self) -> LinkName {
        self.of
    }

    /// Removes and returns the complete packets with their size on the wire. Returns `None` if no
    /// complete packet has arrived, or if a tree is next.
    pub fn take(&mut self) -> Option<(Input, usize)> {
        if self.is_at_tree() {
            return None;
        }
        match self.of {
            LinkName::Learner(port, link) => {
                let (packets, bytes) = non_empty(self.buffer.take(&mut |_| false))?;
                let event = LearnerEvent::Packets { link, packets };
                Some((Input::Learner(port, event), bytes))
            }
            LinkName::Leader(attempt) => {
                let tree_detector = &mut self.tree_detector;
                let is_last = &mut |packet: &LeaderPacket| tree_detector.ends_packets(packet);
                let (packets, bytes) = non_empty(self.buffer.take(is_last))?;
                Some((of_leader(attempt, LeaderEvent::Packets(packets)), bytes))
            }
        }
    }

    /// Returns whether a tree is next. Receive it after the replica requests it.
    pub fn is_at_tree(&self) -> bool {
        self.tree_detector.is_at_tree()
    }

    /// Reads the next tree and its signature. `fill` appends received bytes and returns their
    /// number, or 0 at the end of the stream. Only the bytes of one read are in memory at a time.
    ///
    /// # Errors
    /// If the bytes are not a tree, the signature is missing, or `fill` fails.
    pub fn receive_tree(
        &mut self,
        fill: impl FnMut(&mut BytesMut) -> io::Result<usize>,
        limits: Limits,
        settings: Arc<TreeSettings>,
    ) -> Result<ReceivedTree, String> {
        let zxid = self.tree_detector.take_tree().unwrap_or(Zxid::ZERO);
        let mut body = TreeBytes {
            buffer: self.buffer.bytes(),
            fill,
            returned: 0,
            last: BytesMut::new(),
        };
        let (tree, bytes) = read_tree(&mut body, zxid, limits, settings)?;
        body.put_back_after(bytes);
        body.take_signature()?;
        Ok(ReceivedTree { zxid, tree, bytes })
    }
}

fn non_empty<P>(batch: Batch<P>) -> Option<(Vec<P>, usize)> {
    let Batch { packets, bytes } = batch;
    (!packets.is_empty()).then_some((packets, bytes))
}

/// Reader that returns the bytes of a tree.
struct TreeBytes<'a, F> {
    buffer: &'a mut BytesMut,
    fill: F,
    returned: u64,
    /// Bytes of the last read.
    last: BytesMut,
}

impl<F: FnMut(&mut BytesMut) -> io::Result<usize>> TreeBytes<'_, F> {
    /// Puts back the bytes read after `end`.
    fn put_back_after(&mut self, end: u64) {
        let unread = usize::try_from(self.returned.saturating_sub(end)).unwrap_or(usize::MAX);
        let mut last = std::mem::take(&mut self.last);
        last.advance(last.len().saturating_sub(unread));
        last.unsplit(std::mem::take(self.buffer));
        *self.buffer = last;
    }

    /// Checks the signature. Its position after the tree shows that both sides agree on the tree's
    /// end.
    fn take_signature(&mut self) -> Result<(), String> {
        const LEN: usize = SNAPSHOT_SIGNATURE.len();
        let len = u32::from_be_bytes(self.take_array()?);
        let is_right = usize::try_from(len) == Ok(LEN)
            && self.take_array::<LEN>()? == *SNAPSHOT_SIGNATURE.as_bytes();
        if is_right {
            Ok(())
        } else {
            Err("the leader's snapshot does not end with its signature".to_owned())
        }
    }

    fn take_array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        loop {
            if let Some(bytes) = self.buffer.first_chunk().copied() {
                self.buffer.advance(N);
                return Ok(bytes);
            }
            let filled = (self.fill)(self.buffer).map_err(|error| error.to_string())?;
            if filled == 0 {
                let text = "the connection ended within the signature of the leader's snapshot";
                return Err(text.to_owned());
            }
        }
    }
}

impl<F: FnMut(&mut BytesMut) -> io::Result<usize>> io::Read for TreeBytes<'_, F> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.buffer.is_empty() {
            self.last.clear();
            (self.fill)(self.buffer)?;
        }
        let len = self.buffer.len().min(out.len());
        self.last = self.buffer.split_to(len);
        if let Some(out) = out.get_mut(..len) {
            out.copy_from_slice(&self.last);
        }
        self.returned += len as u64;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use replica::State as _;
    use replica::session::SessionIds;

    use super::*;
    use crate::ServerState;
    use crate::packets::{LinkWriter, PacketBatch, PacketQueue, Piece, QueueBounds};

    const BOUNDS: QueueBounds = QueueBounds {
        bytes_max: 1 << 20,
        write_bytes: 1 << 10,
    };
    const ZXID: Zxid = Zxid(0x1_0000_0007);

    fn state() -> ServerState {
        let tree = Tree::new(Arc::new(TreeSettings::new(testkit::LIMITS)));
        ServerState::new(tree, 2000, SessionIds::new(1, 1))
    }

    fn reader(of: LinkName) -> LinkReader {
        LinkReader::new(of, PacketBuffer::new(testkit::LIMITS, |_| false))
    }

    /// Returns the output of a leader: a tree and a later packet.
    fn written(state: &ServerState) -> Vec<(Piece, Vec<u8>)> {
        let mut queue = PacketQueue::of_learner(BOUNDS);
        queue.push_snapshot(ZXID, 0);
        let mut batch = PacketBatch::default();
        let zxid = Zxid(0x2_0000_0000);
        batch.add(&LeaderPacket::NewLeader { zxid, config: None }.into());
        queue.push(&batch, || 0).unwrap();
        let (mut writer, mut pieces) = (LinkWriter::default(), Vec::new());
        loop {
            let mut bytes = Vec::new();
            let take = |bytes: &mut Vec<u8>| queue.take(bytes, || 0);
            match writer.next(&mut bytes, take, state, 64).unwrap() {
                Some(piece) => pieces.push((piece, bytes)),
                None => return pieces,
            }
        }
    }

    #[test]
    fn packets_after_a_tree_are_read() {
        let state = state();
        let mut bytes = Vec::new();
        for (_, piece) in written(&state) {
            bytes.extend(piece);
        }
        let mut reader = reader(LinkName::Leader(3));
        // All bytes after the SNAP packet wait for the replica.
        reader.buffer.bytes().extend_from_slice(&bytes[..40]);
        let (input, _) = reader.take().unwrap();
        let Input::Leader { attempt: 3, event } = input else {
            panic!("{input:?}");
        };
        assert!(matches!(event, LeaderEvent::Packets(packets) if packets.len() == 1));
        assert!(reader.is_at_tree() && reader.take().is_none());
        let mut rest = bytes[40..].chunks(100);
        let fill = |buffer: &mut BytesMut| {
            let some = rest.next().unwrap_or_default();
            buffer.extend_from_slice(some);
            Ok(some.len())
        };
        let settings = Arc::new(TreeSettings::new(testkit::LIMITS));
        let received = reader.receive_tree(fill, testkit::LIMITS, settings);
        let ReceivedTree { zxid, tree, .. } = received.unwrap();
        assert_eq!((zxid, tree.last_zxid()), (ZXID, ZXID));
        assert_eq!(tree.node_count(), state.tree().node_count());
        rest.for_each(|some| reader.buffer.bytes().extend_from_slice(some));
        let (input, _) = reader.take().unwrap();
        assert!(matches!(input, Input::Leader { .. }), "{input:?}");
        assert!(!reader.is_at_tree() && reader.buffer.bytes().is_empty());
    }

    #[test]
    fn a_tree_without_its_signature_is_refused() {
        let pieces = written(&state());
        let is_of_tree = |piece: &Piece| !matches!(piece, Piece::Packets { .. });
        let bytes = pieces.into_iter().filter(|(piece, _)| is_of_tree(piece));
        let bytes: Vec<u8> = bytes.flat_map(|(_, bytes)| bytes).collect();
        let len = bytes.len();
        let receive = |bytes: &[u8]| {
            let mut reader = reader(LinkName::Leader(1));
            reader.buffer.bytes().extend_from_slice(bytes);
            reader.take().unwrap();
            let settings = Arc::new(TreeSettings::new(testkit::LIMITS));
            let received = reader.receive_tree(|_| Ok(0), testkit::LIMITS, settings);
            received.map(|received| received.zxid)
        };
        assert_eq!(receive(&bytes), Ok(ZXID));
        let cut = receive(&bytes[..len - 1]).unwrap_err();
        assert!(cut.contains("ended within"), "{cut}");
        let mut wrong = bytes.clone();
        wrong[len - 1] ^= 1;
        let wrong = receive(&wrong).unwrap_err();
        assert!(wrong.contains("signature"), "{wrong}");
    }
}
