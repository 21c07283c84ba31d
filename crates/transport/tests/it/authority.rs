//! Certificates as settings of an endpoint.

use std::fs;
use std::path::{Path, PathBuf};

use config::{ClientAuth, Secret, Store, StoreFormat, Tls};
use rcgen::{BasicConstraints, IsCa};
use testkit::certificates;
pub(crate) use testkit::certificates::{Authority, Signed, params};

/// Creates a self-signed certificate, marked as an authority or not.
pub(crate) fn self_signed(name: &str, is_ca: bool) -> Signed {
    let mut params = params(name);
    if is_ca {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    }
    certificates::self_signed(&params)
}

pub(crate) fn store(path: &Path, password: Option<&str>, format: Option<StoreFormat>) -> Store {
    Store {
        location: Some(path.to_owned()),
        password: password.map(Secret::new),
        password_path: None,
        format,
    }
}

/// Writes these two PEM files and returns the settings of an endpoint with them.
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
        crl_location: None,
        ocsp: false,
        accepts_version1: true,
        handshake_detection_timeout_ms: 5000,
    }
}

pub(crate) fn write_key(path: &PathBuf, own: &Signed) {
    fs::write(path, own.pem()).unwrap();
}
