//! HTTP responses of the ports.

use std::io;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use crate::answer::{Answer, Body};

/// Body of a response: complete bytes, or [`Pieces`](super::Pieces).
pub(crate) type ResponseBody = UnsyncBoxBody<Bytes, io::Error>;

/// Converts an answer to an HTTP response.
pub(crate) fn respond(answer: Answer) -> Response<ResponseBody> {
    let (content_type, bytes) = match answer.body {
        Body::Bytes(content_type, bytes) => (content_type, bytes),
        Body::None | Body::Fields(_) => (None, Vec::new()),
    };
    let body = Full::new(Bytes::from(bytes)).map_err(|never| match never {});
    with_head(
        answer.status,
        answer.headers,
        content_type,
        body.boxed_unsync(),
    )
}

/// Constructs a response. Omits headers with an invalid value.
pub(crate) fn with_head(
    status: StatusCode,
    headers: Vec<(&'static str, String)>,
    content_type: Option<&'static str>,
    body: ResponseBody,
) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let own = headers.into_iter().filter_map(|(name, value)| {
        let value = HeaderValue::from_str(&value).ok()?;
        Some((HeaderName::from_static(name), value))
    });
    response.headers_mut().extend(own);
    if let Some(content_type) = content_type {
        let value = HeaderValue::from_static(content_type);
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    response
}
