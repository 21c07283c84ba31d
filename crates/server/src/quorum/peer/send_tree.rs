//! Sending the tree to a learner.

use std::time::{Duration, Instant};

use jute::{Encode, put_str};
use proto::Zxid;
use proto::leader::{LeaderPacket, SNAPSHOT_SIGNATURE};
use proto::packet::QuorumPacket;
use recovery::TreeReader;
use tokio::io::AsyncWrite;

use super::PeerError;
use super::outbox::write_all;
use crate::limits;
use crate::state::ServerState;

/// Writes a SNAP packet with `zxid`, the tree behind it, and the signature. Gives the bytes.
///
/// The tree is held shared for a chunk at a time while transactions go on, so the snapshot is
/// fuzzy: it has everything up to `zxid` and parts of what is sent behind it.
///
/// A term that has ended may be followed by another tree in the same place, to which the cursor
/// means nothing. The connection is about to be closed then.
///
/// # Errors
/// If the connection breaks or stalls, or the tree was replaced.
pub(super) async fn send_tree<W: AsyncWrite + Unpin>(
    state: &ServerState,
    zxid: Zxid,
    stream: &mut W,
    stall: Duration,
) -> Result<u64, PeerError> {
    let begun = Instant::now();
    let mut chunk = Vec::with_capacity(limits::SNAPSHOT_CHUNK_BYTES);
    QuorumPacket::from(LeaderPacket::Snap { zxid }).encode(&mut chunk);
    let mut reader = None;
    let mut sent = 0u64;
    loop {
        let more = {
            let tree = state.tree.read();
            let generation = state.tree_generation();
            let reader = reader.get_or_insert_with(|| TreeReader::new(&tree, generation));
            let read = reader.read(&tree, generation, limits::SNAPSHOT_CHUNK_BYTES, &mut chunk);
            read.map_err(|_| PeerError::TreeReplaced)?
        };
        if !more {
            put_str(Some(SNAPSHOT_SIGNATURE), &mut chunk);
        }
        write_all(stream, &chunk, stall).await?;
        sent += chunk.len() as u64;
        chunk.clear();
        if !more {
            let elapsed_ms = begun.elapsed().as_millis();
            tracing::debug!(%zxid, bytes = sent, elapsed_ms, "snapshot written to a connection");
            return Ok(sent);
        }
    }
}
