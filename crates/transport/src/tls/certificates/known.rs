//! Identity that the client ports would assign to a certificate that is presented elsewhere.

use std::sync::Arc;

use config::{ClientAuth, Tls};
use rustls::crypto::ring;
use rustls::pki_types::UnixTime;

use super::subject::{Chain, subject};
use super::verify::of_clients;
use crate::tls::context::trusted;
use crate::tls::error::TlsError;
use crate::tls::rules::Endpoint;

/// Reasons why the client ports would not accept a certificate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownCertificate {
    /// The trust store is missing, so no certificate is trusted. Source:
    /// X509AuthenticationProvider.
    #[error("ssl.trustStore.location is missing")]
    NoTrustStore,
    /// The trust store cannot be used.
    #[error(transparent)]
    Store(#[from] TlsError),
    /// The certificate is not trusted.
    #[error("{0}")]
    NotTrusted(String),
}

/// Returns the subject of the first certificate of a chain if the trust store of the client ports
/// trusts the chain. `tls` contains the settings of these ports. The store is read at each call, so
/// call the function only where a wait for the disk is harmless.
///
/// # Errors
/// If the chain is not trusted, or if the trust store is missing or cannot be used.
pub fn known_to_clients(tls: &Tls, chain: &Chain) -> Result<String, UnknownCertificate> {
    if tls.trust_store.location.is_none() {
        return Err(UnknownCertificate::NoTrustStore);
    }
    let prefix = Endpoint::Client.prefix();
    let lists = tls.crl_location.as_deref();
    let trusted = trusted(&tls.trust_store, lists, prefix, tls.accepts_version1)?;
    let provider = Arc::new(ring::default_provider());
    let verifier = of_clients(ClientAuth::Need, Some(trusted), &provider);
    let verifier = verifier.map_err(UnknownCertificate::NotTrusted)?;
    let not_trusted =
        |reason: &dyn std::fmt::Display| UnknownCertificate::NotTrusted(reason.to_string());
    let (own, others) = chain
        .split_first()
        .ok_or_else(|| not_trusted(&"no certificate was sent"))?;
    verifier
        .verify_client_cert(own, others, UnixTime::now())
        .map_err(|error| not_trusted(&error))?;
    subject(own).ok_or_else(|| not_trusted(&"the certificate cannot be parsed"))
}
