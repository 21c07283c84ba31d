//! Certificates of X.509 version 1, which the TLS library does not accept.
//!
//! Older versions of `openssl x509 -req` create them if no extension file is named, and Java
//! accepts them. A certificate of version 1 cannot state what it may be used for, so it is never an
//! authority here. It is accepted in two cases: an authority in the trust store has signed it
//! directly, or it is in the trust store itself. Dates, signature and revocation are checked as for
//! other certificates. The TLS library checks all other certificates.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, SubjectPublicKeyInfoDer,
    TrustAnchor, UnixTime,
};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, DigitallySignedStruct, Error, InconsistentKeys, RootCertStore};
use x509_parser::certificate::Validity;
use x509_parser::prelude::{CertificateRevocationList, FromDer};

use super::der::{self, BIT_STRING, INTEGER, SEQUENCE};

/// A signed structure: a certificate, or a list of revoked certificates.
struct SignedData<'a> {
    /// Bytes that the signature covers.
    data: &'a [u8],
    /// Content of the algorithm's identifier.
    algorithm: &'a [u8],
    /// Bytes of the signature.
    signature: &'a [u8],
}

/// Fields of a certificate of version 1.
struct Version1<'a> {
    signed: SignedData<'a>,
    /// Content of the serial number.
    serial: &'a [u8],
    /// Name of the issuer in DER, without tag and length.
    issuer: &'a [u8],
    /// Start and end of the validity, in seconds since 1970.
    not_before_s: i64,
    not_after_s: i64,
    /// Public key with its algorithm.
    public_key: &'a [u8],
}

impl<'a> SignedData<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = der::only(bytes, SEQUENCE)?.content;
        let data = der::expect(&mut rest, SEQUENCE)?.raw;
        let algorithm = der::expect(&mut rest, SEQUENCE)?.content;
        let signature = der::bits(&der::only(rest, BIT_STRING)?)?;
        Some(Self {
            data,
            algorithm,
            signature,
        })
    }

    /// Returns whether this authority's key created the signature.
    fn is_signed_by(&self, authority: &TrustAnchor<'_>) -> bool {
        let Some(key) = Key::parse(&authority.subject_public_key_info) else {
            return false;
        };
        algorithms().all.iter().any(|algorithm| {
            *algorithm.signature_alg_id() == *self.algorithm
                && *algorithm.public_key_alg_id() == *key.algorithm
                && algorithm
                    .verify_signature(key.bits, self.data, self.signature)
                    .is_ok()
        })
    }
}

/// A public key.
struct Key<'a> {
    algorithm: &'a [u8],
    bits: &'a [u8],
}

impl<'a> Key<'a> {
    /// Parses the content of a SubjectPublicKeyInfo.
    fn parse(mut content: &'a [u8]) -> Option<Self> {
        let algorithm = der::expect(&mut content, SEQUENCE)?.content;
        let bits = der::bits(&der::only(content, BIT_STRING)?)?;
        Some(Self { algorithm, bits })
    }
}

impl<'a> Version1<'a> {
    /// Parses a certificate of version 1. Returns `None` for all other input, such as certificates
    /// of later versions. Later versions begin with their version and may have extensions. A
    /// certificate that claims version 1 and has extensions is refused.
    fn parse(certificate: &'a [u8]) -> Option<Self> {
        let signed = SignedData::parse(certificate)?;
        let mut rest = der::only(signed.data, SEQUENCE)?.content;
        let serial = der::expect(&mut rest, INTEGER)?.content;
        let algorithm = der::expect(&mut rest, SEQUENCE)?.content;
        let issuer = der::expect(&mut rest, SEQUENCE)?.content;
        let validity = der::expect(&mut rest, SEQUENCE)?.raw;
        der::expect(&mut rest, SEQUENCE)?;
        let public_key = der::only(rest, SEQUENCE)?.raw;
        if algorithm != signed.algorithm {
            return None;
        }
        let (_, validity) = Validity::from_der(validity).ok()?;
        Some(Self {
            signed,
            serial,
            issuer,
            not_before_s: validity.not_before.timestamp(),
            not_after_s: validity.not_after.timestamp(),
            public_key,
        })
    }

