//! Protocols and cipher suites, by the names that Java and IANA give them.

use std::sync::Arc;

use config::Tls;
use rustls::crypto::{CryptoProvider, ring};
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

use super::error::TlsError;

/// Which of the two sets of settings holds, and what follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// The client ports: `ssl.*`.
    Client,
    /// The ports of the ensemble: `ssl.quorum.*`.
    Quorum,
    /// The admin port: the stores of `ssl.quorum.*`, and nothing else of it. Source: JettyAdminServer.
    Admin,
}

impl Endpoint {
    /// How the names of its settings begin.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Client => "ssl.",
            Self::Quorum | Self::Admin => "ssl.quorum.",
        }
    }
}

/// Suites that Java has too, and that are not here: those without forward secrecy or without
/// authenticated encryption.
const NOT_HERE: &[&str] = &["_CBC_", "TLS_RSA_WITH_", "TLS_DHE_", "TLS_ECDH_", "_CCM"];

/// Versions that are too old to be had.
const TOO_OLD: &[&str] = &["TLSv1", "TLSv1.1", "SSLv3", "SSLv2Hello"];

/// The versions that are taken. Without `enabledProtocols` the client ports take what `protocol` says
/// and nothing else, as in Java.
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
                    "protocol left out: it is too old to be safe"
                );
            }
            _ => {
                let reason = format!("{name} is no protocol that is known (TLSv1.3, TLSv1.2)");
                return Err(TlsError::Rule { key, reason });
            }
        }
    }
    if versions.is_empty() {
        let reason = "it leaves no protocol: TLSv1.3 and TLSv1.2 are there".to_owned();
        return Err(TlsError::Rule { key, reason });
    }
    Ok(versions)
}

/// The library with the suites that are taken, in the order that is written.
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
                tracing::warn!(key, suite = %name, "cipher suite left out: it is not there, since it is weaker than those that are");
            }
            None => {
                let reason = format!("{name} is no cipher suite that is known");
                return Err(rule(key, reason));
            }
        }
    }
    if suites.is_empty() {
        let there: Vec<String> = known.iter().map(|suite| iana_name(*suite)).collect();
        let reason = format!("it leaves no cipher suite; there are {}", there.join(", "));
        return Err(rule(key, reason));
    }
    Ok(suites)
}

fn rule(key: &str, reason: String) -> TlsError {
    let key = key.to_owned();
    TlsError::Rule { key, reason }
}

/// The name in IANA's registry, which is also Java's: the library writes TLS 1.3 ones as `TLS13_...`.
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
