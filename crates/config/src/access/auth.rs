//! Settings for the authentication of clients.

use std::collections::{BTreeMap, BTreeSet};

use proto::{LateSecret, Secret};

use super::jaas_sections::Jaas;
pub use super::provider::AuthProvider;
use super::sasl::{Sasl, must_refuse_everybody};
use crate::error::ConfigError;
use crate::registry::PREFIX;
use crate::registry::security as keys;
use crate::settings::WrittenSettings;

/// Settings for the authentication of clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Auth {
    /// Superuser's credential: `super:` and the digest of the password.
    pub super_digest: Option<Secret>,
    /// Administrators' credential in `dataDir`. It is empty until the running server loads it.
    pub admin_token: LateSecret,
    /// Whether the scheme `digest` is enabled.
    pub digest_enabled: bool,
    /// Hash algorithm for ids of the scheme `digest`.
    pub digest_algorithm: DigestAlgorithm,
    /// Providers that `authProvider.<label>` adds to `ip` and `digest`, by label. A label with an
    /// unknown class is absent, and is among the refusals of the configuration.
    pub providers: BTreeMap<String, AuthProvider>,
    /// Subject of the superuser's certificate.
    pub x509_super_user: Option<String>,
    /// Names with the superuser's rights, from SASL or another scheme.
    pub super_users: BTreeSet<String>,
    /// Authentication schemes, at least one of which each client must use. Absent if authentication
    /// is optional.
    pub enforced_schemes: Option<Vec<String>>,
    /// Maximum number of failed logins per minute and client address. Absent if unlimited.
    pub failures_per_minute_max: Option<u32>,
    /// Names of this ensemble for the scheme `ensemble`. Absent if every name is accepted.
    pub ensemble_names: Option<Vec<String>>,
    /// Whether the first address of `X-Forwarded-For` is the address of an admin client.
    pub use_x_forwarded_for: bool,
    /// SASL settings for clients.
    pub sasl: Sasl,
}

/// Hash algorithm for ids of the scheme `digest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DigestAlgorithm {
    /// MD5.
    Md5,
    /// SHA-1.
    #[default]
    Sha1,
    /// SHA-224.
    Sha224,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
    /// SHA3-224.
    Sha3_224,
    /// SHA3-256.
    Sha3_256,
    /// SHA3-384.
    Sha3_384,
    /// SHA3-512.
    Sha3_512,
}

impl DigestAlgorithm {
    /// Returns the algorithm with this name. Ignores case, as Java does.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name.to_ascii_uppercase().as_str() {
            "MD5" => Self::Md5,
            "SHA" | "SHA1" | "SHA-1" => Self::Sha1,
            "SHA224" | "SHA-224" => Self::Sha224,
            "SHA256" | "SHA-256" => Self::Sha256,
            "SHA384" | "SHA-384" => Self::Sha384,
            "SHA512" | "SHA-512" => Self::Sha512,
            "SHA3-224" => Self::Sha3_224,
            "SHA3-256" => Self::Sha3_256,
            "SHA3-384" => Self::Sha3_384,
            "SHA3-512" => Self::Sha3_512,
            _ => return None,
        })
    }
}

impl Auth {
    pub(crate) fn read(settings: &mut WrittenSettings, jaas: &Jaas) -> Result<Self, ConfigError> {
        let providers = read_providers(settings);
        let digest_enabled = settings.flag(&keys::DIGEST_AUTH_ENABLED)?;
        let sasl = Sasl::read(settings, &providers, jaas)?;
        let mut enforced_schemes = read_enforced_schemes(settings, &providers, digest_enabled)?;
        if must_refuse_everybody(settings, &providers, &sasl) {
            let scheme = AuthProvider::Sasl.scheme().to_owned();
            enforced_schemes.get_or_insert_with(|| vec![scheme]);
        }
        Ok(Self {
            super_digest: settings.secret(&keys::SUPER_DIGEST),
            admin_token: LateSecret::default(),
            digest_enabled,
            digest_algorithm: read_digest_algorithm(settings)?,
            enforced_schemes,
            sasl,
            providers,
            x509_super_user: settings.some_text(&keys::X509_SUPER_USER),
            super_users: read_super_users(settings),
            failures_per_minute_max: settings.positive(&keys::AUTH_FAILURES_MAX)?,
            ensemble_names: settings.list(&keys::ENSEMBLE_AUTH_NAME),
            use_x_forwarded_for: settings.flag(&keys::USE_X_FORWARDED_FOR)?,
        })
    }
}

