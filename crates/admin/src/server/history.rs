//! `history/*`: queries of this member's change history.
//!
//! Callers see the changes of znodes that they may read now and were allowed to read at the time of
//! the change. Without the `Authorization` header, these are the znodes that `world:anyone` may
//! read. Only super users see secrets (hashes of passwords in ACLs, the member list).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use history::ask::{self, AskError, Question};
use history::{ClientPatience, CostLimit, HistoryError, Viewer};
use hyper::StatusCode;
use metrics::view::AdminView;
use serde_json::json;

use super::members::AdminPorts;
use crate::answer::{Answer, Body, set, written};
use crate::commands::{Access, Call, Command, Task};
use crate::limits;
use crate::served::Readers;

/// Content type of an export.
const PROTOBUF: &str = "application/x-protobuf";

/// Header of an export with the start of the next page. The last page lacks this header.
const NEXT: &str = "x-history-next";

/// Name of the export.
const EXPORT: &str = "history/export";

/// Name of the feed.
pub(super) const FEED: &str = "history/feed";

/// Returns the commands of a server that keeps a history.
pub(super) fn commands(readers: &Readers, ports: &AdminPorts) -> Vec<Command> {
    let questions = Question::ALL.into_iter().map(|question| {
        let (readers, ports) = (readers.clone(), ports.clone());
        let name = name(question);
        let look =
            move |view: &dyn AdminView, call: &Call| answer(question, &readers, &ports, view, call);
        Command::look(name, &[], look)
    });
    let of_export = readers.clone();
    let look = move |view: &dyn AdminView, call: &Call| export(&of_export, view, call);
    let exporting = Command::look(EXPORT, &[], look);
    let feed = Command::of(FEED, &[], Task::Feed);
    let all = questions.chain([exporting, feed]);
    let for_readers = |command: Command| Command {
        access: Access::Reader,
        ..command.always()
    };
    all.map(for_readers).collect()
}

fn name(question: Question) -> &'static str {
    match question {
        Question::Changes => "history/changes",
        Question::Blame => "history/blame",
        Question::Cat => "history/cat",
        Question::Tree => "history/tree",
        Question::Diff => "history/diff",
        Question::Origins => "history/origins",
    }
}

/// Returns the caller and its permissions.
fn viewer<'a>(view: &'a dyn AdminView, call: &'a Call) -> Viewer<'a> {
    Viewer::Client {
        tree: view.tree(),
        identities: &call.identities,
    }
}

/// Returns the limit of work for one page. The flag reports that the caller no longer waits.
pub(super) fn effort(is_abandoned: Arc<AtomicBool>) -> CostLimit {
    let until = Instant::now() + limits::HISTORY_PAGE_TIME;
    CostLimit::new(move || {
        if is_abandoned.load(Ordering::Relaxed) {
            ClientPatience::Gone
        } else if Instant::now() >= until {
            ClientPatience::Spent
        } else {
            ClientPatience::Left
        }
    })
}

fn answer(
    question: Question,
    readers: &Readers,
    ports: &AdminPorts,
    view: &dyn AdminView,
    call: &Call,
) -> Answer {
    let name = name(question);
    let Some(reader) = readers.get() else {
        return not_open(name);
    };
    let reader = reader.within(effort(call.is_abandoned.clone()));
    match question.answer(&reader, &call.parameters, &viewer(view, call)) {
        Ok(mut found) => {
            // Adds the other members, which the caller can query about the clients that they serve.
            if question == Question::Origins {
                ports.describe(view.role().members.as_deref(), &mut found);
            }
            written(StatusCode::OK, name, found)
        }
        Err(error) => refused(name, &error),
    }
}

fn export(readers: &Readers, view: &dyn AdminView, call: &Call) -> Answer {
    let Some(reader) = readers.get() else {
        return not_open(EXPORT);
    };
    let reader = reader.within(effort(call.is_abandoned.clone()));
    match ask::export(&reader, &call.parameters, &viewer(view, call)) {
        Ok(page) => Answer {
            status: StatusCode::OK,
            headers: page.next.map(|next| (NEXT, next)).into_iter().collect(),
            body: Body::Bytes(Some(PROTOBUF), page.bytes),
        },
        Err(error) => refused(EXPORT, &error),
    }
}

/// Returns the answer while the history is not open because it is being built or the disk is full.
pub(super) fn not_open(name: &str) -> Answer {
    let error = json!({ "error": "the change history is not available at present: it is being built, or the disk is full" });
    written(StatusCode::SERVICE_UNAVAILABLE, name, error)
}

/// Returns the answer for a failed query. If the requested changes are no longer stored,
/// `resume_after` is the transaction after which changes are available again.
pub(super) fn refused(name: &str, error: &AskError) -> Answer {
    let mut fields = json!({ "error": error.to_string() });
    let status = match error {
        AskError::Parameter { .. } => StatusCode::BAD_REQUEST,
        AskError::NoZnode { .. } => StatusCode::NOT_FOUND,
        AskError::History(error) => {
            if let Some(resume_after) = resume_after(error) {
                set(&mut fields, "resume_after", json!(resume_after));
            }
            status_of(error)
        }
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let is_abandoned = matches!(error, AskError::History(HistoryError::Abandoned));
    if status.is_server_error() && !is_abandoned {
        log_limiter::limited!(warn, err = %error, command = name, "a query of the change history failed");
    }
    written(status, name, fields)
}

/// Returns the transaction after which changes are available again, if the error is a gap in the
/// history.
pub(super) fn resume_after(error: &HistoryError) -> Option<String> {
    match error {
        HistoryError::NotKept { oldest, .. } => Some(history::json::hex(oldest.0)),
        HistoryError::Hole { to, .. } => Some(history::json::hex(to.0)),
        _ => None,
    }
}

fn status_of(error: &HistoryError) -> StatusCode {
    match error {
        HistoryError::BadPath { .. } => StatusCode::BAD_REQUEST,
        HistoryError::NoPermission { .. } | HistoryError::OriginHidden => StatusCode::FORBIDDEN,
        HistoryError::NotRecorded { .. } | HistoryError::Future { .. } => StatusCode::NOT_FOUND,
        HistoryError::NotKept { .. }
        | HistoryError::Hole { .. }
        | HistoryError::TooEarly { .. } => StatusCode::GONE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
