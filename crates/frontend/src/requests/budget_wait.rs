//! Charges for requests. A connection waits until its budgets cover its requests
//! (`budget.<name>.*`).

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use admission::{Budgets, Cost, Share};
use host::SharedConnection as _;
use proto::OpCode;
use tokio::time::Instant;

use crate::connection::Connection;
use crate::connection::socket::{Socket, Stream, fill, give_back_during};
use crate::requests::budget_resources::shares_of;
use crate::requests::context::RequestContext;
use crate::requests::task::serve;
use crate::{clock, limits};

/// Next frames of a connection, with their cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct NextFrames {
    frames: usize,
    cost: Cost,
}

/// Measures the frames at the start of `input`, and stops before they cost more than `max`. The
/// first frame may cost more. Frames that keep a session alive or close it are free, and are not
/// combined with other frames.
fn measure_next_frames(input: &[u8], frame_bytes_max: usize, max: Cost) -> NextFrames {
    let mut ahead = NextFrames::default();
    let mut rest = input;
    while let Some((prefix, behind)) = rest.split_first_chunk() {
        let len = usize::try_from(i32::from_be_bytes(*prefix));
        let Some(len) = len.ok().filter(|len| *len <= frame_bytes_max) else {
            break;
        };
        let bytes = size_of_val(prefix) + len;
        let is_whole = behind.len() >= len;
        // A long frame must be paid for before memory is reserved for it, because other connections
        // may need that memory.
        let is_taken = is_whole || (ahead.frames == 0 && len > limits::FRAME_BYTES_SMALL);
        let cost = if len == FREE_BYTES && is_free(behind) {
            Cost::default()
        } else {
            Cost { requests: 1, bytes }
        };
        let is_first = ahead.frames == 0;
        let is_alike = is_first || (ahead.cost == Cost::default()) == (cost == Cost::default());
        let (requests, bytes) = (
            ahead.cost.requests + cost.requests,
            ahead.cost.bytes + cost.bytes,
        );
        let is_too_much = !is_first && (requests > max.requests || bytes > max.bytes);
        if !is_taken || !is_alike || is_too_much || ahead.frames >= limits::BATCH_REQUESTS_MAX {
            break;
        }
        ahead = NextFrames {
            frames: ahead.frames + 1,
            cost: Cost { requests, bytes },
        };
        let Some(next) = behind.get(len..) else {
            break;
        };
        rest = next;
    }
    ahead
}

/// Length in bytes of a frame that contains only a request header, without the length prefix.
const FREE_BYTES: usize = 8;

/// Returns whether a frame, given without its length, keeps a session alive or ends it.
fn is_free(frame: &[u8]) -> bool {
    let op = frame.get(4..).and_then(<[u8]>::first_chunk);
    let op = op.and_then(|op| OpCode::from_i32(i32::from_be_bytes(*op)));
    op.is_some_and(|op| !op.may_be_throttled())
}

/// Pays for the next frames of a connection as soon as none of its shares is in debt. Returns the
/// number of frames, or `None` if the connection must end.
pub(crate) async fn pay_for_next_frames<S: Stream>(
    context: &RequestContext,
    budgets: &Budgets,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
) -> io::Result<Option<usize>> {
    let shares = shares_of(budgets, connection);
    let max = shares.iter().fold(MOST, |max, share| {
        let other = share.cost_max();
        Cost {
            requests: max.requests.min(other.requests),
            bytes: max.bytes.min(other.bytes),
        }
    });
    let ahead = measure_next_frames(&socket.input, context.settings.jute_max_buffer, max);
    if ahead.cost == Cost::default() {
        return Ok(Some(ahead.frames));
    }
    let mut waits_since = None;
    for share in shares.iter() {
        if share.pay_now(ahead.cost, clock::monotonic_ms()) {
            continue;
        }
        if waits_since.is_none() {
            waits_since = Some(Instant::now());
            let requests = ahead.cost.requests as u64;
            context
                .metrics
                .zoarium_budget_requests_delayed
                .add(requests);
            connection.stats.throttled(requests);
        }
        budgets.log_wait(share, clock::monotonic_ms());
        if !wait(context, connection, socket, share, ahead.cost).await? {
            return Ok(None);
        }
    }
    if let Some(since) = waits_since {
        let waited_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let metric = &context.metrics.zoarium_budget_delay_ms;
        metric.record_many(waited_ms, ahead.cost.requests as u64);
    }
    Ok(Some(ahead.frames))
}

const MOST: Cost = Cost {
    requests: usize::MAX,
    bytes: usize::MAX,
};

