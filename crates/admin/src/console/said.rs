//! Responses to the page: results and refusals.

use http::StatusCode;
use proto::ErrorCode;
use serde_json::{Value, json};

use super::session::Fault;
use crate::answer::{Answer, Body, JSON};

/// Returns the response for a successful request.
pub(crate) fn found(value: &Value) -> Answer {
    written(StatusCode::OK, value)
}

fn written(status: StatusCode, value: &Value) -> Answer {
    Answer::of(
        status,
        Body::Bytes(Some(JSON), value.to_string().into_bytes()),
    )
}

/// Refusal: a status, a code for the page, and a sentence for the visitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) text: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, code: &'static str, text: impl Into<String>) -> Self {
        Self {
            status,
            code,
            text: text.into(),
        }
    }

    pub(crate) fn answer(&self) -> Answer {
        let error = json!({ "code": self.code, "text": self.text });
        written(self.status, &json!({ "error": error }))
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        let Fault::Refused(code) = &fault else {
            return Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "NoSession",
                fault.to_string(),
            );
        };
        let Some(code) = ErrorCode::from_i32(code.0) else {
            return Self::new(StatusCode::BAD_GATEWAY, "Unknown", fault.to_string());
        };
        Self::new(status_of(code), code.name(), text_of(code))
    }
}

fn status_of(code: ErrorCode) -> StatusCode {
    use ErrorCode::{AuthFailed, NoAuth, QuotaExceeded};
    use ErrorCode::{BadVersion, NoChildrenForEphemerals, NodeExists, NotEmpty};
    match code {
        ErrorCode::NoNode => StatusCode::NOT_FOUND,
        NoAuth | AuthFailed | QuotaExceeded => StatusCode::FORBIDDEN,
        BadVersion | NodeExists | NotEmpty | NoChildrenForEphemerals => StatusCode::CONFLICT,
        ErrorCode::BadArguments | ErrorCode::InvalidAcl => StatusCode::BAD_REQUEST,
        ErrorCode::NotReadOnly => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_GATEWAY,
    }
}

fn text_of(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::NoNode => "the znode does not exist",
        ErrorCode::NoAuth => "the ACL does not permit this operation for this identity",
        ErrorCode::AuthFailed => "the server did not accept these credentials",
        ErrorCode::BadVersion => "another client has changed the znode meanwhile: reload it",
        ErrorCode::NodeExists => "a znode with this name exists already",
        ErrorCode::NotEmpty => "the znode has children: delete them first",
        ErrorCode::BadArguments => "the server does not accept this path or argument",
        ErrorCode::InvalidAcl => "the server does not accept this ACL",
        ErrorCode::QuotaExceeded => "the operation would exceed a quota",
        ErrorCode::NoChildrenForEphemerals => "an ephemeral znode cannot have children",
        ErrorCode::NotReadOnly => "no leader is known, so this member accepts only reads",
        _ => "the server refused the operation",
    }
}
