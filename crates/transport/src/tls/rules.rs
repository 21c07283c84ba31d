//! Protocols and cipher suites, by the names that Java and IANA use.

use std::sync::Arc;

use config::Tls;
use rustls::crypto::{CryptoProvider, ring};
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

use super::error::TlsError;

/// Kind of port, which selects the set of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// The client ports, configured by `ssl.*`.
    Client,
    /// The ensemble's ports, configured by `ssl.quorum.*`.
    Quorum,
    /// The admin port, which uses only the stores of `ssl.quorum.*`. Source: JettyAdminServer.
    Admin,
}

impl Endpoint {
    /// Returns the prefix of the port's settings.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Client => "ssl.",
            Self::Quorum | Self::Admin => "ssl.quorum.",
        }
    }
}

/// Java's suites that are not supported: suites with CBC, CCM or DHE, or with a static RSA or ECDH
/// key.
const NOT_HERE: &[&str] = &["_CBC_", "TLS_RSA_WITH_", "TLS_DHE_", "TLS_ECDH_", "_CCM"];

/// Versions that are too old to be supported.
const TOO_OLD: &[&str] = &["TLSv1", "TLSv1.1", "SSLv3", "SSLv2Hello"];

/// Returns the accepted versions. If `enabledProtocols` is not set, the client ports accept only
/// the version in `protocol`, as in Java.
pub(super) fn versions(
    tls: &Tls,
    endpoint: Endpoint,
) -> Result<Vec<&'static SupportedProtocolVersion>, TlsError> {
    let prefix = endpoint.prefix();
    let (key, names) = match (&tls.enabled_protocols, endpoint) {
        (_, Endpoint::Admin) | (None, Endpoint::Quorum) => return Ok(vec![&TLS13, &TLS12]),
        (Some(names), _) => (format!("{prefix}enabledProtocols"), names.clone()),
        (None, Endpoint::Client) => (format!("{prefix}protocol"), vec![tls.protocol.clone()]),
    };
    let mut versions = Vec::new();
    for name in &names {
        match name.as_str() {
            "TLSv1.3" => versions.push(&TLS13),
            "TLSv1.2" => versions.push(&TLS12),
            old if TOO_OLD.contains(&old) => {
                tracing::warn!(
                    key,
                    protocol = old,
                    "ignoring a TLS protocol that is too old to be safe"
                );
            }
            _ => {
                let reason = format!("{name} is not a supported protocol (TLSv1.3, TLSv1.2)");
                return Err(TlsError::Rule { key, reason });
            }
        }
    }
    if versions.is_empty() {
        let reason =
            "the value does not contain a supported protocol (TLSv1.3, TLSv1.2)".to_owned();
        return Err(TlsError::Rule { key, reason });
    }
    Ok(versions)
}

/// Returns the library's provider with the accepted suites, in the configured order.
pub(super) fn provider(tls: &Tls, endpoint: Endpoint) -> Result<Arc<CryptoProvider>, TlsError> {
    let mut provider = ring::default_provider();
    let names = tls.cipher_suites.as_ref();
    if let Some(names) = names.filter(|_| endpoint != Endpoint::Admin) {
        let key = format!("{}ciphersuites", endpoint.prefix());
        provider.cipher_suites = suites(&provider.cipher_suites, &key, names)?;
    }
    Ok(Arc::new(provider))
}

fn suites(
    known: &[SupportedCipherSuite],
    key: &str,
    names: &[String],
) -> Result<Vec<SupportedCipherSuite>, TlsError> {
    let mut suites = Vec::new();
    for name in names {
        match known.iter().find(|suite| iana_name(**suite) == *name) {
            Some(suite) => suites.push(*suite),
            None if NOT_HERE.iter().any(|part| name.contains(part)) => {
                tracing::warn!(key, suite = %name, "ignoring a cipher suite that this server does not support");
            }
            None => {
                let reason = format!("{name} is not a known cipher suite");
                return Err(rule(key, reason));
            }
        }
    }
    if suites.is_empty() {
        let there: Vec<String> = known.iter().map(|suite| iana_name(*suite)).collect();
        let reason = format!(
            "the value does not contain a supported cipher suite; supported cipher suites: {}",
            there.join(", ")
        );
        return Err(rule(key, reason));
    }
    Ok(suites)
}

fn rule(key: &str, reason: String) -> TlsError {
    let key = key.to_owned();
    TlsError::Rule { key, reason }
}

/// Returns the name in IANA's registry, which Java also uses. The library's names for suites of TLS
/// 1.3 begin with `TLS13_`.
fn iana_name(suite: SupportedCipherSuite) -> String {
    let name = format!("{:?}", suite.suite());
    match name.strip_prefix("TLS13_") {
        Some(rest) => format!("TLS_{rest}"),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(names: &[&str]) -> Result<Vec<String>, String> {
        let known = ring::default_provider().cipher_suites;
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let chosen = suites(&known, "ssl.ciphersuites", &names);
        let chosen = chosen.map_err(|error| error.to_string())?;
        Ok(chosen.into_iter().map(iana_name).collect())
    }

    #[test]
    fn suites_are_known_by_the_names_of_java_and_iana() {
        let names = [
            "TLS_AES_256_GCM_SHA384",
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        ];
        assert_eq!(chosen(&names).unwrap(), names);
        let with_old = ["TLS_RSA_WITH_AES_128_CBC_SHA", names[0]];
        assert_eq!(chosen(&with_old).unwrap(), names[..1]);
        let none = chosen(&["TLS_DHE_RSA_WITH_AES_128_CBC_SHA"]).unwrap_err();
        assert!(none.contains("TLS_AES_128_GCM_SHA256"), "{none}");
        let wrong = chosen(&["AES128-SHA"]).unwrap_err();
        assert!(wrong.starts_with("ssl.ciphersuites: AES128-SHA"), "{wrong}");
    }
}
