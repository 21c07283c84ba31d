//! `snapshot`: takes one, and sends it. Source: SnapshotCommand.

use std::fs::File;
use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};
use hyper::{Response, StatusCode};
use monitoring::admin::{Answer, Call};
use tokio::sync::mpsc;

use super::super::http::{ResponseBody, respond, with_head};
use super::Admin;
use super::served::Served;
use crate::disk::Taken;
use crate::{clock, limits};

/// The type of a snapshot.
pub(super) const BINARY: &str = "application/octet-stream";

impl Admin {
    /// The checks are in Java's order.
    pub(super) async fn snapshot(
        &self,
        served: &Served,
        name: &str,
        call: &Call,
    ) -> Response<ResponseBody> {
        let refuse = |status| respond(Answer::refused(status).under(name, None));
        if !self.config.admin.snapshot_enabled {
            return refuse(StatusCode::SERVICE_UNAVAILABLE);
        }
        let metrics = &served.clients.metrics;
        if !self.config.storage.serialize_last_processed_zxid {
            tracing::warn!(
                "no snapshot by the admin server: it needs serializeLastProcessedZxid.enabled"
            );
            return refuse(StatusCode::INTERNAL_SERVER_ERROR);
        }
        if !self.limits.lock().snapshot.allow(clock::monotonic()) {
            metrics.snapshot_rate_limited_count.inc();
            return refuse(StatusCode::TOO_MANY_REQUESTS);
        }
        let taken = match served.snapshots.take().await {
            Ok(taken) => taken,
            Err(reason) => {
                tracing::error!(reason, "no snapshot by the admin server");
                metrics.snapshot_error_count.inc();
                return refuse(StatusCode::INTERNAL_SERVER_ERROR);
            }
        };
        let streams = call
            .parameter("streaming")
            .is_none_or(|text| text.eq_ignore_ascii_case("true"));
        let headers = vec![
            ("last_zxid", format!("0x{:x}", taken.zxid.0)),
            ("snapshot_size", taken.len.to_string()),
        ];
        if streams {
            let body = Pieces::of(taken).boxed_unsync();
            return with_head(StatusCode::OK, headers, Some(BINARY), body);
        }
        let mut answer = Answer::done();
        answer.headers = headers;
        respond(answer.under(name, None))
    }
}

/// A file, piece by piece, at the pace of whoever takes it.
struct Pieces {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    left: u64,
}

impl Pieces {
    fn of(taken: Taken) -> Self {
        let (sender, pieces) = mpsc::channel(limits::SNAPSHOT_PIECES_MAX);
        let left = taken.len;
        // Ends when all is read, or nobody takes it any more.
        blocking::run(move || read(taken.file, left, &sender));
        Self { pieces, left }
    }
}

fn read(mut file: File, len: u64, to: &mpsc::Sender<io::Result<Bytes>>) {
    blocking::mark("read a snapshot");
    let mut left = len;
    while left > 0 {
        let wanted = usize::try_from(left).unwrap_or(usize::MAX);
        let mut piece = vec![0; wanted.min(limits::SNAPSHOT_PIECE_BYTES)];
        let read = file.read_exact(&mut piece).map(|()| Bytes::from(piece));
        left -= read.as_ref().map_or(left, |piece| piece.len() as u64);
        if to.blocking_send(read).is_err() {
            return;
        }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let polled = self.pieces.poll_recv(cx);
        polled.map(|piece| {
            let piece = piece?;
            if let Ok(bytes) = &piece {
                self.left -= bytes.len() as u64;
            }
            Some(piece.map(Frame::data))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
