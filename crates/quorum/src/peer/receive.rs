//! Loader of a leader's tree, which arrives over a connection.
//!
//! A thread that may block reads the bytes directly into a separate tree, so only one read is
//! buffered at a time. The server's own tree stays unchanged until the new tree is complete.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use host::ReceivedTree;
use jute::Limits;
use tokio::io::AsyncRead;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tree::{Tree, TreeSettings};

use super::error::PeerError;
use super::reader::PacketReader;
use crate::limits;

/// Context for loading a tree.
pub(super) struct Receiving {
    pub(super) limits: Limits,
    pub(super) tree: Arc<TreeSettings>,
    pub(super) runtime: Handle,
    /// Callback that runs several times per second while bytes arrive.
    pub(super) progress: Box<dyn Fn() + Send>,
    pub(super) reported: Instant,
    pub(super) closing: watch::Receiver<bool>,
}

/// Reads the tree and the signature after it. The returned reader is positioned at the next packet.
///
/// # Errors
/// If the connection ends or breaks, the bytes are not a tree, or the signature is missing.
pub(super) async fn receive<R>(
    mut reader: PacketReader<R>,
    receiving: Receiving,
) -> Result<(PacketReader<R>, Tree), PeerError>
where
    R: AsyncRead + Unpin + Send + 'static,
{
    let begun = Instant::now();
    let loading = blocking::run(move || {
        let received = reader.receive_tree(receiving)?;
        Ok::<_, PeerError>((reader, received))
    });
    let loaded = loading.await;
    let (reader, received) = loaded
        .map_err(|error| PeerError::Snapshot(format!("cannot load the snapshot: {error}")))??;
    let ReceivedTree { zxid, tree, bytes } = received;
    let elapsed_ms = begun.elapsed().as_millis();
    let (znodes, sessions) = (tree.node_count(), tree.sessions().len());
    tracing::info!(%zxid, znodes, sessions, bytes, elapsed_ms, "snapshot received from the leader");
    Ok((reader, tree))
}

impl Receiving {
    /// Waits for more bytes, and reports progress. Fails if the connection must be closed.
    pub(super) fn wait_for(
        &mut self,
        filling: impl Future<Output = io::Result<usize>>,
    ) -> io::Result<usize> {
        let closing = &mut self.closing;
        let filled = self.runtime.block_on(async {
            tokio::select! {
                biased;
                _ = closing.wait_for(|is_closing| *is_closing) => Err(io::Error::other(PeerError::ClosedHere)),
                filled = filling => filled,
            }
        });
        if self.reported.elapsed() >= limits::SNAPSHOT_PROGRESS_EVERY {
            self.reported = Instant::now();
            (self.progress)();
        }
        filled
    }
}
