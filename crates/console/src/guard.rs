//! What browsers are told of every answer. Who may ask at all is judged by `monitoring::admin`.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use monitoring::admin::Answer;

/// A page of this server and of no other site; nothing inline, nothing from elsewhere, in no frame, and no text is
/// ever made into markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// Headers of every answer.
const HEADERS: [(&str, &str); 7] = [
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    // A browser keeps its connections, and the port has few: probes need them.
    ("connection", "close"),
];

/// The headers of every answer.
pub(crate) fn headers() -> HeaderMap {
    let headers = HEADERS.into_iter().chain([("cache-control", "no-store")]);
    headers
        .map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        })
        .collect()
}

/// An answer with what browsers are told of all of them.
pub(crate) fn secured(mut answer: Answer) -> Answer {
    let headers = HEADERS.map(|(name, value)| (name, value.to_owned()));
    answer.headers.extend(headers);
    let says_how_long = answer
        .headers
        .iter()
        .any(|(name, _)| *name == "cache-control");
    if !says_how_long {
        answer = answer.with_header("cache-control", "no-store");
    }
    answer
}
