//! `history/*`: questions about what was changed, answered by the change history of this member.
//!
//! Callers see what they may read now and might read then; without the header `Authorization` that
//! is what `world:anyone` may. Secrets (hashes of passwords in ACLs, the member list) are for super
//! users.

use history::ask::{self, AskError, Question};
use history::{HistoryError, Viewer};
use hyper::StatusCode;
use monitoring::admin::{Access, AdminView, Answer, Body, Call, Command, Task};
use proto::{Acl, Id};
use serde_json::{Value, json};

use crate::recorder::Readers;

/// The type of an answer.
const JSON: &str = "application/json";

/// The type of an export.
const PROTOBUF: &str = "application/x-protobuf";

/// The header of an export that says where its next page begins; the last page has none.
const NEXT: &str = "x-history-next";

/// The name of the export.
const EXPORT: &str = "history/export";

/// The name of the feed.
pub(super) const FEED: &str = "history/feed";

/// The commands of a server that keeps a history.
pub(super) fn commands(readers: &Readers) -> Vec<Command> {
    let questions = Question::ALL.into_iter().map(|question| {
        let readers = readers.clone();
        let name = name(question);
        let look = move |view: &dyn AdminView, call: &Call| answer(question, &readers, view, call);
        Command::look(name, &[], look).for_the_caller()
    });
    let of_export = readers.clone();
    let look = move |view: &dyn AdminView, call: &Call| export(&of_export, view, call);
    let exporting = Command::look(EXPORT, &[], look).for_the_caller();
    let feed = Command {
        name: FEED,
        aliases: &[],
        method: hyper::Method::GET,
        needs_server: false,
        access: Access::Caller,
        is_listed: true,
        task: Task::Feed,
    };
    questions
        .map(Command::always)
        .chain([exporting.always(), feed])
        .collect()
}

fn name(question: Question) -> &'static str {
    match question {
        Question::Changes => "history/changes",
        Question::Blame => "history/blame",
        Question::Cat => "history/cat",
        Question::Tree => "history/tree",
        Question::Diff => "history/diff",
    }
}

/// Who asks, over what they may read.
pub(super) struct Caller<'a> {
    pub(super) view: &'a dyn AdminView,
    pub(super) identities: &'a [Id],
}

impl Viewer for Caller<'_> {
    fn may_read(&self, path: &str, acl: &[Acl]) -> bool {
        self.view.may_read(path, acl, self.identities)
    }

    fn may_see_secrets(&self) -> bool {
        self.view.is_super(self.identities)
    }
}

fn answer(question: Question, readers: &Readers, view: &dyn AdminView, call: &Call) -> Answer {
    let name = name(question);
    let Some(reader) = readers.get() else {
        return not_open(name);
    };
    let caller = Caller {
        view,
        identities: &call.identities,
    };
    match question.answer(&reader, &call.parameters, &caller) {
        Ok(found) => written(StatusCode::OK, name, found),
        Err(error) => refused(name, &error),
    }
}

fn export(readers: &Readers, view: &dyn AdminView, call: &Call) -> Answer {
    let Some(reader) = readers.get() else {
        return not_open(EXPORT);
    };
    let caller = Caller {
        view,
        identities: &call.identities,
    };
    match ask::export(&reader, &call.parameters, &caller) {
        Ok(page) => Answer {
            status: StatusCode::OK,
            headers: page.next.map(|next| (NEXT, next)).into_iter().collect(),
            body: Body::Bytes(Some(PROTOBUF), page.bytes),
        },
        Err(error) => refused(EXPORT, &error),
    }
}

/// The history is not open: it is being made, or the disk is full.
pub(super) fn not_open(name: &str) -> Answer {
    let error = json!({ "error": "the change history is not open at the moment" });
    written(StatusCode::SERVICE_UNAVAILABLE, name, error)
}

/// What is wrong with a question, or why there is no answer; and what there would be.
pub(super) fn refused(name: &str, error: &AskError) -> Answer {
    let mut fields = json!({ "error": error.to_string() });
    let status = match error {
        AskError::Parameter { .. } => StatusCode::BAD_REQUEST,
        AskError::NoZnode { .. } => StatusCode::NOT_FOUND,
        AskError::History(error) => {
            if let Some(resume_after) = resume_after(error) {
                fields["resume_after"] = json!(resume_after);
            }
            status_of(error)
        }
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    if status.is_server_error() {
        tracing::warn!(err = %error, command = name, "the change history cannot answer");
    }
    written(status, name, fields)
}

/// Behind which transaction there are changes again.
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
        HistoryError::NoPermission { .. } => StatusCode::FORBIDDEN,
        HistoryError::NotRecorded { .. } | HistoryError::Future { .. } => StatusCode::NOT_FOUND,
        HistoryError::NotKept { .. }
        | HistoryError::Hole { .. }
        | HistoryError::TooEarly { .. } => StatusCode::GONE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// An answer on one line: it may be long, and is read by programs.
pub(super) fn written(status: StatusCode, name: &str, mut fields: Value) -> Answer {
    fields["command"] = json!(name);
    if fields.get("error").is_none() {
        fields["error"] = Value::Null;
    }
    let mut bytes = fields.to_string().into_bytes();
    bytes.push(b'\n');
    Answer {
        status,
        headers: Vec::new(),
        body: Body::Bytes(Some(JSON), bytes),
    }
}
