//! Connect storms: sessions are opened and closed at the server's maximum rate, or connections are
//! refused at the end of their handshake.

use client::{Error, Session};
use proto::SessionId;

use crate::error::BenchError;
use crate::session::control::Phase;
use crate::session::{Context, Report, close_session};

/// Opens and closes sessions one after the other. The latency is the time taken to open a session.
pub(crate) async fn storm(context: &Context, session: u32) {
    let control = &context.control;
    control.reached(Phase::Warmup).await;
    while control.grant(1) == 1 {
        let start_ns = control.now_ns();
        match context.open(session).await {
            Ok(mut connection) => {
                if control.is_measuring() {
                    let latency_ns = control.now_ns().saturating_sub(start_ns);
                    context.stats.borrow_mut().record(latency_ns, 1);
                }
                control.add_answers(1);
                close_session(&mut connection).await;
            }
            Err(error) => {
                context.stats.borrow_mut().note_lost(error.to_string(), 0);
                break;
            }
        }
    }
    context.report(Report::Finished);
}

/// Returns an unknown session. Servers refuse a handshake with this session without a transaction.
pub(crate) fn unknown_session() -> Session {
    Session {
        id: SessionId(1),
        password: vec![0; 16].into(),
    }
}

/// Opens connections one after the other, each of which ends when the server refuses
/// [`unknown_session`].
pub(crate) async fn handshakes(context: &Context, session: u32) {
    let control = &context.control;
    control.reached(Phase::Warmup).await;
    while control.grant(1) == 1 {
        let start_ns = control.now_ns();
        match context.open(session).await {
            Err(BenchError::Client(Error::SessionExpired { .. })) => {
                if control.is_measuring() {
                    let latency_ns = control.now_ns().saturating_sub(start_ns);
                    context.stats.borrow_mut().record(latency_ns, 1);
                }
                control.add_answers(1);
            }
            other => {
                let why = match other {
                    Ok(_) => "the server continued a session that does not exist".to_owned(),
                    Err(error) => error.to_string(),
                };
                context.stats.borrow_mut().note_lost(why, 0);
                break;
            }
        }
    }
    context.report(Report::Finished);
}
