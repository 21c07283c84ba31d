//! Verification that a certificate is trusted.
//!
//! The library checks chains. In addition, as in Java, a certificate that is in the trust store
//! itself is trusted, regardless of its permitted uses. Most guides create such a self-signed
//! server certificate. Unlike in Java, the current time must be within its validity. Source:
//! PKIXValidator.
//!
//! With revocation lists, each certificate of a chain except its root must be covered by a list
//! that is still valid, and must not be on any list. Java's PKIXRevocationChecker requires this
//! without `SOFT_FAIL`.

use std::sync::Arc;

use config::ClientAuth;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
};
use x509_parser::prelude::{CertificateRevocationList, FromDer, X509Certificate};

use super::version1;

/// Certificates that are trusted.
#[derive(Debug)]
pub(crate) struct Trusted {
    roots: Arc<RootCertStore>,
    certificates: Vec<CertificateDer<'static>>,
    /// Revocation lists.
    revoked: Vec<CertificateRevocationListDer<'static>>,
    /// Authorities for certificates of version 1; `None` if such certificates are not accepted. A
    /// certificate of version 1 is never an authority.
    version1: Option<RootCertStore>,
}

impl Trusted {
    /// Collects the certificates that are not revoked. Returns `None` if the library cannot use any
    /// of them.
    pub(crate) fn new(
        mut certificates: Vec<CertificateDer<'static>>,
        revoked: Vec<CertificateRevocationListDer<'static>>,
        accepts_version1: bool,
    ) -> Option<Self> {
        let mut roots = RootCertStore::empty();
        let mut version1 = accepts_version1.then(RootCertStore::empty);
        let mut left_out = 0;
        certificates.retain(|certificate| !is_revoked(certificate, &revoked));
        for certificate in &certificates {
            if roots.add(certificate.clone()).is_err() {
                left_out += 1;
            }
            if let Some(authorities) = &mut version1 {
                version1::add_authority(authorities, certificate);
            }
        }
        if left_out > 0 {
            tracing::warn!(
                left_out,
                "ignoring unusable certificates of the trust store"
            );
        }
        (!roots.is_empty()).then(|| Self {
            roots: Arc::new(roots),
            certificates,
            revoked,
            version1,
        })
    }

    /// Checks a certificate that is itself in the trust store or has version 1. Returns `false` for
    /// all others, which the library checks.
    fn verifies(&self, certificate: &CertificateDer<'_>, now: UnixTime) -> Result<bool, Error> {
        if self.holds(certificate, now)? {
            return Ok(true);
        }
        let authorities = self.version1.as_ref();
        let Some(authorities) = authorities.filter(|_| version1::is_version1(certificate)) else {
            return Ok(false);
        };
        version1::verify(certificate, authorities, &self.revoked, now)?;
        Ok(true)
    }

    /// Returns whether the verifier for version 1 checks handshake signatures of this certificate.
    fn is_version1(&self, certificate: &CertificateDer<'_>) -> bool {
        self.version1.is_some() && version1::is_version1(certificate)
    }

    /// Returns whether the certificate itself is in the trust store. Fails if it is not valid now.
    fn holds(&self, certificate: &CertificateDer<'_>, now: UnixTime) -> Result<bool, Error> {
        if !self.certificates.iter().any(|held| held == certificate) {
            return Ok(false);
        }
        let (_, parsed) =
            X509Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let validity = parsed.validity();
        if now > validity.not_after.timestamp() {
            return Err(CertificateError::Expired.into());
        }
        if now < validity.not_before.timestamp() {
            return Err(CertificateError::NotValidYet.into());
        }
        Ok(true)
    }
}

/// Returns whether a certificate from the trust store is on a revocation list. Such a certificate
/// is trusted without a chain, so the library does not check whether it is revoked.
fn is_revoked(
    certificate: &CertificateDer<'_>,
    lists: &[CertificateRevocationListDer<'_>],
) -> bool {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
        return false;
    };
    let lists = lists
        .iter()
        .filter_map(|list| CertificateRevocationList::from_der(list).ok());
    let is_on = |list: &CertificateRevocationList<'_>| {
        list.issuer().as_raw() == parsed.issuer().as_raw()
            && list
                .iter_revoked_certificates()
                .any(|revoked| revoked.serial() == &parsed.serial)
    };
    let is_revoked = lists.map(|(_, list)| list).any(|list| is_on(&list));
    if is_revoked {
        tracing::warn!(
            subject = %parsed.subject(),
            "ignoring a revoked certificate of the trust store"
        );
    }
    is_revoked
}

/// Verifier of the peer, based on the library's verifier for the peer's role.
#[derive(Debug)]
struct Verifier<V: ?Sized> {
    trusted: Arc<Trusted>,
    by_chain: Arc<V>,
}

/// Returns the verifier for incoming connections.
pub(crate) fn of_clients(
    wanted: ClientAuth,
    trusted: Option<Arc<Trusted>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let Some(trusted) = trusted.filter(|_| wanted != ClientAuth::None) else {
        return Ok(WebPkiClientVerifier::no_client_auth());
    };
    let roots = trusted.roots.clone();
    let builder = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
    let builder = builder
        .with_crls(trusted.revoked.iter().cloned())
        .enforce_revocation_expiration();
    let builder = match wanted {
        ClientAuth::Need => builder,
        _ => builder.allow_unauthenticated(),
    };
    let by_chain = builder.build().map_err(|error| error.to_string())?;
    Ok(Arc::new(Verifier { trusted, by_chain }))
}

/// Returns the verifier for outgoing connections, which checks the chain. The host is checked after
/// the handshake.
pub(crate) fn of_servers(
    trusted: Arc<Trusted>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let roots = trusted.roots.clone();
    let builder = WebPkiServerVerifier::builder_with_provider(roots, provider.clone());
    let builder = builder
        .with_crls(trusted.revoked.iter().cloned())
        .enforce_revocation_expiration();
    let by_chain = builder.build().map_err(|error| error.to_string())?;
    Ok(Arc::new(Verifier { trusted, by_chain }))
}

/// Delegates checks of handshake signatures to the library, except for certificates of version 1.
macro_rules! signatures_by_chain {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            if self.trusted.is_version1(certificate) {
                return version1::verify_tls12_signature(message, certificate, signature);
            }
            let by_chain = &self.by_chain;
            by_chain.verify_tls12_signature(message, certificate, signature)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            if self.trusted.is_version1(certificate) {
                return version1::verify_tls13_signature(message, certificate, signature);
            }
            let by_chain = &self.by_chain;
            by_chain.verify_tls13_signature(message, certificate, signature)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.by_chain.supported_verify_schemes()
        }
    };
}

impl ClientCertVerifier for Verifier<dyn ClientCertVerifier> {
    fn client_auth_mandatory(&self) -> bool {
        self.by_chain.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.by_chain.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if self.trusted.verifies(end_entity, now)? {
            return Ok(ClientCertVerified::assertion());
        }
        let by_chain = &self.by_chain;
        by_chain.verify_client_cert(end_entity, intermediates, now)
    }

    signatures_by_chain!();
}

impl ServerCertVerifier for Verifier<WebPkiServerVerifier> {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.trusted.verifies(end_entity, now)? {
            return Ok(ServerCertVerified::assertion());
        }
        let by_chain = &self.by_chain;
        let verified =
            by_chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // The library checks the name last, after the chain. A test verifies this order.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    signatures_by_chain!();
}
