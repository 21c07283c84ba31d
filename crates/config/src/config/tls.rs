//! TLS, for clients and between members: which files and which rules.

use std::path::PathBuf;

use proto::Secret;

use crate::error::ConfigError;
use crate::registry::security::{self, TlsKeys, client_tls, quorum_tls};
use crate::registry::{Key, cluster};
use crate::settings::Settings;

/// TLS of the client ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientTls {
    /// Files and rules. Without `enabled_protocols` only `protocol` is taken.
    pub tls: Tls,
    /// Scheme whose provider authenticates TLS clients.
    pub auth_provider: String,
    /// Changed stores are loaded while running.
    pub cert_reload: bool,
}

/// TLS between members, and the stores of the admin port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumTls {
    /// Connections between members use TLS.
    pub is_enabled: bool,
    /// The ports take plain connections too.
    pub port_unification: bool,
    /// Changed stores are loaded while running.
    pub cert_reload: bool,
    /// How a certificate is treated that belongs to no member.
    pub member_check: MemberCheckMode,
    /// Patterns of the names in members' certificates, in addition to the hosts of the member list.
    pub members: Vec<String>,
    /// Files and rules; the admin port has the stores, too. Without `enabled_protocols` TLS 1.3
    /// and 1.2 are taken.
    pub tls: Tls,
}

/// How a certificate at a port of the ensemble is treated that belongs to no member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemberCheckMode {
    /// It is accepted, and the log reports it.
    Warn,
    /// The connection is refused.
    Refuse,
    /// It is accepted.
    Off,
}

/// Files and rules of a TLS endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The own key and certificates.
    pub key_store: Store,
    /// The certificates that are trusted; without a location, the platform's.
    pub trust_store: Store,
    /// TLS version.
    pub protocol: String,
    /// TLS versions that are taken.
    pub enabled_protocols: Option<Vec<String>>,
    /// IANA names of the cipher suites that are taken.
    pub cipher_suites: Option<Vec<String>>,
    /// Whether the other side must show a certificate.
    pub client_auth: ClientAuth,
    /// A server's host must be in its certificate.
    pub hostname_verification: bool,
    /// A client's host must be in its certificate.
    pub client_hostname_verification: bool,
    /// The name for that may be looked up from the address.
    pub allow_reverse_dns_lookup: bool,
    /// Revocation lists are fetched.
    pub crl: bool,
    /// File with lists of revoked certificates.
    pub crl_location: Option<PathBuf>,
    /// OCSP is asked.
    pub ocsp: bool,
    /// Certificates of X.509 version 1 are accepted.
    pub accepts_version1: bool,
    /// Time for the first bytes that tell TLS from plain, in milliseconds.
    pub handshake_detection_timeout_ms: u32,
}

/// A key or trust store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Store {
    /// The file.
    pub location: Option<PathBuf>,
    /// Its password.
    pub password: Option<Secret>,
    /// File with the password; it wins.
    pub password_path: Option<PathBuf>,
    /// Its format; absent goes by the extension of the file.
    pub format: Option<StoreFormat>,
}

/// The format of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreFormat {
    /// Java key store.
    Jks,
    /// PEM.
    Pem,
    /// PKCS #12.
    Pkcs12,
    /// Bouncy Castle's FIPS key store.
    Bcfks,
}

/// What is asked of the other side's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientAuth {
    /// It is not asked for.
    None,
    /// It is asked for, and may be absent.
    Want,
    /// Without it there is no connection.
    Need,
}

impl ClientTls {
    pub(super) fn read(settings: &mut Settings) -> Result<Self, ConfigError> {
        Ok(Self {
            tls: Tls::read(settings, &client_tls::KEYS)?,
            auth_provider: settings
                .text(&security::SSL_AUTH_PROVIDER)
                .unwrap_or_default(),
            cert_reload: settings.flag(&security::CLIENT_CERT_RELOAD)?,
        })
    }
}

impl QuorumTls {
    pub(super) fn read(settings: &mut Settings) -> Result<Self, ConfigError> {
        Ok(Self {
            is_enabled: settings.flag(&cluster::SSL_QUORUM)?,
            port_unification: settings.flag(&cluster::PORT_UNIFICATION)?,
            cert_reload: settings.flag(&cluster::SSL_QUORUM_RELOAD)?,
            member_check: match settings.choice(&cluster::SSL_QUORUM_MEMBER_CHECK)? {
                Some("refuse") => MemberCheckMode::Refuse,
                Some("off") => MemberCheckMode::Off,
                _ => MemberCheckMode::Warn,
            },
            members: settings
                .list(&cluster::SSL_QUORUM_MEMBERS)
                .unwrap_or_default(),
            tls: Tls::read(settings, &quorum_tls::KEYS)?,
        })
    }
}

impl Tls {
    fn read(settings: &mut Settings, keys: &TlsKeys) -> Result<Self, ConfigError> {
        let key_store = Store {
            location: settings.path(keys.key_store_location),
            password: settings.secret(keys.key_store_password),
            password_path: settings.path(keys.key_store_password_path),
            format: store_format(settings, keys.key_store_type)?,
        };
        let trust_store = Store {
            location: settings.path(keys.trust_store_location),
            password: settings.secret(keys.trust_store_password),
            password_path: settings.path(keys.trust_store_password_path),
            format: store_format(settings, keys.trust_store_type)?,
        };
        Ok(Self {
            key_store,
            trust_store,
            protocol: settings.text(keys.protocol).unwrap_or_default(),
            enabled_protocols: settings.list(keys.enabled_protocols),
            cipher_suites: settings.list(keys.cipher_suites),
            client_auth: match settings.choice(keys.client_auth)? {
                Some("none") => ClientAuth::None,
                Some("want") => ClientAuth::Want,
                _ => ClientAuth::Need,
            },
            hostname_verification: settings.flag(keys.hostname_verification)?,
            client_hostname_verification: settings.flag(keys.client_hostname_verification)?,
            allow_reverse_dns_lookup: settings.flag(keys.allow_reverse_dns_lookup)?,
            crl: settings.flag(keys.crl)?,
            crl_location: settings.path(keys.crl_location),
            ocsp: settings.flag(keys.ocsp)?,
            accepts_version1: settings.flag(&security::SSL_VERSION1)?,
            handshake_detection_timeout_ms: settings.int(keys.handshake_detection_timeout)?,
        })
    }
}

fn store_format(settings: &mut Settings, key: &Key) -> Result<Option<StoreFormat>, ConfigError> {
    Ok(match settings.choice(key)? {
        Some("JKS") => Some(StoreFormat::Jks),
        Some("PEM") => Some(StoreFormat::Pem),
        Some("PKCS12") => Some(StoreFormat::Pkcs12),
        Some("BCFKS") => Some(StoreFormat::Bcfks),
        _ => None,
    })
}