/// Waits until a share is paid. Answers earlier requests and sends events meanwhile, and keeps the
/// session alive because the server, not the client, causes the delay. Returns false if the
/// connection ends.
async fn wait<S: Stream>(
    context: &RequestContext,
    connection: &Arc<Connection>,
    socket: &mut Socket<S>,
    share: &Share,
    cost: Cost,
) -> io::Result<bool> {
    let timeout_ms = u64::try_from(connection.timeout_ms()).unwrap_or(0);
    let touched_every = Duration::from_millis((timeout_ms / 4).max(1));
    let mut paid = pin!(pay(share, cost));
    loop {
        if !context.touch(connection) {
            connection.close();
        }
        if connection.is_closed() {
            return Ok(false);
        }
        let serving = serve(context, connection, socket);
        let (served, is_paid) = give_back_during(serving, paid.as_mut()).await;
        if served?.is_break() {
            return Ok(false);
        }
        if is_paid {
            return Ok(true);
        }
        // This read also detects that the client has disconnected.
        let has_room = socket.input.len() < limits::READ_CHUNK_BYTES;
        tokio::select! {
            biased;
            () = &mut paid => return Ok(true),
            () = connection.wait_for_wake() => {}
            read = fill(socket), if has_room => if !read.unwrap_or(false) {
                tracing::debug!(peer = %connection.peer, session = %connection.session(), budget = share.name(), "client disconnected while its requests waited");
                context.metrics.connection_drop_count.inc();
                return Ok(false);
            },
            () = tokio::time::sleep(touched_every) => {}
        }
    }
}

/// Waits for the connection's turn, and pays as soon as the share is not in debt.
async fn pay(share: &Share, cost: Cost) {
    let turn = share.turn().await;
    loop {
        let wait_ms = turn.pay(cost, clock::monotonic_ms());
        if wait_ms == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN_MAX: usize = 1 << 20;

    fn frame(op: OpCode, len: usize) -> Vec<u8> {
        let mut frame = u32::try_from(len).unwrap().to_be_bytes().to_vec();
        frame.extend_from_slice(&1_i32.to_be_bytes());
        frame.extend_from_slice(&op.number().to_be_bytes());
        frame.resize(4 + len, 0);
        frame
    }

    fn ahead(input: &[u8], max: Cost) -> (usize, usize, usize) {
        let found = measure_next_frames(input, LEN_MAX, max);
        (found.frames, found.cost.requests, found.cost.bytes)
    }

    #[test]
    fn whole_frames_are_counted_up_to_what_may_be_paid_at_a_time() {
        let read = frame(OpCode::GetData, 20);
        let five = read.repeat(5);
        let requests = Cost {
            requests: 2,
            ..MOST
        };
        let bytes = Cost { bytes: 50, ..MOST };
        let byte = Cost { bytes: 1, ..MOST };
        assert_eq!(ahead(&five, MOST), (5, 5, 5 * 24));
        assert_eq!(ahead(&five, requests), (2, 2, 48));
        assert_eq!(ahead(&five, bytes), (2, 2, 48));
        // One frame is always admitted.
        assert_eq!(ahead(&five, byte), (1, 1, 24));
        assert_eq!(ahead(&five[..five.len() - 1], MOST), (4, 4, 96));
        let many = read.repeat(limits::BATCH_REQUESTS_MAX + 1);
        assert_eq!(ahead(&many, MOST).0, limits::BATCH_REQUESTS_MAX);
        assert_eq!(ahead(&[], MOST), (0, 0, 0));
        assert_eq!(ahead(&five[..3], MOST), (0, 0, 0));
    }

    #[test]
    fn pings_and_the_end_of_a_session_are_free_and_stand_alone() {
        let (ping, close) = (frame(OpCode::Ping, 8), frame(OpCode::CloseSession, 8));
        let read = frame(OpCode::GetData, 20);
        assert_eq!(
            ahead(&[ping.clone(), ping.clone(), read.clone()].concat(), MOST),
            (2, 0, 0)
        );
        assert_eq!(
            ahead(&[close.clone(), read.clone()].concat(), MOST),
            (1, 0, 0)
        );
        assert_eq!(
            ahead(&[read.clone(), ping, read.clone()].concat(), MOST),
            (1, 1, 24)
        );
        assert_eq!(
            ahead(&[read.clone(), read, close].concat(), MOST),
            (2, 2, 48)
        );
    }

    #[test]
    fn a_long_frame_is_paid_for_before_it_arrives() {
        let long = frame(OpCode::SetData, limits::FRAME_BYTES_SMALL + 1);
        let cost = (1, 1, long.len());
        assert_eq!(ahead(&long[..4], MOST), cost);
        assert_eq!(ahead(&long[..100], MOST), cost);
        assert_eq!(ahead(&long, MOST), cost);
        let short = frame(OpCode::GetData, 20);
        assert_eq!(ahead(&[&short, &long[..100]].concat(), MOST), (1, 1, 24));
    }

    #[test]
    fn an_invalid_frame_costs_nothing() {
        let faulty = (-5_i32).to_be_bytes();
        assert_eq!(ahead(&faulty, MOST), (0, 0, 0));
        let too_long = u32::try_from(LEN_MAX + 1).unwrap().to_be_bytes();
        assert_eq!(ahead(&too_long, MOST), (0, 0, 0));
        let short = [0, 0, 0, 2, 9, 9];
        assert_eq!(ahead(&short, MOST), (1, 1, 6));
        let no_ping = frame(OpCode::Ping, 9);
        assert_eq!(ahead(&no_ping, MOST), (1, 1, 13));
    }
}
