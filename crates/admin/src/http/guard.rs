//! Protection against requests that foreign web sites send through a browser. It checks the host
//! name in the request and the origin of the page.
//!
//! A page of a foreign site can make a browser send requests to this server. If the foreign name
//! resolves to this server's address (DNS rebinding), the browser even lets the page read the
//! answers. The `Host` header then contains the foreign name. An address in `Host` cannot be
//! rebound, so it is accepted.

use std::net::IpAddr;

use http::header::{self, HeaderMap, HeaderName};
use http::uri::{Authority, Uri};

/// Header in which a browser reports whether another site caused a request. Scripts cannot set it.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Host names of the server, in addition to its addresses and `localhost`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names(Vec<String>);

impl Names {
    /// Creates the set of these names.
    pub(crate) fn new(names: impl IntoIterator<Item = String>) -> Self {
        let names = names.into_iter().map(|name| plain(&name));
        Self(names.filter(|name| !name.is_empty()).collect())
    }

    /// Returns whether the target and the header `Host` of a request refer to this server.
    pub(crate) fn are_meant(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return false;
        };
        let host = host
            .to_str()
            .ok()
            .and_then(|host| host.parse::<Authority>().ok());
        let is_known = host.is_some_and(|host| self.know(host.host()));
        is_known
            && uri
                .authority()
                .is_none_or(|authority| self.know(authority.host()))
    }

    fn know(&self, host: &str) -> bool {
        let host = plain(host);
        let address = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        address.unwrap_or(&host).parse::<IpAddr>().is_ok()
            || host == "localhost"
            || self.0.contains(&host)
    }
}

fn plain(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// Returns whether a request comes from a page of this server, or does not come from a page.
pub(crate) fn is_from_here(headers: &HeaderMap) -> bool {
    let site = headers.get(FETCH_SITE).map(|site| site.as_bytes());
    if site.is_some_and(|site| site != b"same-origin" && site != b"none") {
        return false;
    }
    let Some(origin) = headers.get(header::ORIGIN) else {
        return true;
    };
    let origin = origin
        .to_str()
        .ok()
        .and_then(|origin| origin.split_once("://"));
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    origin.is_some_and(|(_, origin)| Some(origin) == host)
}

#[cfg(test)]
mod tests {
    use http::header::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        pairs.collect()
    }

    #[test]
    fn a_strange_name_is_not_meant() {
        let names = Names::new(["ZK1.example.com.".to_owned(), String::new()]);
        let meant = |host| names.are_meant(&Uri::from_static("/"), &headers(&[("host", host)]));
        let good = [
            "127.0.0.1",
            "10.1.2.3:8080",
            "[::1]:8080",
            "localhost:8080",
            "LOCALHOST",
            "zk1.example.com:8080",
            "zk1.EXAMPLE.com.",
        ];
        for host in good {
            assert!(meant(host), "{host}");
        }
        let bad = [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
            ":8080",
            "a b",
        ];
        for host in bad {
            assert!(!meant(host), "{host}");
        }
        assert!(!names.are_meant(&Uri::from_static("/"), &HeaderMap::new()));
        let two = headers(&[("host", "localhost")]);
        let absolute = Uri::from_static("http://evil.example/");
        assert!(!names.are_meant(&absolute, &two));
    }

    #[test]
    fn other_sites_are_not_from_here() {
        let host = ("host", "localhost:8080");
        let from = |pairs: &[(&'static str, &'static str)]| is_from_here(&headers(pairs));
        assert!(from(&[host]));
        assert!(from(&[
            host,
            ("origin", "http://localhost:8080"),
            ("sec-fetch-site", "same-origin")
        ]));
        assert!(!from(&[host, ("origin", "http://localhost:9090")]));
        assert!(!from(&[host, ("origin", "null")]));
        assert!(!from(&[host, ("sec-fetch-site", "cross-site")]));
        assert!(!from(&[host, ("sec-fetch-site", "same-site")]));
    }
}
