//! Certificates for tests of TLS, created during the tests, as files of every format that servers
//! and clients read.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use client::tls::{ClientStores, Connector, Secret, Store};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, SanType, date_time_ymd};
use tempfile::TempDir;
use testkit::certificates::{Authority, Signed, params, self_signed, serial_number};

use crate::command::{find_tool, run};
use crate::secrets::learn;
use crate::skip::Missing;

/// Password of all stores with a password.
pub use crate::secrets::STORE as PASSWORD;

const TOOL_LIMIT: Duration = Duration::from_secs(60);

/// Flaw of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// It expired in 2002.
    Expired,
    /// It becomes valid in 2090.
    NotYetValid,
    /// It is self-signed.
    SelfSigned,
    /// It is for 192.0.2.1.
    OtherHost,
    /// It is not valid for clients.
    ForServersOnly,
    /// It is not valid for servers.
    ForClientsOnly,
}

/// Purpose of a certificate without a flaw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The loopback address is its common name. It does not have alternative names.
    CommonName,
    /// Like [`Kind::CommonName`], but X.509 version 1.
    Version1,
    /// For an application that only connects, and runs on another machine.
    Application,
    /// For a server at 192.0.2.1.
    Elsewhere,
}

/// An authority, and a directory with its signed certificates. `authority.pem` is its own
/// certificate.
pub struct Certificates {
    dir: PathBuf,
    /// The directory, if it is removed with this value.
    _temporary: Option<TempDir>,
    authority: Authority,
}

impl Default for Certificates {
    fn default() -> Certificates {
        Certificates::new()
    }
}

impl Certificates {
    /// Creates an authority that has not signed any certificate yet.
    pub fn new() -> Certificates {
        let temporary = tempfile::tempdir().expect("a directory for certificates");
        let certificates = Certificates::kept_in(temporary.path());
        Certificates {
            _temporary: Some(temporary),
            ..certificates
        }
    }

    /// Creates an authority whose certificates stay in this directory.
    pub fn kept_in(dir: &Path) -> Certificates {
        let authority = Authority::new("Authority");
        fs::create_dir_all(dir).expect("a directory for certificates");
        fs::write(dir.join("authority.pem"), authority.pem()).expect("write a certificate");
        Certificates {
            dir: dir.to_path_buf(),
            _temporary: None,
            authority,
        }
    }

    /// Returns the directory of the files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the path of a file in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Creates `<name>.pem`, a key and a certificate for the loopback address:
    /// `CN=<name>,OU=Ops,O=Test`.
    pub fn sign(&self, name: &str) -> PathBuf {
        self.sign_params(name, &params(name))
    }

    /// Creates a certificate for a name that is not a valid file name.
    pub fn sign_person(&self, file: &str, name: &str) -> PathBuf {
        self.sign_params(file, &params(name))
    }

    /// Creates a certificate with a flaw.
    pub fn sign_flawed(&self, name: &str, flaw: Flaw) -> PathBuf {
        let mut params = params(name);
        let usage = match flaw {
            Flaw::Expired => {
                params.not_before = date_time_ymd(2001, 1, 1);
                params.not_after = date_time_ymd(2002, 1, 1);
                None
            }
            Flaw::NotYetValid => {
                params.not_before = date_time_ymd(2090, 1, 1);
                params.not_after = date_time_ymd(2091, 1, 1);
                None
            }
            Flaw::SelfSigned => {
                return self.write(name, &self_signed(&params));
            }
            Flaw::OtherHost => {
                let other = Ipv4Addr::new(192, 0, 2, 1);
                params.subject_alt_names = vec![SanType::IpAddress(IpAddr::V4(other))];
                None
            }
            Flaw::ForServersOnly => Some(ExtendedKeyUsagePurpose::ServerAuth),
            Flaw::ForClientsOnly => Some(ExtendedKeyUsagePurpose::ClientAuth),
        };
        if let Some(usage) = usage {
            params.extended_key_usages = vec![usage];
        }
        self.sign_params(name, &params)
    }

