//! `zoarium.traces.*`: export of write traces.

use std::num::NonZeroU32;

use http::Uri;

use crate::error::ConfigError;
use crate::registry::operations as keys;
use crate::settings::WrittenSettings;

/// Settings of write traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceExport {
    /// URL of the collector.
    pub url: Uri,
    /// Sampling interval: one in this many writes is traced.
    pub every: NonZeroU32,
}

/// Default port of a collector. Source: the OpenTelemetry specification, "OTLP Exporter".
const OTLP_PORT: u16 = 4318;
const OTLP_PATH: &str = "/v1/traces";

impl TraceExport {
    /// Reads the settings. Returns `None` if a collector is not configured.
    pub(super) fn read(settings: &mut WrittenSettings) -> Result<Option<Self>, ConfigError> {
        let every: u32 = settings.int(&keys::TRACES_EVERY)?;
        let Some(text) = settings.some_text(&keys::TRACES_ENDPOINT) else {
            return Ok(None);
        };
        let url = collector(&text).map_err(|reason| {
            let error = match settings.find(&keys::TRACES_ENDPOINT) {
                Some(found) => found.refused(reason),
                None => ConfigError::new(reason),
            };
            error.hint("write http://host:port/path; a collector on this machine can forward traces over TLS")
        })?;
        let every = NonZeroU32::new(every).unwrap_or(NonZeroU32::MIN);
        Ok(Some(Self { url, every }))
    }
}

/// Parses the URL, and adds a default port and path.
fn collector(text: &str) -> Result<Uri, String> {
    let url: Uri = text
        .parse()
        .map_err(|error| format!("`{text}` is not a URL: {error}"))?;
    let Some(authority) = url.authority() else {
        return Err(format!("`{text}` does not contain a host"));
    };
    match url.scheme_str() {
        Some("http") => {}
        Some(other) => return Err(format!("traces are sent over http, not over {other}")),
        None => return Err(format!("`{text}` is not an http URL")),
    }
    if authority.as_str().contains('@') {
        return Err("the URL must not contain a user or a password".to_owned());
    }
    let host = authority.host();
    let port = match authority.as_str().strip_prefix(host).unwrap_or_default() {
        "" => OTLP_PORT,
        given => given
            .trim_start_matches(':')
            .parse()
            .map_err(|_| format!("`{text}` does not contain a valid port"))?,
    };
    let authority = format!("{host}:{port}");
    let path = match url.path_and_query() {
        Some(path) if path != "/" => path.as_str(),
        _ => OTLP_PATH,
    };
    let whole = Uri::builder().scheme("http").authority(authority);
    let whole = whole.path_and_query(path).build();
    whole.map_err(|error| format!("`{text}` is not a URL: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_url_needs_only_a_host() {
        let whole = |text: &str| collector(text).map(|url| url.to_string());
        let usual = Ok("http://collector:4318/v1/traces".to_owned());
        assert_eq!(whole("http://collector"), usual);
        assert_eq!(whole("http://collector:4318/v1/traces"), usual);
        let other = Ok("http://[::1]:9/otlp?a=b".to_owned());
        assert_eq!(whole("http://[::1]:9/otlp?a=b"), other);
    }

    #[test]
    fn other_urls_are_refused_with_a_reason() {
        for (text, reason) in [
            ("https://collector", "not over https"),
            ("collector:4318", "no"),
            ("/v1/traces", "does not contain a host"),
            (
                "http://user:word@collector",
                "must not contain a user or a password",
            ),
            ("http://", "not a URL"),
            ("http://collector:99999", "valid port"),
            ("http://collector:", "valid port"),
        ] {
            let refused = collector(text).expect_err(text);
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }
}
