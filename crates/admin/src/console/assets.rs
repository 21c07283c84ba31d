//! The files of the page. `build.rs` compresses them.

use std::io::Read;

use flate2::read::GzDecoder;
use http::header::{ACCEPT_ENCODING, HeaderMap, IF_NONE_MATCH};
use http::{HeaderName, StatusCode};

use crate::answer::{Answer, Body};

/// A file of the page.
struct Asset {
    /// Path in a URL.
    path: &'static str,
    /// Hash of the file, which changes with its content.
    tag: &'static str,
    /// Length of the file, in bytes.
    length: usize,
    /// The compressed file.
    gzip: &'static [u8],
}

#[allow(clippy::unreadable_literal, reason = "generated")]
const ASSETS: &[Asset] = include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// Content types by the end of a path. The path `/` is an HTML page.
const KINDS: [(&str, &str); 5] = [
    (".css", "text/css; charset=utf-8"),
    (".js", "text/javascript; charset=utf-8"),
    (".svg", "image/svg+xml"),
    (".txt", "text/plain; charset=utf-8"),
    ("/", "text/html; charset=utf-8"),
];

impl Asset {
    fn kind(&self) -> Option<&'static str> {
        let kind = KINDS.iter().find(|(end, _)| self.path.ends_with(end));
        kind.map(|(_, kind)| *kind)
    }

    fn bytes(&self) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(self.length);
        GzDecoder::new(self.gzip).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Returns the answer with the embedded file for this path. Never reads a file of the machine.
pub(crate) fn find(path: &str, headers: &HeaderMap) -> Option<Answer> {
    let asset = ASSETS.iter().find(|asset| asset.path == path)?;
    let is_gzip = accepts_gzip(headers);
    // The two representations need different tags.
    let suffix = if is_gzip { "-gzip" } else { "" };
    let tag = format!("\"{}{suffix}\"", asset.tag);
    let (status, body) = if text(headers, IF_NONE_MATCH).contains(&tag) {
        (StatusCode::NOT_MODIFIED, Body::None)
    } else if is_gzip {
        let bytes = asset.gzip.to_vec();
        (StatusCode::OK, Body::Bytes(asset.kind(), bytes))
    } else {
        let bytes = asset.bytes().ok()?;
        (StatusCode::OK, Body::Bytes(asset.kind(), bytes))
    };
    let answer = Answer::of(status, body)
        // Browsers must check their copy, because the next version of the server may change the
        // file.
        .with_header("cache-control", "no-cache")
        .with_header("etag", tag)
        .with_header("vary", "accept-encoding");
    Some(if is_gzip && status == StatusCode::OK {
        answer.with_header("content-encoding", "gzip")
    } else {
        answer
    })
}

fn text(headers: &HeaderMap, name: HeaderName) -> &str {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default()
}

/// Returns whether the client accepts gzip. Returns false without the header `Accept-Encoding`.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    text(headers, ACCEPT_ENCODING).split(',').any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let is_refused = ["q=0", "q=0.0", "q=0.00", "q=0.000"].contains(&weight.trim());
        name.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    /// Maximum total size of all compressed files of the page, in bytes.
    const PAGE_BYTES_MAX: usize = 400 << 10;

    fn with(name: HeaderName, value: &'static str) -> HeaderMap {
        [(name, HeaderValue::from_static(value))]
            .into_iter()
            .collect()
    }

    fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
        let found = answer.headers.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.as_str())
    }

    #[test]
    fn a_file_is_compressed_only_for_clients_that_accept_it() {
        let plain = find("/", &HeaderMap::new()).expect("the page");
        let Body::Bytes(kind, bytes) = &plain.body else {
            panic!("a page")
        };
        assert_eq!(*kind, Some("text/html; charset=utf-8"));
        assert!(bytes.starts_with(b"<!doctype html>"));
        assert_eq!(header(&plain, "content-encoding"), None);
        for refused in ["br", "gzip;q=0", "gzip; q=0.0, identity", "xgzip"] {
            let answer = find("/", &with(ACCEPT_ENCODING, refused)).expect("the page");
            assert_eq!(header(&answer, "content-encoding"), None, "{refused}");
        }
        let packed = find("/", &with(ACCEPT_ENCODING, "br;q=1.0, GZIP;q=0.8")).expect("the page");
        assert_eq!(header(&packed, "content-encoding"), Some("gzip"));
        assert_ne!(header(&packed, "etag"), header(&plain, "etag"));
        let Body::Bytes(_, short) = &packed.body else {
            panic!("a page")
        };
        let mut unpacked = Vec::new();
        GzDecoder::new(&short[..])
            .read_to_end(&mut unpacked)
            .expect("gzip");
        assert_eq!(&unpacked, bytes);
    }

    #[test]
    fn an_unchanged_file_is_not_sent_again() {
        let first = find("/console/main.js", &HeaderMap::new()).expect("a script");
        let tag = header(&first, "etag").expect("a tag").to_owned();
        let mut headers = HeaderMap::new();
        headers.insert(IF_NONE_MATCH, tag.parse().expect("a header"));
        let second = find("/console/main.js", &headers).expect("a script");
        assert_eq!(
            (second.status, second.body),
            (StatusCode::NOT_MODIFIED, Body::None)
        );
    }

    #[test]
    fn the_page_is_small_and_each_file_has_a_type() {
        let bytes: usize = ASSETS.iter().map(|asset| asset.gzip.len()).sum();
        assert!(bytes < PAGE_BYTES_MAX, "{bytes}");
        for asset in ASSETS {
            assert!(asset.kind().is_some(), "{}", asset.path);
            assert_eq!(asset.bytes().expect("gzip").len(), asset.length);
        }
        assert!(find("/console/vendor/bundle/package.json", &HeaderMap::new()).is_none());
    }
}
