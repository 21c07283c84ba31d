//! Certificates for tests of TLS, made when they run, as files of every kind that servers and clients
//! read.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use client::tls::{ClientStores, Connector, Secret, Store, StoreFormat};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, SanType,
};
use tempfile::TempDir;

use crate::command::{find_tool, run};
use crate::skip::Missing;

/// Password of all stores that have one.
pub const PASSWORD: &str = "changeit-so-long";

const TOOL_LIMIT: Duration = Duration::from_secs(60);

/// An authority, and a directory with what it signed. `authority.pem` is its own certificate.
pub struct Certificates {
    dir: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Default for Certificates {
    fn default() -> Certificates {
        Certificates::new()
    }
}

impl Certificates {
    /// An authority that has signed nothing yet.
    pub fn new() -> Certificates {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "Authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        let dir = tempfile::tempdir().expect("a directory for certificates");
        fs::write(dir.path().join("authority.pem"), pem).expect("write a certificate");
        let issuer = Issuer::new(params, key);
        Certificates { dir, issuer }
    }

    /// Where the files are.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A file among them.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes `<name>.pem`, a key and a certificate for the loopback address: `CN=<name>,OU=Ops,O=Test`.
    pub fn sign(&self, name: &str) -> PathBuf {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in [
            (DnType::OrganizationName, "Test"),
            (DnType::OrganizationalUnitName, "Ops"),
            (DnType::CommonName, name),
        ] {
            params.distinguished_name.push(kind, value);
        }
        params.subject_alt_names = vec![
            SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            SanType::DnsName("localhost".try_into().expect("a name")),
        ];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().expect("a key");
        let signed = params.signed_by(&key, &self.issuer).expect("a certificate");
        let path = self.path(&format!("{name}.pem"));
        let text = format!("{}{}", key.serialize_pem(), signed.pem());
        fs::write(&path, text).expect("write a key");
        path
    }

    /// Makes `<name>.p12` and `<name>.jks` of `<name>.pem`, and `trust.p12` and `trust.jks` with the
    /// authority, by the tools that people use for it.
    ///
    /// # Errors
    /// [`Missing`] without openssl or keytool.
    pub fn convert(&self, name: &str) -> Result<(), Missing> {
        let (openssl, keytool) = (find_tool("openssl")?, find_tool("keytool")?);
        let tool = |program: &Path, arguments: &[&str]| {
            let mut command = Command::new(program);
            command.current_dir(self.dir()).args(arguments);
            run(&mut command, TOOL_LIMIT).unwrap_or_else(|failure| panic!("{failure}"));
        };
        let (pem, p12, jks) = (
            format!("{name}.pem"),
            format!("{name}.p12"),
            format!("{name}.jks"),
        );
        let pass = format!("pass:{PASSWORD}");
        tool(
            &openssl,
            &[
                "pkcs12", "-export", "-in", &pem, "-out", &p12, "-name", name, "-passout", &pass,
            ],
        );
        tool(
            &keytool,
            &[
                "-importkeystore",
                "-noprompt",
                "-srckeystore",
                &p12,
                "-srcstoretype",
                "PKCS12",
                "-srcstorepass",
                PASSWORD,
                "-destkeystore",
                &jks,
                "-deststoretype",
                "JKS",
                "-deststorepass",
                PASSWORD,
            ],
        );
        for (store, kind) in [("trust.p12", "PKCS12"), ("trust.jks", "JKS")] {
            if self.path(store).exists() {
                continue;
            }
            tool(
                &keytool,
                &[
                    "-importcert",
                    "-noprompt",
                    "-alias",
                    "authority",
                    "-file",
                    "authority.pem",
                    "-keystore",
                    store,
                    "-storetype",
                    kind,
                    "-storepass",
                    PASSWORD,
                ],
            );
        }
        Ok(())
    }

    /// Settings of a server with `<name>` as its key: `prefix` is `ssl.` or `ssl.quorum.`, `extension`
    /// which of the files.
    pub fn settings(&self, prefix: &str, name: &str, extension: &str) -> Vec<(String, String)> {
        let trust = match extension {
            "pem" => "authority.pem".to_owned(),
            other => format!("trust.{other}"),
        };
        let path = |name: &str| self.path(name).display().to_string();
        let mut settings = vec![
            (
                format!("{prefix}keyStore.location"),
                path(&format!("{name}.{extension}")),
            ),
            (format!("{prefix}trustStore.location"), path(&trust)),
        ];
        if extension != "pem" {
            for store in ["keyStore", "trustStore"] {
                settings.push((format!("{prefix}{store}.password"), PASSWORD.to_owned()));
            }
        }
        settings
    }

    /// What our client speaks TLS with, with `<name>.pem` as its key or without one.
    pub fn connector(&self, name: Option<&str>) -> Connector {
        let store = |file: &str| Store {
            location: Some(self.path(file)),
            password: Some(Secret::new("")),
            password_path: None,
            format: Some(StoreFormat::Pem),
        };
        let stores = ClientStores {
            key: name.map(|name| store(&format!("{name}.pem"))),
            trust: Some(store("authority.pem")),
            checks_hosts: true,
        };
        Connector::of_client(&stores).expect("stores of a client")
    }
}