    /// Makes `<name>.pem`, a key and a certificate for another address.
    pub fn sign_at(&self, name: &str, address: IpAddr) -> PathBuf {
        let mut params = params(name);
        params.subject_alt_names = vec![SanType::IpAddress(address)];
        self.sign_params(name, &params)
    }

    /// Creates `<file>.pem` with a key and a certificate of this kind.
    pub fn sign_for(&self, file: &str, kind: Kind) -> PathBuf {
        let own_name = match kind {
            Kind::CommonName | Kind::Version1 => "127.0.0.1",
            Kind::Application | Kind::Elsewhere => file,
        };
        let mut params = params(own_name);
        params.subject_alt_names.clear();
        params.serial_number = Some(serial_number(file));
        match kind {
            Kind::CommonName => {}
            Kind::Version1 => {
                let signed = self.authority.sign_version1(&params);
                return self.write_pem(file, &signed.key.serialize_pem(), &signed.pem());
            }
            Kind::Application => {
                params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            }
            Kind::Elsewhere => {
                let other = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
                params.subject_alt_names = vec![SanType::IpAddress(other)];
            }
        }
        self.write(file, &self.authority.sign(&params))
    }

    fn sign_params(&self, file: &str, params: &CertificateParams) -> PathBuf {
        let mut params = params.clone();
        params.serial_number = Some(serial_number(file));
        self.write(file, &self.authority.sign(&params))
    }

    /// Replaces a file atomically, because a server may read it concurrently.
    fn write(&self, file: &str, signed: &Signed) -> PathBuf {
        self.write_pem(file, &signed.key.serialize_pem(), &signed.pem())
    }

    fn write_pem(&self, file: &str, private: &str, content: &str) -> PathBuf {
        let path = self.path(&format!("{file}.pem"));
        let beside = self.path(&format!("{file}.pem.new"));
        // The first line of the base64 has the same beginning in all keys.
        let line = private.lines().nth(2).expect("lines");
        learn("a private key", line.as_bytes());
        fs::write(&beside, content).expect("write a key");
        fs::rename(&beside, &path).expect("rename a key");
        path
    }

    /// Creates `<file>`, a list that revokes these certificates.
    pub fn revoke(&self, names: &[&str], file: &str) -> PathBuf {
        let list = self.authority.revoke(names, 4000);
        let path = self.path(file);
        fs::write(&path, list.pem().expect("a list")).expect("write a list");
        path
    }

    /// Creates `<name>.p12` and `<name>.jks` from `<name>.pem`, and `trust.p12` and `trust.jks`
    /// with the authority, with the usual tools.
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

    /// Returns the settings of a server with `<name>` as its key. `prefix` is `ssl.` or
    /// `ssl.quorum.`, and `extension` selects the format of the files.
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

    /// Returns a TLS connector for the Zoarium client, with `<name>.pem` as its key or without one.
    pub fn connector(&self, name: Option<&str>) -> Connector {
        self.connector_with(name, "pem")
    }

    /// Returns the connector with files of this extension.
    pub fn connector_with(&self, name: Option<&str>, extension: &str) -> Connector {
        self.connector_to(name, extension, true)
    }

    /// Returns a connector with `<name>.pem` as its key, for servers whose certificates are for any
    /// host.
    pub fn connector_of_any_host(&self, name: &str) -> Connector {
        self.connector_to(Some(name), "pem", false)
    }

    fn connector_to(&self, name: Option<&str>, extension: &str, checks_hosts: bool) -> Connector {
        let (password, trust) = match extension {
            "pem" => ("", "authority.pem".to_owned()),
            other => (PASSWORD, format!("trust.{other}")),
        };
        let store = |file: &str| Store {
            location: Some(self.path(file)),
            password: Some(Secret::new(password)),
            ..Store::default()
        };
        let stores = ClientStores {
            key: name.map(|name| store(&format!("{name}.{extension}"))),
            trust: Some(store(&trust)),
            checks_hosts,
            resumes_sessions: true,
        };
        Connector::of_client(&stores).expect("stores of a client")
    }
}
