//! Whom the client ports would know by a certificate that was shown elsewhere.

use std::sync::Arc;

use config::{ClientAuth, Tls};
use rustls::crypto::ring;
use rustls::pki_types::UnixTime;

use super::certificate::{Chain, subject};
use super::context::trusted;
use super::error::TlsError;
use super::rules::Endpoint;
use super::verify::of_clients;

/// Why somebody is nobody there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unknown {
    /// Without a trust store nobody is known. Source: X509AuthenticationProvider.
    #[error("ssl.trustStore.location is missing")]
    NoTrustStore,
    /// It cannot be used.
    #[error(transparent)]
    Store(#[from] TlsError),
    /// The certificate is not trusted there.
    #[error("{0}")]
    NotTrusted(String),
}

/// The subject of a chain, if the trust store of the client ports, whose settings these are, trusts it. The store is
/// read each time: not in a task that others wait for.
///
/// # Errors
/// Why it is not trusted.
pub fn known_to_clients(tls: &Tls, chain: &Chain) -> Result<String, Unknown> {
    if tls.trust_store.location.is_none() {
        return Err(Unknown::NoTrustStore);
    }
    let prefix = Endpoint::Client.prefix();
    let lists = tls.crl_location.as_deref();
    let trusted = trusted(&tls.trust_store, lists, prefix, tls.accepts_version1)?;
    let provider = Arc::new(ring::default_provider());
    let verifier = of_clients(ClientAuth::Need, Some(trusted), &provider);
    let verifier = verifier.map_err(Unknown::NotTrusted)?;
    let not_trusted = |reason: &dyn std::fmt::Display| Unknown::NotTrusted(reason.to_string());
    let (own, others) = chain
        .split_first()
        .ok_or_else(|| not_trusted(&"there is no certificate"))?;
    verifier
        .verify_client_cert(own, others, UnixTime::now())
        .map_err(|error| not_trusted(&error))?;
    subject(own).ok_or_else(|| not_trusted(&"it cannot be parsed"))
}
