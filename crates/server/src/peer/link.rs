//! A learner's connection, on the leader's side.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use jute::Limits;
use parking_lot::Mutex;
use proto::learner::LearnerPacket;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use zab::leader::LinkId;

use super::catch_up::LogCursor;
use super::event::Rooms;
use super::outbox::{Outbox, write_packets};
use super::reader::PacketReader;
use super::send_tree::send_tree;
use super::{EventSink, PeerError, PeerEvent};
use crate::shared::Shared;

/// What the port keeps of a connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) id: LinkId,
    pub(super) peer: SocketAddr,
    pub(super) outbox: Outbox,
    /// Where the log was read last.
    pub(super) cursor: Mutex<Option<LogCursor>>,
    closing: watch::Sender<bool>,
}

impl Link {
    pub(super) fn new(id: LinkId, peer: SocketAddr) -> Arc<Self> {
        Arc::new(Self {
            id,
            peer,
            outbox: Outbox::of_learner(),
            cursor: Mutex::new(None),
            closing: watch::Sender::new(false),
        })
    }

    /// Ends its tasks, and with them the connection. Nothing of what waits is written any more.
    pub(super) fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Does `work` unless the link is closed before it is done.
    pub(super) async fn unless_closed<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut closing = self.closing.subscribe();
        tokio::select! {
            biased;
            _ = closing.wait_for(|is_closing| *is_closing) => None,
            done = work => Some(done),
        }
    }

    /// Delivers packets until the connection ends.
    pub(super) async fn read<R: AsyncRead + Unpin>(
        &self,
        stream: R,
        limits: Limits,
        sink: &EventSink,
    ) -> PeerError {
        let mut reader = PacketReader::new(stream, limits);
        let rooms = Rooms::new();
        let link = self.id;
        loop {
            let batch = match reader.read::<LearnerPacket>(|_| false).await {
                Ok(batch) => batch,
                Err(error) => return error,
            };
            let room = rooms.take(batch.bytes).await;
            let packets = batch.packets;
            sink(PeerEvent::LearnerPackets {
                link,
                packets,
                room,
            });
        }
    }

    /// Writes what is queued until the connection ends.
    pub(super) async fn write<W: AsyncWrite + Unpin>(
        &self,
        mut stream: W,
        shared: &Shared,
        stall: Duration,
        sink: &EventSink,
    ) -> PeerError {
        loop {
            let sent = match write_packets(&self.outbox, &mut stream, stall).await {
                Ok(zxid) => send_tree(shared, zxid, &mut stream, stall).await,
                Err(error) => return error,
            };
            if let Err(error) = sent {
                return error;
            }
            sink(PeerEvent::SnapshotSent { link: self.id });
        }
    }
}
