//! Certificates, stores and other files of a run.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, SanType, date_time_ymd};
use tempfile::TempDir;
use testkit::certificates::{Authority, Signed, SignedVersion1, params, self_signed};

use super::stores::{Format, PASSWORD, Pair};

/// Kind of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It contains the addresses of all members.
    Valid,
    /// X.509 version 1. It does not contain addresses.
    Version1,
    /// It expired in 2002.
    Expired,
    SelfSigned,
    /// It contains the address of another host.
    Elsewhere,
}

/// Directory with the files of a run, which is removed with this value.
#[derive(Debug)]
pub(crate) struct Files {
    dir: TempDir,
    addresses: Vec<IpAddr>,
}

impl Files {
    pub(crate) fn new(addresses: Vec<IpAddr>) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        Self { dir, addresses }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Replaces a file atomically, because a server may read it.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let (path, new) = (self.path(name), self.path(&format!("{name}.new")));
        fs::write(&new, content).expect("write a file");
        fs::rename(new, &path).expect("rename a file");
        path
    }

    /// Creates a key with a certificate for `CN=<name>,OU=Ops,O=Test`.
    pub(crate) fn sign(&self, authority: &Authority, name: &str, kind: Kind) -> Pair {
        let mut params = self.params(name);
        match kind {
            Kind::Valid => of_signed(&authority.sign(&params)),
            Kind::Version1 => of_version1(&authority.sign_version1(&params)),
            Kind::Expired => {
                params.not_before = date_time_ymd(2001, 1, 1);
                params.not_after = date_time_ymd(2002, 1, 1);
                of_signed(&authority.sign(&params))
            }
            Kind::Elsewhere => {
                let other = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
                params.subject_alt_names = vec![SanType::IpAddress(other)];
                of_signed(&authority.sign(&params))
            }
            Kind::SelfSigned => of_signed(&self_signed(&params)),
        }
    }

    fn params(&self, name: &str) -> CertificateParams {
        let mut params = params(name);
        let own = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let addresses = self.addresses.iter().copied().chain([own]);
        params.subject_alt_names = addresses.map(SanType::IpAddress).collect();
        params
    }

    /// Writes a key store and returns its path.
    pub(crate) fn key_store(&self, name: &str, pair: &Pair, format: Format) -> PathBuf {
        let name = format!("{name}.{}", format.extension());
        self.write(&name, format.key_store(pair))
    }

    /// Writes a trust store and returns its path.
    pub(crate) fn trust_store(&self, name: &str, pem: &str, format: Format) -> PathBuf {
        let name = format!("{name}.{}", format.extension());
        self.write(&name, format.trust_store(pem))
    }

    /// Returns the lines of zoo.cfg for a store. `key` is the name of a setting without
    /// `.location`. `has_file` selects a file with the password.
    pub(crate) fn lines(&self, key: &str, path: &Path, format: Format, has_file: bool) -> String {
        let mut lines = format!("{key}.location={}\n", path.display());
        if has_file {
            lines += &format!("{key}.type={}\n", format.name());
        }
        lines += &match format {
            Format::Pem => String::new(),
            _ if has_file => {
                let password = self.write("password", format!("{PASSWORD}\n"));
                format!("{key}.passwordPath={}\n", password.display())
            }
            _ => format!("{key}.password={PASSWORD}\n"),
        };
        lines
    }
}

fn of_signed(signed: &Signed) -> Pair {
    Pair {
        key: signed.key.serialize_der(),
        certificate: signed.certificate.der().to_vec(),
        pem: signed.pem(),
    }
}

fn of_version1(signed: &SignedVersion1) -> Pair {
    Pair {
        key: signed.key.serialize_der(),
        certificate: signed.der.clone(),
        pem: signed.pem(),
    }
}
