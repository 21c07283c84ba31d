//! From the bytes of a socket to batches of decoded requests.

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};
use replica::connection::{self, Incoming, RequestKind, decode_into};

use super::budget_obeyed::Refused;
use super::large::{LargeRequest, LargeRequests};
use super::room::Room;
use super::task::Socket;
use crate::client::clients::Clients;
use crate::client::settings::Settings;
use crate::limits;

/// What a frame takes of the bounds on large ones.
pub(crate) struct Extra {
    pub(super) large: Option<LargeRequest>,
    /// For the frame, if it is long.
    pub(super) frame_room: Option<Room>,
}

/// Requests decoded from one read of the socket, in order.
#[derive(Default)]
pub(crate) struct Batch {
    pub(super) requests: VecDeque<Incoming<Extra>>,
    /// How many of them need a permit of the pipeline.
    pub(crate) writes: usize,
    /// How many permits are taken for them.
    pub(crate) permits: usize,
    /// Whether they waited so long for their place that they are refused.
    pub(crate) is_late: bool,
    /// Bytes of their frames, prefix included.
    pub(crate) bytes: usize,
    /// Bytes of the frame behind them, if there was no room for it.
    pub(crate) waits_for_room: Option<usize>,
    /// Whether the connection must close once they are answered: the bytes behind them are no
    /// frame.
    pub(crate) broken: Option<FrameFault>,
    /// The last request that was refused because of a budget, until it is told.
    pub(super) refused: Option<Refused>,
}

/// Why the bytes of a connection make no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameFault {
    /// The length is negative or above `jute.maxbuffer`.
    #[error("frame length {len} is not between 0 and {limit} (jute.maxbuffer)")]
    Length { len: i32, limit: usize },
    /// `largeRequestMaxBytes` of large requests are under way.
    #[error("no room for a large request of {len} bytes (largeRequestMaxBytes)")]
    TooMuch { len: usize },
    /// It makes no sense, or its credentials do not.
    #[error(transparent)]
    Undecodable(#[from] connection::FrameFault),
}

impl Batch {
    /// Whether some of it may have lines in the audit log.
    pub(super) fn is_audited(&self) -> bool {
        let is_undecodable =
            |next: &Incoming<Extra>| matches!(next.kind, RequestKind::Undecodable(_));
        self.writes > 0 || self.requests.iter().any(is_undecodable)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.broken.is_none()
    }
}

/// Bytes of the next frame's body, `None` if some of them are missing.
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

/// Splits the next frame off `input`: its body without the length, `None` if bytes are missing.
pub(crate) fn split_frame(input: &mut BytesMut, limit: usize) -> Result<Option<Bytes>, FrameFault> {
    let Some(body) = frame_len(input, limit)? else {
        return Ok(None);
    };
    input.advance(4);
    Ok(Some(input.split_to(body).freeze()))
}

/// Bytes of the frame that `input` begins with, its length included, if it is long, sound, and some
/// of them are missing.
pub(crate) fn long_frame_bytes(input: &BytesMut, limit: usize) -> Option<usize> {
    let prefix = input.first_chunk::<4>()?;
    let body = usize::try_from(i32::from_be_bytes(*prefix)).ok()?;
    let is_long = body > limits::FRAME_BYTES_SMALL && body <= limit;
    (is_long && input.len() < body + 4).then_some(body + 4)
}

/// Decodes the complete frames of the socket's input, at most a batch of them or `frames_max`, and
/// none for which there is no room. For the first there may be `room` already.
pub(crate) fn decode_batch<S>(
    clients: &Clients,
    socket: &mut Socket<S>,
    frames_max: usize,
    mut room: Option<Room>,
) -> Batch {
    let input = &mut socket.input;
    let Settings {
        jute_max_buffer,
        field_limits,
        batch_requests_max,
        ..
    } = clients.settings;
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
        if LargeRequests::need_room(len) && room.is_none() {
            room = clients.large_requests.room.take_now(len);
            if room.is_none() {
                batch.waits_for_room = Some(len);
                break;
            }
        }
        input.advance(4);
        let frame = input.split_to(len).freeze();
        batch.bytes += len + 4;
        let Ok(large) = clients.large_requests.admit(len, room) else {
            clients.metrics.large_requests_rejected.inc();
            batch.broken = Some(FrameFault::TooMuch { len });
            break;
        };
        // It was taken for the frame that came first.
        let frame_room = socket.frame_room.take().map(|(room, _)| room);
        if batch.requests.is_empty() {
            // What comes together is mostly of one kind and length.
            let alike = 1 + input.len() / (len + 4);
            let room = alike.min(batch_requests_max);
            batch.requests.reserve_exact(room);
        }
        let extra = Extra { large, frame_room };
        match decode_into(&mut batch.requests, frame, field_limits, extra) {
            Ok(is_write) => batch.writes += usize::from(is_write),
            Err(fault) => {
                batch.broken = Some(fault.into());
                break;
            }
        }
    }
    batch
}
