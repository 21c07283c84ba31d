//! `snapshot`: takes a snapshot and sends it. Source: SnapshotCommand.

use std::fs::File;
use std::io::{self, Read};

use bytes::Bytes;
use hyper::{Response, StatusCode};

use super::Admin;
use crate::answer::Answer;
use crate::commands::Call;
use crate::http::{Activity, Pieces, ResponseBody, Source, respond, with_head};
use crate::limits;
use crate::served::Served;

/// Content type of a snapshot.
pub(super) const BINARY: &str = "application/octet-stream";

impl Admin {
    /// Takes and sends a snapshot. The checks run in Java's order.
    pub(super) async fn snapshot(
        &self,
        served: &Served,
        name: &str,
        call: &Call,
        activity: &Activity,
    ) -> Response<ResponseBody> {
        let refuse = |status| respond(Answer::refused(status).under(name, None));
        if !self.config.admin.snapshot_enabled {
            return refuse(StatusCode::SERVICE_UNAVAILABLE);
        }
        let metrics = &served.view.metrics();
        if !self.config.storage.serialize_last_processed_zxid {
            tracing::warn!(
                "snapshot refused: snapshots through the admin server require serializeLastProcessedZxid.enabled=true"
            );
            return refuse(StatusCode::INTERNAL_SERVER_ERROR);
        }
        if !self.limits.lock().snapshot.allow(self.started.elapsed()) {
            metrics.snapshot_rate_limited_count.inc();
            return refuse(StatusCode::TOO_MANY_REQUESTS);
        }
        let at_work = activity.begin();
        let taken = (served.operations.take_snapshot)().await;
        drop(at_work);
        let taken = match taken {
            Ok(taken) => taken,
            Err(reason) => {
                tracing::error!(reason, "cannot take a snapshot for the admin server");
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
            let reading = Reading {
                file: taken.file,
                left: taken.len,
            };
            let body = Pieces::of(reading, Some(taken.len), &self.workers, activity);
            return with_head(StatusCode::OK, headers, Some(BINARY), body);
        }
        let mut answer = Answer::done();
        answer.headers = headers;
        respond(answer.under(name, None))
    }
}

/// File that is read from its start, and the number of remaining bytes.
struct Reading {
    file: File,
    left: u64,
}

impl Source for Reading {
    fn next(&mut self) -> io::Result<Option<Bytes>> {
        blocking::mark("read a snapshot");
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let mut piece = vec![0; left.min(limits::HTTP_PIECE_BYTES)];
        if piece.is_empty() {
            return Ok(None);
        }
        self.file.read_exact(&mut piece)?;
        self.left -= piece.len() as u64;
        Ok(Some(piece.into()))
    }
}
