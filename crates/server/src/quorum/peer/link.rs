//! A learner's connection, on the leader's side.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hosting::{LinkName, Piece, ServerState};
use jute::Limits;
use parking_lot::Mutex;
use replica::{Input, LearnerEvent, Port};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use zab::leader::LinkId;

use super::catch_up::LogCursor;
use super::event::ReadAhead;
use super::link_figures::LinkFigures;
use super::outbox::{Outbox, write_all};
use super::reader::PacketReader;
use super::send_tree::Writing;
use super::{EventSink, PeerError, PeerEvent};
use crate::metrics::Metrics;

/// What the port keeps of a connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) id: LinkId,
    /// The same to the replica.
    pub(super) name: LinkName,
    pub(super) peer: SocketAddr,
    pub(super) outbox: Outbox,
    pub(super) figures: LinkFigures,
    /// Where the log was read last.
    pub(super) cursor: Mutex<Option<LogCursor>>,
    closing: watch::Sender<Closing>,
}

/// How far a connection is from its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closing {
    Open,
    /// What waits is still written; nothing that comes is delivered.
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
            closing: watch::Sender::new(Closing::Open),
        })
    }

    /// Ends its tasks, and with them the connection. Nothing of what waits is written any more.
    pub(super) fn close(&self) {
        self.closing.send_replace(Closing::Closed);
    }

    /// Ends the connection once what waits is written, and delivers nothing from here on. `false` if
    /// the learner is not up to date: nothing that waits is of use to it then, and nothing is done.
    pub(super) fn part(&self) -> bool {
        let parts = self.outbox.finish();
        if parts {
            self.closing.send_replace(Closing::Parting);
        }
        parts
    }

    /// Does `work` unless the link is to be closed before it is done.
    pub(super) async fn while_open<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut closing = self.closing.subscribe();
        tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing != Closing::Open) => None,
            done = work => Some(done),
        }
    }

    /// Does `work` unless the link is closed before it is done. To part takes `stall` at most.
    pub(super) async fn unless_closed<T>(
        &self,
        stall: Duration,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let mut closing = self.closing.subscribe();
        let closed = async {
            let _ = closing.wait_for(|closing| *closing != Closing::Open).await;
            let closed = closing.wait_for(|closing| *closing == Closing::Closed);
            let _ = tokio::time::timeout(stall, closed).await;
        };
        tokio::select! {
            biased;
            () = closed => None,
            done = work => Some(done),
        }
    }

    /// Delivers packets until the connection ends. `asked_last` is told of this one when they hold requests.
    pub(super) async fn read<R: AsyncRead + Unpin>(
        &self,
        stream: R,
        limits: Limits,
        read_ahead: &ReadAhead,
        (sink, asked_last): (&EventSink, &AtomicU64),
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
                asked_last.store(self.id.0, Ordering::Relaxed);
            }
            sink(PeerEvent::packets(input, permit));
        }
    }

    /// Packets leave that have waited for so long.
    pub(super) fn note_waited(&self, waited_ms: u64, metrics: &Metrics) {
        if let Some(learner) = self.figures.learner() {
            let times = &metrics.learner_handler_qp_time_ms;
            times.record(&learner.key, waited_ms);
        }
    }

    /// Writes what is queued until the connection ends, or all is written and nothing more comes.
    pub(super) async fn write<W: AsyncWrite + Unpin>(
        &self,
        mut stream: W,
        state: &ServerState,
        stall: Duration,
        (sink, metrics): (&EventSink, &Metrics),
    ) -> Result<(), PeerError> {
        let mut writing = Writing::new(state);
        while let Some(piece) = writing.next(&self.outbox).await? {
            if let Piece::Packets { waited_ms } = piece {
                self.note_waited(waited_ms, metrics);
            }
            write_all(&mut stream, writing.bytes(), stall).await?;
            if writing.has_written(piece) {
                sink(self.name.tree_sent().into());
            }
        }
        Ok(stream.shutdown().await?)
    }
}

/// Takes what comes until the stream ends. A socket that is closed before its input is read resets the
/// connection, and what was written last may never arrive.
pub(super) async fn discard<R: AsyncRead + Unpin>(stream: &mut R) {
    let mut some = vec![0; 4096];
    while matches!(stream.read(&mut some).await, Ok(bytes) if bytes > 0) {}
}
