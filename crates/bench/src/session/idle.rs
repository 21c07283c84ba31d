//! Idle sessions.

use std::time::Duration;

use client::frame::put_request;
use client::{LossReason, RawConnection};
use proto::{OpCode, Xid};
use tokio::time::{Instant, sleep_until};

use crate::session::control::Phase;
use crate::session::{Context, close_session};

/// Keeps a session alive until the end of the measurement.
pub(crate) async fn hold(context: &Context, session: u32, mut connection: RawConnection) {
    match keep_alive(context, &mut connection, Phase::Stopping).await {
        Ok(()) => close_session(&mut connection).await,
        Err(reason) => context.note_lost(session, &reason, 0),
    }
}

/// Pings until `phase` begins. An idle load measures the latency of the pings.
///
/// # Errors
/// If the connection is lost.
pub(crate) async fn keep_alive(
    context: &Context,
    connection: &mut RawConnection,
    phase: Phase,
) -> Result<(), LossReason> {
    let interval = (connection.accepted.session_timeout / 3).max(Duration::from_millis(1));
    let mut next_ping = Instant::now() + interval;
    let mut sent_ns = 0;
    let reached = context.control.reached(phase);
    tokio::pin!(reached);
    loop {
        tokio::select! {
            () = &mut reached => return Ok(()),
            turned = connection.wire.turn() => {
                turned?;
                while connection.wire.next_frame()?.is_some() {
                    context.control.add_answers(1);
                    if context.control.is_measuring() {
                        let latency_ns = context.control.now_ns().saturating_sub(sent_ns);
                        context.stats.borrow_mut().record(latency_ns, 1);
                    }
                }
            }
            () = sleep_until(next_ping) => {
                put_request(Xid::PING, OpCode::Ping.number(), connection.wire.outbound(), |_| ());
                sent_ns = context.control.now_ns();
                next_ping += interval;
            }
        }
    }
}
