//! A connect storm: sessions are opened and closed as fast as the server allows.

use super::control::Phase;
use super::session::{Context, Report, farewell};

/// Opens and closes sessions, one after the other; the latency is that of the opening.
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
                farewell(&mut connection).await;
            }
            Err(error) => {
                context.stats.borrow_mut().lose(error.to_string(), 0);
                break;
            }
        }
    }
    context.report(Report::Finished);
}
