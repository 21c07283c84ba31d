//! Parser that splits the bytes of a socket into batches of decoded requests.

use std::collections::VecDeque;

use admission::{BudgetExceeded, LargeRequest, LargeRequests, MemoryReservation};
use bytes::{Buf, Bytes, BytesMut};
use metrics::Metrics;
use replica::connection::{self, IncomingRequest, RequestKind, decode_into};

use crate::connection::socket::{HeldMemory, Socket};
use crate::limits;
use crate::settings::Settings;

/// Reservations for a large frame.
pub(crate) struct Extra {
    pub(crate) large: Option<LargeRequest>,
    /// Memory reservation for the frame, if it is long.
    pub(crate) frame_reservation: Option<MemoryReservation>,
}

/// Requests decoded from one read of the socket, in order.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) requests: VecDeque<IncomingRequest<Extra>>,
    /// Number of writes, which always need a permit of the pipeline.
    pub(crate) writes: usize,
    /// Number of permits taken for the requests.
    pub(crate) permits: usize,
    /// Whether the requests have waited too long for their permits and are refused.
    pub(crate) is_late: bool,
    /// Total size of the requests' frames in bytes, including length prefixes.
    pub(crate) bytes: usize,
    /// Size in bytes of the next frame without its prefix, if no memory could be reserved for it.
    pub(crate) waits_for_room: Option<usize>,
    /// Fault in the bytes after the requests. The connection must close after the requests have
    /// been answered.
    pub(crate) broken: Option<FrameFault>,
    /// Last request that a budget refused. It is kept until the refusal has been logged.
    pub(crate) refused: Option<BudgetExceeded>,
}

/// Reason why the bytes of a connection are invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameFault {
    /// The length is negative or above `jute.maxbuffer`.
    #[error("frame length {len} is not between 0 and {limit} (jute.maxbuffer)")]
    Length { len: i32, limit: usize },
    /// With this request, the large requests in progress would exceed `largeRequestMaxBytes`.
    #[error(
        "large requests in progress and this request of {len} bytes exceed largeRequestMaxBytes"
    )]
    LargeRequestsFull { len: usize },
    /// The frame or its credentials cannot be decoded.
    #[error(transparent)]
    Undecodable(#[from] connection::FrameFault),
}

impl Batch {
    /// Returns whether requests of the batch may need lines in the audit log.
    pub(crate) fn is_audited(&self) -> bool {
        let is_undecodable =
            |next: &IncomingRequest<Extra>| matches!(next.kind, RequestKind::Undecodable(_));
        self.writes > 0 || self.requests.iter().any(is_undecodable)
    }

