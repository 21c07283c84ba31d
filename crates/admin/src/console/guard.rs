//! Security headers of all responses. `http::guard` decides which callers are accepted.

use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::answer::Answer;

/// Policy that isolates the page from other sites: no inline or external content and no frames, and
/// text is never interpreted as markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// Headers of all responses.
const HEADERS: [(&str, &str); 7] = [
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    // Browsers keep connections open. The port accepts only a few connections, and probes need
    // them.
    ("connection", "close"),
];

/// Returns the headers of all responses.
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

/// Adds the headers to a response.
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
