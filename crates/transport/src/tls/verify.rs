//! Whether a certificate is trusted.
//!
//! The library checks chains. What it does not know is Java's habit of trusting a certificate that is in
//! the trust store itself, whatever it may be used for: a self-signed one of a server is what most guides
//! make. It must not have expired here, which Java does not ask. Source: PKIXValidator.

use std::sync::Arc;

use config::ClientAuth;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
};
use x509_parser::prelude::{FromDer, X509Certificate};

/// What is trusted.
#[derive(Debug)]
pub(super) struct Trusted {
    roots: Arc<RootCertStore>,
    certificates: Vec<CertificateDer<'static>>,
}

impl Trusted {
    /// `None` if the library can use none of them.
    pub(super) fn new(certificates: Vec<CertificateDer<'static>>) -> Option<Self> {
        let mut roots = RootCertStore::empty();
        let mut left_out = 0;
        for certificate in &certificates {
            if roots.add(certificate.clone()).is_err() {
                left_out += 1;
            }
        }
        if left_out > 0 {
            tracing::warn!(left_out, "certificates of the trust store cannot be used");
        }
        (!roots.is_empty()).then(|| Self {
            roots: Arc::new(roots),
            certificates,
        })
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

/// Checks those who connect to us.
#[derive(Debug)]
struct OfClients {
    trusted: Arc<Trusted>,
    by_chain: Arc<dyn ClientCertVerifier>,
}

/// Checks those to whom we connect: their chain; the host is checked when the handshake is through.
#[derive(Debug)]
struct OfServers {
    trusted: Arc<Trusted>,
    provider: Arc<CryptoProvider>,
    by_chain: Arc<WebPkiServerVerifier>,
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
    let builder =
        WebPkiClientVerifier::builder_with_provider(trusted.roots.clone(), provider.clone());
    let builder = match wanted {
        ClientAuth::Need => builder,
        _ => builder.allow_unauthenticated(),
    };
    let by_chain = builder.build().map_err(|error| error.to_string())?;
    Ok(Arc::new(OfClients { trusted, by_chain }))
}

/// What is asked of those to whom we connect.
pub(super) fn of_servers(
    trusted: Arc<Trusted>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let roots = trusted.roots.clone();
    let by_chain = WebPkiServerVerifier::builder_with_provider(roots, provider.clone());
    let by_chain = by_chain.build().map_err(|error| error.to_string())?;
    Ok(Arc::new(OfServers {
        trusted,
        provider: provider.clone(),
        by_chain,
    }))
}

impl ClientCertVerifier for OfClients {
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
        if self.trusted.holds(end_entity, now)? {
            return Ok(ClientCertVerified::assertion());
        }
        let by_chain = &self.by_chain;
        by_chain.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let by_chain = &self.by_chain;
        by_chain.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let by_chain = &self.by_chain;
        by_chain.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_chain.supported_verify_schemes()
    }
}

impl ServerCertVerifier for OfServers {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.trusted.holds(end_entity, now)? {
            return Ok(ServerCertVerified::assertion());
        }
        let parsed = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        let roots = &self.trusted.roots;
        verify_server_cert_signed_by_trust_anchor(&parsed, roots, intermediates, now, algorithms)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let by_chain = &self.by_chain;
        by_chain.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let by_chain = &self.by_chain;
        by_chain.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_chain.supported_verify_schemes()
    }
}