    /// Returns the memory that the requests hold.
    pub(crate) fn held_memory(&self) -> HeldMemory {
        let mut extras = self.requests.iter().map(|request| &request.extra);
        HeldMemory {
            large_requests: extras.clone().any(|extra| extra.large.is_some()),
            large_frames: extras.any(|extra| extra.frame_reservation.is_some()),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.broken.is_none()
    }
}

/// Returns the length of the next frame's body, or `None` if bytes of the prefix or of the body are
/// missing.
fn frame_len(input: &BytesMut, limit: usize) -> Result<Option<usize>, FrameFault> {
    let Some(prefix) = input.first_chunk::<4>() else {
        return Ok(None);
    };
    let len = i32::from_be_bytes(*prefix);
    let body = usize::try_from(len).ok().filter(|body| *body <= limit);
    let Some(body) = body else {
        return Err(FrameFault::Length { len, limit });
    };
    Ok((input.len() - 4 >= body).then_some(body))
}

/// Splits the next frame from `input`. Returns its body without the length, or `None` if bytes are
/// missing.
pub(crate) fn split_frame(input: &mut BytesMut, limit: usize) -> Result<Option<Bytes>, FrameFault> {
    let Some(body) = frame_len(input, limit)? else {
        return Ok(None);
    };
    input.advance(4);
    Ok(Some(input.split_to(body).freeze()))
}

/// Returns the length of the first frame of `input`, including its prefix, if the frame is long,
/// valid and incomplete.
pub(crate) fn long_frame_bytes(input: &BytesMut, limit: usize) -> Option<usize> {
    let prefix = input.first_chunk::<4>()?;
    let body = usize::try_from(i32::from_be_bytes(*prefix)).ok()?;
    let is_long = body > limits::FRAME_BYTES_SMALL && body <= limit;
    (is_long && input.len() < body + 4).then_some(body + 4)
}

/// Decodes complete frames of the socket's input: at most one batch, at most `frames_max`, and only
/// frames for which memory can be reserved. Memory is not reserved behind a read. `room` may
/// already contain the reservation for the first frame. Bytes after a fault are dropped, because
/// nothing tells where the next frame begins. Each call therefore removes bytes from the input,
/// unless it returns an empty batch.
pub(crate) fn decode_batch<S>(
    settings: &Settings,
    large_requests: &LargeRequests,
    metrics: &Metrics,
    socket: &mut Socket<S>,
    frames_max: usize,
    mut room: Option<MemoryReservation>,
) -> Batch {
    let input = &mut socket.input;
    let Settings {
        jute_max_buffer,
        field_limits,
        batch_requests_max,
        ..
    } = *settings;
    let batch_requests_max = batch_requests_max.min(frames_max);
    let mut batch = Batch::default();
    while batch.requests.len() < batch_requests_max {
        let len = match frame_len(input, jute_max_buffer) {
            Ok(Some(len)) => len,
            Ok(None) => break,
            Err(fault) => {
                batch.broken = Some(fault);
                break;
            }
        };
        let mut room = room.take();
        if LargeRequests::needs_reservation(len) && room.is_none() {
            let has_reads = batch.writes < batch.requests.len();
            if has_reads {
                // The client may not read their replies, and would keep the memory.
                break;
            }
            room = large_requests.room.take_now(len);
            if room.is_none() {
                batch.waits_for_room = Some(len);
                break;
            }
        }
        input.advance(4);
        let frame = input.split_to(len).freeze();
        batch.bytes += len + 4;
        let Ok(large) = large_requests.admit(len, room) else {
            metrics.large_requests_rejected.inc();
            batch.broken = Some(FrameFault::LargeRequestsFull { len });
            break;
        };
        // This reservation belongs to the first frame.
        let frame_reservation = socket.frame_reservation.take().map(|(room, _)| room);
        if batch.requests.is_empty() {
            // Estimates the number of requests. Requests that arrive together usually have similar
            // lengths.
            let alike = 1 + input.len() / (len + 4);
            let room = alike.min(batch_requests_max);
            batch.requests.reserve_exact(room);
        }
        let extra = Extra {
            large,
            frame_reservation,
        };
        match decode_into(&mut batch.requests, frame, field_limits, extra) {
            Ok(is_write) => batch.writes += usize::from(is_write),
            Err(fault) => {
                batch.broken = Some(fault.into());
                break;
            }
        }
    }
    if batch.broken.is_some() {
        input.clear();
    }
    socket.batch_memory = batch.held_memory();
    batch
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::start::tests::test_frontend;

    /// A session that is closing drops its batches, and its task continues with the input.
    #[test]
    fn a_fault_is_found_only_once() {
        let context = test_frontend().context;
        let requests = &context.requests;
        let ping = [0, 0, 0, 8, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11];
        let undecodable = [0, 0, 0, 1, 0];
        for fault in [&(-1_i32).to_be_bytes()[..], &undecodable] {
            let input = BytesMut::from(&[&ping[..], fault, &ping].concat()[..]);
            let mut socket = Socket::new((), input);
            let mut decode = || {
                let large = &requests.ledger.large_requests;
                let (settings, metrics) = (&requests.settings, &requests.metrics);
                decode_batch(settings, large, metrics, &mut socket, usize::MAX, None)
            };
            let batch = decode();
            assert_eq!(batch.requests.len(), 1);
            assert!(batch.broken.is_some());
            assert!(decode().is_empty());
        }
    }
}
