//! TLS settings for clients and between members: files and rules.

use std::path::PathBuf;

use proto::Secret;

use crate::error::ConfigError;
use crate::registry::security::{self, TlsKeys, client_tls, quorum_tls};
use crate::registry::{Key, cluster};
use crate::settings::WrittenSettings;

/// TLS settings of the client ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientTls {
    /// Files and rules. Without `enabled_protocols` only `protocol` is accepted.
    pub tls: Tls,
    /// Scheme whose provider authenticates TLS clients.
    pub auth_provider: String,
    /// Whether changed stores are reloaded at runtime.
    pub cert_reload: bool,
}

/// TLS settings between members, and the stores of the admin port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumTls {
    /// Whether connections between members use TLS.
    pub is_enabled: bool,
    /// Whether the ports also accept plain connections.
    pub port_unification: bool,
    /// Whether changed stores are reloaded at runtime.
    pub cert_reload: bool,
    /// Action when a certificate does not belong to a member.
    pub member_check: MemberCheckMode,
    /// Patterns of accepted names in members' certificates, in addition to the hosts of the member
    /// list.
    pub members: Vec<String>,
    /// Files and rules. The admin port also uses the stores. Without `enabled_protocols`, TLS 1.3
    /// and 1.2 are accepted.
    pub tls: Tls,
}

/// Action at a port of the ensemble when a certificate does not belong to a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemberCheckMode {
    /// The certificate is accepted, and a warning is logged.
    Warn,
    /// The connection is refused.
    Refuse,
    /// The certificate is accepted.
    Off,
}

/// Files and rules of a TLS endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// Own key and certificates.
    pub key_store: Store,
    /// Trusted certificates. Without a location, the certificates of the platform are trusted.
    pub trust_store: Store,
    /// TLS version that client ports accept if `enabled_protocols` is absent.
    pub protocol: String,
    /// Accepted TLS versions.
    pub enabled_protocols: Option<Vec<String>>,
    /// IANA names of the accepted cipher suites.
    pub cipher_suites: Option<Vec<String>>,
    /// Whether the peer must present a certificate.
    pub client_auth: ClientAuth,
    /// Whether a server's certificate must contain its host.
    pub hostname_verification: bool,
    /// Whether a client's certificate must contain its host.
    pub client_hostname_verification: bool,
    /// Whether the host may be looked up from the address for these checks.
    pub allow_reverse_dns_lookup: bool,
    /// Whether revocation lists are downloaded.
    pub crl: bool,
    /// File with lists of revoked certificates.
    pub crl_location: Option<PathBuf>,
    /// Whether revocation is checked by OCSP.
    pub ocsp: bool,
    /// Whether certificates of X.509 version 1 are accepted.
    pub accepts_version1: bool,
    /// Time limit for the first bytes, which distinguish TLS from plain connections, in
    /// milliseconds.
    pub handshake_detection_timeout_ms: u32,
}

/// Key store or trust store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Store {
    /// Path of the file.
    pub location: Option<PathBuf>,
    /// Password of the store.
    pub password: Option<Secret>,
    /// File with the password. It takes precedence over `password`.
    pub password_path: Option<PathBuf>,
    /// Format of the store. By default, the file's extension determines it.
    pub format: Option<StoreFormat>,
}

/// Format of a store.
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

/// Requirement for the certificate of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientAuth {
    /// The certificate is not requested.
    None,
    /// The certificate is requested, but optional.
    Want,
    /// The certificate is required.
    Need,
}

impl ClientTls {
    pub(crate) fn read(settings: &mut WrittenSettings) -> Result<Self, ConfigError> {
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
    pub(crate) fn read(settings: &mut WrittenSettings) -> Result<Self, ConfigError> {
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
    fn read(settings: &mut WrittenSettings, keys: &TlsKeys) -> Result<Self, ConfigError> {
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

impl Store {
    /// Returns the store that a client's properties name, such as
    /// `zookeeper.ssl.keyStore.location`. `which` is `keyStore` or `trustStore`.
    pub fn of_client(which: &str, property: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let find = |what: &str| property(&format!("zookeeper.ssl.{which}.{what}"));
        Some(Self {
            location: Some(find("location")?.into()),
            password: find("password").map(Secret::new),
            password_path: find("passwordPath").map(PathBuf::from),
            format: find("type").and_then(|name| StoreFormat::of(&name)),
        })
    }
}

impl StoreFormat {
    fn of(name: &str) -> Option<Self> {
        match name {
            "JKS" => Some(Self::Jks),
            "PEM" => Some(Self::Pem),
            "PKCS12" => Some(Self::Pkcs12),
            "BCFKS" => Some(Self::Bcfks),
            _ => None,
        }
    }
}

fn store_format(
    settings: &mut WrittenSettings,
    key: &Key,
) -> Result<Option<StoreFormat>, ConfigError> {
    Ok(settings.choice(key)?.and_then(StoreFormat::of))
}