    fn verify(
        &self,
        authorities: &RootCertStore,
        lists: &[CertificateRevocationListDer<'_>],
        now: UnixTime,
    ) -> Result<(), CertificateError> {
        let now_s = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if now_s < self.not_before_s {
            return Err(CertificateError::NotValidYet);
        }
        if now_s > self.not_after_s {
            return Err(CertificateError::Expired);
        }
        let mut error = CertificateError::UnknownIssuer;
        let named = authorities.roots.iter().filter(|authority| {
            // This verifier does not support name constraints, so it does not accept certificates
            // from an authority that has name constraints.
            *authority.subject == *self.issuer && authority.name_constraints.is_none()
        });
        for authority in named {
            if self.signed.is_signed_by(authority) {
                return self.check_revocation(authority, lists, now_s);
            }
            error = CertificateError::BadSignature;
        }
        Err(error)
    }

    /// Checks the revocation lists. If lists are configured, a valid list from the authority must
    /// exist and must not contain the certificate.
    fn check_revocation(
        &self,
        authority: &TrustAnchor<'_>,
        lists: &[CertificateRevocationListDer<'_>],
        now_s: i64,
    ) -> Result<(), CertificateError> {
        if lists.is_empty() {
            return Ok(());
        }
        for bytes in lists {
            let Some((list, signed)) = CertificateRevocationList::from_der(bytes)
                .ok()
                .zip(SignedData::parse(bytes))
            else {
                continue;
            };
            let (_, list) = list;
            let is_of_authority = der::only(list.issuer().as_raw(), SEQUENCE)
                .is_some_and(|issuer| *issuer.content == *authority.subject);
            if !is_of_authority || !signed.is_signed_by(authority) {
                continue;
            }
            let mut revoked = list.iter_revoked_certificates();
            if revoked.any(|revoked| revoked.raw_serial() == self.serial) {
                return Err(CertificateError::Revoked);
            }
            let ends_s = list.next_update().map(|end| end.timestamp());
            if ends_s.is_none_or(|ends_s| ends_s < now_s) {
                return Err(CertificateError::ExpiredRevocationList);
            }
            // A list that is limited to some distribution points does not cover a certificate
            // without distribution points.
            let is_partial = |extension: &x509_parser::prelude::X509Extension<'_>| {
                extension.oid == x509_parser::oid_registry::OID_X509_EXT_ISSUER_DISTRIBUTION_POINT
            };
            if !list.extensions().iter().any(is_partial) {
                return Ok(());
            }
        }
        Err(CertificateError::UnknownRevocationStatus)
    }
}

fn algorithms() -> WebPkiSupportedAlgorithms {
    ring::default_provider().signature_verification_algorithms
}

/// Returns whether this is a certificate of version 1.
pub(crate) fn is_version1(certificate: &CertificateDer<'_>) -> bool {
    Version1::parse(certificate).is_some()
}

/// Adds a root to the authorities for certificates of version 1, unless the root has version 1
/// itself.
pub(crate) fn add_authority(authorities: &mut RootCertStore, root: &CertificateDer<'_>) {
    if !is_version1(root) {
        // The library cannot use some roots. The caller reports those.
        let _ = authorities.add(root.clone().into_owned());
    }
}

/// Checks that one of the authorities has signed a certificate of version 1 and has not revoked it.
///
/// # Errors
/// If the certificate is not of version 1, is not valid now, was not signed by one of the
/// authorities, or is revoked. Also if revocation lists are configured, but no valid list covers
/// the certificate.
pub(crate) fn verify(
    certificate: &CertificateDer<'_>,
    authorities: &RootCertStore,
    lists: &[CertificateRevocationListDer<'_>],
    now: UnixTime,
) -> Result<(), CertificateError> {
    Version1::parse(certificate)
        .ok_or(CertificateError::BadEncoding)?
        .verify(authorities, lists, now)
}

/// Checks a handshake signature of TLS 1.2.
///
/// # Errors
/// If the certificate's key did not create the signature.
pub(crate) fn verify_tls12_signature(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let public_key = public_key(certificate)?;
    let key = der::only(public_key, SEQUENCE).and_then(|key| Key::parse(key.content));
    let key = key.ok_or(CertificateError::BadEncoding)?;
    let usable = algorithms()
        .mapping
        .iter()
        .filter(|(scheme, _)| *scheme == signature.scheme)
        .flat_map(|(_, algorithms)| algorithms.iter())
        .filter(|algorithm| *algorithm.public_key_alg_id() == *key.algorithm);
    for algorithm in usable {
        if algorithm
            .verify_signature(key.bits, message, signature.signature())
            .is_ok()
        {
            return Ok(HandshakeSignatureValid::assertion());
        }
    }
    Err(CertificateError::BadSignature.into())
}

/// Checks a handshake signature of TLS 1.3.
///
/// # Errors
/// If the certificate's key did not create the signature.
pub(crate) fn verify_tls13_signature(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let key = SubjectPublicKeyInfoDer::from(public_key(certificate)?);
    verify_tls13_signature_with_raw_key(message, &key, signature, &algorithms())
}

fn public_key<'a>(certificate: &'a CertificateDer<'_>) -> Result<&'a [u8], Error> {
    let parsed = Version1::parse(certificate).ok_or(CertificateError::BadEncoding)?;
    Ok(parsed.public_key)
}

/// Returns the key pair for this chain, whose first certificate has version 1.
///
/// # Errors
/// If the private key cannot be loaded or does not belong to that certificate.
pub(crate) fn certified_key(
    chain: Vec<CertificateDer<'static>>,
    private_key: PrivateKeyDer<'static>,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, Error> {
    let key = provider.key_provider.load_private_key(private_key)?;
    let own = chain.first().ok_or(Error::NoCertificatesPresented)?;
    let is_own = match key.public_key() {
        Some(of_key) => of_key.as_ref() == public_key(own)?,
        None => true,
    };
    if !is_own {
        return Err(InconsistentKeys::KeyMismatch.into());
    }
    Ok(CertifiedKey::new(chain, key))
}

/// Checks a certificate of version 1 against one authority and one list of revoked certificates,
/// for fuzzing.
///
/// # Errors
/// If the certificate is not accepted. Returns the reason.
pub fn verify_version1(
    certificate: &[u8],
    authority: &[u8],
    list: Option<&[u8]>,
    now_s: u64,
) -> Result<(), String> {
    let mut authorities = RootCertStore::empty();
    add_authority(&mut authorities, &authority.into());
    let lists: Vec<CertificateRevocationListDer<'_>> = list.map(Into::into).into_iter().collect();
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now_s));
    verify(&certificate.into(), &authorities, &lists, now)
        .map_err(|error| Error::from(error).to_string())
}
