//! Receiving a leader's tree.
//!
//! The bytes are taken off the connection by a thread that may block, straight into a tree that
//! nobody else sees: one chunk of them is in memory at a time. The server's own tree stays as it is
//! until the whole is there.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Buf, BytesMut};
use jute::Limits;
use proto::Zxid;
use proto::leader::SNAPSHOT_SIGNATURE;
use recovery::Restore;
use storage::read_body;
use tokio::io::AsyncRead;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tree::{Tree, TreeSettings};

use super::PeerError;
use super::reader::PacketReader;
use crate::limits;

/// What is needed to make a tree of what comes.
pub(super) struct Receiving {
    pub(super) zxid: Zxid,
    pub(super) limits: Limits,
    pub(super) tree: Arc<TreeSettings>,
    /// Is told some times a second that bytes have come.
    pub(super) progress: Box<dyn Fn() + Send>,
    pub(super) closing: watch::Receiver<bool>,
}

/// Reads the tree and the signature behind it. The reader then stands at the next packet.
///
/// # Errors
/// If the connection ends or breaks, what comes is no tree, or the signature is missing.
pub(super) async fn receive<R>(
    reader: PacketReader<R>,
    receiving: Receiving,
) -> Result<(PacketReader<R>, Tree), PeerError>
where
    R: AsyncRead + Unpin + Send + 'static,
{
    let begun = Instant::now();
    let runtime = Handle::current();
    let zxid = receiving.zxid;
    let loading = tokio::task::spawn_blocking(move || load(reader, receiving, runtime));
    let loaded = loading.await;
    let (mut reader, tree, bytes) =
        loaded.map_err(|error| PeerError::Snapshot(format!("loading it broke off: {error}")))??;
    check_signature(&mut reader).await?;
    let elapsed_ms = begun.elapsed().as_millis();
    let (znodes, sessions) = (tree.node_count(), tree.sessions().len());
    tracing::info!(%zxid, znodes, sessions, bytes, elapsed_ms, "snapshot received from the leader");
    Ok((reader, tree))
}

fn load<R: AsyncRead + Unpin>(
    reader: PacketReader<R>,
    receiving: Receiving,
    runtime: Handle,
) -> Result<(PacketReader<R>, Tree, u64), PeerError> {
    let mut restore = Restore::new(receiving.tree);
    let mut body = Body {
        reader,
        runtime,
        closing: receiving.closing,
        progress: receiving.progress,
        reported: Instant::now(),
        handed: 0,
        last: BytesMut::new(),
    };
    let name = Path::new("the leader's snapshot");
    let no_good = |reason: String| PeerError::Snapshot(reason);
    let info = read_body(&mut body, name, receiving.limits, &mut restore)
        .map_err(|error| no_good(error.to_string()))?;
    let tree = restore
        .finish(receiving.zxid)
        .map_err(|error| no_good(format!("the leader's snapshot: {error}")))?;
    Ok((body.into_reader(info.content_end), tree, info.content_end))
}

/// Its place behind everything else shows that both sides agree on where the tree ends.
async fn check_signature<R: AsyncRead + Unpin>(
    reader: &mut PacketReader<R>,
) -> Result<(), PeerError> {
    const LEN: usize = SNAPSHOT_SIGNATURE.len();
    let len = u32::from_be_bytes(reader.take_array().await?);
    if usize::try_from(len) == Ok(LEN)
        && reader.take_array::<LEN>().await? == *SNAPSHOT_SIGNATURE.as_bytes()
    {
        return Ok(());
    }
    let reason = "the leader's snapshot does not end with its signature";
    Err(PeerError::Snapshot(reason.to_owned()))
}

/// The stream as a thread that may block reads it.
struct Body<R> {
    reader: PacketReader<R>,
    runtime: Handle,
    closing: watch::Receiver<bool>,
    progress: Box<dyn Fn() + Send>,
    reported: Instant,
    handed: u64,
    /// What the last read was given.
    last: BytesMut,
}

impl<R: AsyncRead + Unpin> Body<R> {
    /// Puts back what was read behind `end`.
    fn into_reader(self, end: u64) -> PacketReader<R> {
        let Self {
            mut reader,
            handed,
            mut last,
            ..
        } = self;
        let unread = usize::try_from(handed.saturating_sub(end)).unwrap_or(usize::MAX);
        last.advance(last.len().saturating_sub(unread));
        last.unsplit(std::mem::take(reader.buffer()));
        *reader.buffer() = last;
        reader
    }
}

impl<R: AsyncRead + Unpin> io::Read for Body<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let closing = &mut self.closing;
        if self.reader.buffer().is_empty() {
            self.last.clear();
            let reader = &mut self.reader;
            let filled = self.runtime.block_on(async {
                tokio::select! {
                    biased;
                    _ = closing.wait_for(|is_closing| *is_closing) => Err(PeerError::ClosedHere),
                    filled = reader.fill() => filled,
                }
            });
            filled.map_err(|error| match error {
                PeerError::Io(error) => error,
                other => io::Error::other(other.to_string()),
            })?;
        }
        if self.reported.elapsed() >= limits::SNAPSHOT_PROGRESS_EVERY {
            self.reported = Instant::now();
            (self.progress)();
        }
        let buffer = self.reader.buffer();
        let len = buffer.len().min(out.len());
        self.last = buffer.split_to(len);
        if let Some(out) = out.get_mut(..len) {
            out.copy_from_slice(&self.last);
        }
        self.handed += len as u64;
        Ok(len)
    }
}
