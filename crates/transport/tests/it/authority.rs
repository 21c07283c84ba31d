//! Certificates for tests, made when they run.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use config::{ClientAuth, Secret, Store, StoreFormat, Tls};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    SanType,
};

/// Who signs certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

/// A certificate and its key, as PEM.
pub(crate) struct Signed {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = params(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Self { issuer, pem }
    }

    pub(crate) fn sign(&self, params: &CertificateParams) -> Signed {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Signed {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }

    /// For a server or client of this name on the loopback address.
    pub(crate) fn member(&self, name: &str) -> Signed {
        self.sign(&params(name))
    }
}

/// A certificate for this name, on 127.0.0.1, good for both sides.
pub(crate) fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params
        .distinguished_name
        .push(DnType::OrganizationName, "Test");
    let loopback: IpAddr = [127, 0, 0, 1].into();
    params.subject_alt_names = vec![SanType::IpAddress(loopback)];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params
}

/// A self-signed one, with the mark of an authority or without.
pub(crate) fn self_signed(name: &str, is_ca: bool) -> Signed {
    let mut params = params(name);
    if is_ca {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    }
    let key = KeyPair::generate().unwrap();
    Signed {
        certificate: params.self_signed(&key).unwrap().pem(),
        key: key.serialize_pem(),
    }
}

pub(crate) fn store(path: &Path, password: Option<&str>, format: Option<StoreFormat>) -> Store {
    Store {
        location: Some(path.to_owned()),
        password: password.map(Secret::new),
        password_path: None,
        format,
    }
}

/// The settings of an endpoint with these two PEM files, which are written.
pub(crate) fn settings(dir: &Path, name: &str, own: &Signed, trusted: &str) -> Tls {
    let key = dir.join(format!("{name}-key.pem"));
    let trust = dir.join(format!("{name}-trust.pem"));
    write_key(&key, own);
    fs::write(&trust, trusted).unwrap();
    Tls {
        key_store: store(&key, None, None),
        trust_store: store(&trust, None, None),
        protocol: "TLSv1.3".to_owned(),
        enabled_protocols: None,
        cipher_suites: None,
        client_auth: ClientAuth::Need,
        hostname_verification: true,
        client_hostname_verification: false,
        allow_reverse_dns_lookup: false,
        crl: false,
        ocsp: false,
        handshake_detection_timeout_ms: 5000,
    }
}

pub(crate) fn write_key(path: &PathBuf, own: &Signed) {
    fs::write(path, format!("{}{}", own.key, own.certificate)).unwrap();
}
