//! Responses to the page: results and refusals.

use http::StatusCode;
use proto::ErrorCode;
use serde_json::{Value, json};

use super::session::Fault;
use crate::answer::{Answer, Body};

const JSON: &str = "application/json";

/// Returns the response for a successful request.
pub(crate) fn found(value: &Value) -> Answer {
    written(StatusCode::OK, value)
}

fn written(status: StatusCode, value: &Value) -> Answer {
    Answer {
        status,
        headers: Vec::new(),
        body: Body::Bytes(Some(JSON), value.to_string().into_bytes()),
    }
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
        let (status, text) = match code {
            ErrorCode::NoNode => (StatusCode::NOT_FOUND, "the znode does not exist"),
            ErrorCode::NoAuth => (
                StatusCode::FORBIDDEN,
                "the ACL does not permit this operation for this identity",
            ),
            ErrorCode::AuthFailed => (
                StatusCode::FORBIDDEN,
                "the server did not accept these credentials",
            ),
            ErrorCode::BadVersion => (
                StatusCode::CONFLICT,
                "another client has changed the znode meanwhile: reload it",
            ),
            ErrorCode::NodeExists => (
                StatusCode::CONFLICT,
                "a znode with this name exists already",
            ),
            ErrorCode::NotEmpty => (
                StatusCode::CONFLICT,
                "the znode has children: delete them first",
            ),
            ErrorCode::BadArguments => (
                StatusCode::BAD_REQUEST,
                "the server does not accept this path or argument",
            ),
            ErrorCode::InvalidAcl => (
                StatusCode::BAD_REQUEST,
                "the server does not accept this ACL",
            ),
            ErrorCode::QuotaExceeded => {
                (StatusCode::FORBIDDEN, "the operation would exceed a quota")
            }
            ErrorCode::NoChildrenForEphemerals => (
                StatusCode::CONFLICT,
                "an ephemeral znode cannot have children",
            ),
            ErrorCode::NotReadOnly => (
                StatusCode::SERVICE_UNAVAILABLE,
                "no leader is known, so this member accepts only reads",
            ),
            _ => (StatusCode::BAD_GATEWAY, "the server refused the operation"),
        };
        Self::new(status, code.name(), text)
    }
}
