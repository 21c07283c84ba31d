//! Whether a certificate is trusted.
//!
//! The library checks chains. What it does not know is Java's habit of trusting a certificate that is in
//! the trust store itself, whatever it may be used for: a self-signed one of a server is what most guides
//! make. It must not have expired here, which Java does not ask. Source: PKIXValidator.
//!
//! With lists of revoked certificates, every certificate of a chain but its root must be on none of them and in the
//! charge of one that is still good, as Java's PKIXRevocationChecker wants it without `SOFT_FAIL`.

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

/// What is trusted.
#[derive(Debug)]
pub(super) struct Trusted {
    roots: Arc<RootCertStore>,
    certificates: Vec<CertificateDer<'static>>,
    /// Lists of what is trusted no more.
    revoked: Vec<CertificateRevocationListDer<'static>>,
    /// The authorities of certificates of version 1; absent if such certificates are not accepted. A certificate of
    /// version 1 is none of them.
    version1: Option<RootCertStore>,
}

impl Trusted {
    /// `None` if the library can use none of them.
    pub(super) fn new(
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
            tracing::warn!(left_out, "certificates of the trust store cannot be used");
        }
        (!roots.is_empty()).then(|| Self {
            roots: Arc::new(roots),
            certificates,
            revoked,
            version1,
        })
    }

    /// Checks a certificate that is in the trust store itself, or has version 1. The result is false for all others,
    /// which the library checks.
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

    /// Whether signatures of handshakes with this certificate are checked by the verifier of version 1.
    fn is_version1(&self, certificate: &CertificateDer<'_>) -> bool {
        self.version1.is_some() && version1::is_version1(certificate)
    }

    /// Whether it is one of those that are trusted themselves.
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

/// Whether a certificate of the trust store is on a list. Nobody vouches for it but the store, so nobody else would look.
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
            "a certificate of the trust store is revoked: it is not trusted"
        );
    }
    is_revoked
}

/// Checks the other side, by one of the library's verifiers for what it is.
#[derive(Debug)]
struct Verifier<V: ?Sized> {
    trusted: Arc<Trusted>,
    by_chain: Arc<V>,
}

/// What is asked of those who connect.
pub(super) fn of_clients(
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

/// What is asked of those to whom we connect: their chain; the host is checked when the handshake is through.
pub(super) fn of_servers(
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

/// Checks signatures of the handshake by the library, except those with certificates of version 1.
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
            // The library looks at the name last, when the chain is good: a test holds it to that.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    signatures_by_chain!();
}
