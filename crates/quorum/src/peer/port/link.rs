//! Learner's connection on the leader's side.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use host::{LinkName, Piece, ServerState};
use jute::Limits;
use metrics::Metrics;
use parking_lot::Mutex;
use replica::{Input, LearnerEvent, Port};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use zab::leader::LinkId;

use super::catch_up::LogCursor;
use super::link_figures::LinkFigures;
use super::send_tree::TreeWriter;
use crate::peer::error::PeerError;
use crate::peer::event::{PeerEvent, PeerSink, ReadAhead};
use crate::peer::outbox::{Outbox, write_all};
use crate::peer::reader::PacketReader;

/// State of a connection to the port.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) id: LinkId,
    /// Name of the connection in the replica.
    pub(super) name: LinkName,
    pub(super) peer: SocketAddr,
    pub(super) outbox: Outbox,
    pub(super) figures: LinkFigures,
    /// Position after the last read from the log.
    pub(super) cursor: Mutex<Option<LogCursor>>,
    closing: watch::Sender<ClosePhase>,
}

/// Phase of the end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClosePhase {
    Open,
    /// The connection is closing. Waiting output is still written, but input is no longer
    /// delivered.
    Parting,
    Closed,
}

impl Link {
    pub(super) fn new(port: Port, id: LinkId, peer: SocketAddr) -> Arc<Self> {
        Arc::new(Self {
            id,
            name: LinkName::Learner(port, id),
            peer,
            outbox: Outbox::of_learner(),
            figures: LinkFigures::new(),
            cursor: Mutex::new(None),
            closing: watch::Sender::new(ClosePhase::Open),
        })
    }

    /// Ends the connection and its tasks. Waiting output is dropped.
    pub(super) fn close(&self) {
        self.closing.send_replace(ClosePhase::Closed);
    }

    /// Ends the connection after waiting output has been written. Input is not delivered from now
    /// on. Returns `false` without effect if the learner is not synchronised, because the waiting
    /// output is then useless to it.
    pub(super) fn close_after_flush(&self) -> bool {
        let parts = self.outbox.finish();
        if parts {
            self.closing.send_replace(ClosePhase::Parting);
        }
        parts
    }

    /// Returns the result of `work`, or `None` if the link starts closing first.
    pub(super) async fn while_open<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut closing = self.closing.subscribe();
        tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing != ClosePhase::Open) => None,
            done = work => Some(done),
        }
    }

    /// Returns the result of `work`, or `None` if the link is closed first. The phase after
    /// [`close_after_flush`](Self::close_after_flush) takes at most `stall`.
    pub(super) async fn unless_closed<T>(
        &self,
        stall: Duration,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let mut closing = self.closing.subscribe();
        let closed = async {
            let _ = closing
                .wait_for(|closing| *closing != ClosePhase::Open)
                .await;
            let closed = closing.wait_for(|closing| *closing == ClosePhase::Closed);
            let _ = tokio::time::timeout(stall, closed).await;
        };
        tokio::select! {
            biased;
            () = closed => None,
            done = work => Some(done),
        }
    }

    /// Delivers packets until the connection ends. Stores this link in `latest_requester` when
    /// packets contain requests.
    pub(super) async fn read<R: AsyncRead + Unpin>(
        &self,
        stream: R,
        limits: Limits,
        read_ahead: &ReadAhead,
        sink: &PeerSink,
        latest_requester: &AtomicU64,
    ) -> PeerError {
        let mut reader = PacketReader::of_learner(self.name, stream, limits);
        loop {
            let (input, bytes) = match reader.read().await {
                Ok(packets) => packets,
                Err(error) => return error,
            };
            let permit = read_ahead.take(bytes).await;
            if let Input::Learner(_, LearnerEvent::Packets { packets, .. }) = &input
                && self.figures.received(packets)
            {
                latest_requester.store(self.id.0, Ordering::Relaxed);
            }
            sink(PeerEvent::packets(input, permit));
        }
    }

    /// Records the time for which the packets that are sent now have waited.
    pub(super) fn note_waited(&self, waited_ms: u64, metrics: &Metrics) {
        if let Some(learner) = self.figures.learner() {
            let times = &metrics.learner_handler_qp_time_ms;
            times.record(&learner.key, waited_ms);
        }
    }

    /// Writes the queue until the connection ends, or until the queue is finished and everything
    /// has been written.
    pub(super) async fn write<W: AsyncWrite + Unpin>(
        &self,
        mut stream: W,
        state: &ServerState,
        stall: Duration,
        sink: &PeerSink,
        metrics: &Metrics,
    ) -> Result<(), PeerError> {
        let mut writing = TreeWriter::new(state);
        while let Some(piece) = writing.next(&self.outbox).await? {
            if let Piece::Packets { waited_ms } = piece {
                self.note_waited(waited_ms, metrics);
            }
            write_all(&mut stream, writing.bytes(), stall).await?;
            if writing.note_written(piece) {
                sink(self.name.tree_sent().into());
            }
        }
        Ok(stream.shutdown().await?)
    }
}

/// Reads and discards input until the stream ends. If a socket is closed with unread input, the
/// system resets the connection, and the last output may be lost.
pub(super) async fn discard<R: AsyncRead + Unpin>(stream: &mut R) {
    let mut some = vec![0; 4096];
    while matches!(stream.read(&mut some).await, Ok(bytes) if bytes > 0) {}
}