/// Checks that a provider for the scheme of `ssl.authProvider` is configured. Registers the missing
/// provider of the scheme `x509`.
///
/// Source: Java's QuorumPeerConfig.configureSSLAuth.
pub(crate) fn require_tls_provider(settings: &mut WrittenSettings) -> Result<(), ConfigError> {
    let scheme = settings.text(&keys::SSL_AUTH_PROVIDER).unwrap_or_default();
    let property = format!("{PREFIX}{AUTH_PROVIDER}{scheme}");
    if settings.properties.get(&property).is_some() {
        return Ok(());
    }
    if scheme == AuthProvider::X509.scheme() {
        settings.properties.set(&property, keys::X509_CLASS, None);
        return Ok(());
    }
    let reason =
        format!("No auth provider configured for the SSL authentication scheme '{scheme}'.");
    let error = match settings.find(&keys::SSL_AUTH_PROVIDER) {
        Some(found) => found.refused(reason),
        None => ConfigError::new(reason),
    };
    Err(error.hint(format!("add {AUTH_PROVIDER}{scheme}=<class>")))
}

fn read_providers(settings: &WrittenSettings) -> BTreeMap<String, AuthProvider> {
    let beginning = format!("{PREFIX}{AUTH_PROVIDER}");
    let written = settings.properties.iter();
    let known = written.filter_map(|(name, class)| {
        let label = name.strip_prefix(&beginning)?;
        Some((label.to_owned(), AuthProvider::of_class(class)?))
    });
    known.collect()
}

fn read_super_users(settings: &WrittenSettings) -> BTreeSet<String> {
    let name = format!("{PREFIX}{}", keys::SUPER_USER.name);
    let more = format!("{name}.");
    let users = settings.properties.iter();
    users
        .filter(|(property, _)| *property == name || property.starts_with(&more))
        .filter(|(_, user)| !user.is_empty())
        .map(|(_, user)| user.to_owned())
        .collect()
}

fn read_digest_algorithm(settings: &WrittenSettings) -> Result<DigestAlgorithm, ConfigError> {
    let name = settings.text(&keys::DIGEST_ALG).unwrap_or_default();
    DigestAlgorithm::parse(&name).ok_or_else(|| {
        let reason =
            format!("don't support this ACL digest algorithm: {name} in the current environment");
        let error = match settings.find(&keys::DIGEST_ALG) {
            Some(found) => found.refused(reason),
            None => ConfigError::new(reason),
        };
        error.hint("choose SHA1, SHA-256, SHA-512, SHA3-256 or a similar algorithm")
    })
}

/// Source: Java's AuthenticationHelper.
fn read_enforced_schemes(
    settings: &mut WrittenSettings,
    providers: &BTreeMap<String, AuthProvider>,
    digest_enabled: bool,
) -> Result<Option<Vec<String>>, ConfigError> {
    let (switch, schemes) = if settings.flag(&keys::SESSION_REQUIRE_SASL)? {
        let sasl = AuthProvider::Sasl.scheme().to_owned();
        (&keys::SESSION_REQUIRE_SASL, vec![sasl])
    } else if settings.flag(&keys::ENFORCE_AUTH_ENABLED)? {
        let schemes = settings
            .list(&keys::ENFORCE_AUTH_SCHEMES)
            .unwrap_or_default();
        (&keys::ENFORCE_AUTH_ENABLED, schemes)
    } else {
        return Ok(None);
    };
    let refused = |reason: String| match settings.find(switch) {
        Some(found) => found.refused(reason),
        None => ConfigError::new(reason),
    };
    if schemes.is_empty() {
        let reason = "zookeeper.enforce.auth.enabled is true zookeeper.enforce.auth.schemes must \
                      be  configured.";
        let hint = "add a line such as enforce.auth.schemes=sasl,digest";
        return Err(refused(reason.to_owned()).hint(hint));
    }
    let is_available = |scheme: &str| {
        scheme == AuthProvider::Ip.scheme()
            || (digest_enabled && scheme == AuthProvider::Digest.scheme())
            || providers
                .values()
                .any(|provider| provider.scheme() == scheme)
    };
    if let Some(missing) = schemes.iter().find(|scheme| !is_available(scheme)) {
        let reason = format!("Authentication scheme {missing} is not available.");
        return Err(refused(reason).hint(format!("add {AUTH_PROVIDER}{missing}=<class>")));
    }
    Ok(Some(schemes))
}

pub(crate) const AUTH_PROVIDER: &str = "authProvider.";
