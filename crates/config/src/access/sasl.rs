//! SASL of clients and members, configured in the sections of the JAAS file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proto::Secret;

use super::jaas_sections::{FoundSection, Jaas, asks_for_sasl, requires_sasl, why_missing};
use super::provider::AuthProvider;
use crate::config::ensemble::QuorumSasl;
use crate::error::ConfigError;
use crate::formats::jaas::{JaasFile, Section};
use crate::formats::kerberos::KerberosNames;
use crate::registry::security as keys;
use crate::report::origin::{Notice, Origin};
use crate::settings::WrittenSettings;

/// SASL settings for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sasl {
    /// Mechanism and credentials for logins of clients. Absent if the JAAS file does not contain
    /// the section for clients.
    pub acceptor: Option<SaslAcceptor>,
    /// Whether a connection survives a failed login.
    pub allow_failed_clients: bool,
    /// Id that matches every SASL user in an ACL.
    pub any_user_id: Option<String>,
    /// Whether the host is removed from Kerberos names.
    pub remove_host_from_principal: bool,
    /// Whether the realm is removed from Kerberos names.
    pub remove_realm_from_principal: bool,
    /// Whether hosts of members are replaced by their canonical names.
    pub canonicalize_host_names: bool,
    /// Rules that map Kerberos names to user names.
    pub auth_to_local: String,
    /// Configuration file of the Kerberos library, instead of the system's file.
    pub krb5_conf: Option<PathBuf>,
}

/// Mechanism and credentials for incoming logins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SaslAcceptor {
    /// Users with a password.
    DigestMd5(SaslUsers),
    /// Users with a ticket for this key.
    Kerberos(KerberosKey),
}

/// Mechanism and credentials of this server for outgoing logins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SaslInitiator {
    /// Login with a password.
    DigestMd5(SaslLogin),
    /// Login with a ticket that the server obtains with this key.
    Kerberos(KerberosKey),
}

/// Kerberos name and the file of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KerberosKey {
    /// Full name, such as `zookeeper/host@REALM`.
    pub principal: String,
    /// File that contains the key.
    pub key_tab: PathBuf,
}

/// Users' names and passwords.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaslUsers(BTreeMap<String, Secret>);

/// Name and password of a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaslLogin {
    /// Name of the user.
    pub user: String,
    /// Password of the user.
    pub password: Secret,
}

/// Login module of DIGEST-MD5.
const DIGEST_MODULE: &str = "org.apache.zookeeper.server.auth.DigestLoginModule";
/// Login module of Kerberos.
const KERBEROS_MODULE: &str = "com.sun.security.auth.module.Krb5LoginModule";
/// Prefix of the options that contain users of the DIGEST-MD5 module.
const USER: &str = "user_";
/// User whose password `SASLAuthenticationProvider.superPassword` replaces.
const SUPER: &str = "super";

impl SaslUsers {
    /// Creates the users from names and passwords.
    pub fn new(users: impl IntoIterator<Item = (String, Secret)>) -> Self {
        Self(users.into_iter().collect())
    }

    /// Returns the password of a user.
    pub fn password(&self, user: &str) -> Option<&Secret> {
        self.0.get(user)
    }

    /// Reads the users of a section like Java's DIGEST-MD5 servers.
    fn of(jaas: &JaasFile, section: &Section) -> Result<Self, ConfigError> {
        let mut users = BTreeMap::new();
        for module in &section.modules {
            check_module(jaas, section, module)?;
            for (option, password) in &module.options {
                if let Some(user) = option.strip_prefix(USER) {
                    users.insert(user.to_owned(), password.clone());
                }
            }
        }
        Ok(Self(users))
    }
}

impl SaslLogin {
    /// Reads the login of a section. Source: DigestLoginModule.initialize.
    fn of(jaas: &JaasFile, section: &Section) -> Result<Self, ConfigError> {
        for module in &section.modules {
            check_module(jaas, section, module)?;
            let option = |name: &str| module.options.get(name);
            if let (Some(user), Some(password)) = (option("username"), option("password")) {
                return Ok(Self {
                    user: user.expose().to_owned(),
                    password: password.clone(),
                });
            }
        }
        let reason = format!(
            "the section {} does not contain a username and a password for the login",
            section.name
        );
        let hint = r#"add username="..." and password="..." after its login module"#;
        Err(at(jaas, section.line, reason).hint(hint))
    }
}

impl SaslAcceptor {
    /// Reads the credentials for incoming logins from a section. The first module of the section
    /// determines the mechanism.
    pub(crate) fn of(found: &FoundSection<'_>) -> Result<Self, ConfigError> {
        match KerberosKey::of(found)? {
            Some(key) => Ok(Self::Kerberos(key)),
            None => SaslUsers::of(found.file, found.section).map(Self::DigestMd5),
        }
    }
}

impl SaslInitiator {
    /// Reads the outgoing login of a section.
    pub(crate) fn of(found: &FoundSection<'_>) -> Result<Self, ConfigError> {
        match KerberosKey::of(found)? {
            Some(key) => Ok(Self::Kerberos(key)),
            None => SaslLogin::of(found.file, found.section).map(Self::DigestMd5),
        }
    }
}

impl KerberosKey {
    /// Reads the key of a section. Returns `None` if the first module is not the Kerberos module.
    /// Source: Krb5LoginModule of the JDK.
    fn of(found: &FoundSection<'_>) -> Result<Option<Self>, ConfigError> {
        let FoundSection { file, section, .. } = *found;
        let Some(module) = section
            .modules
            .first()
            .filter(|module| module.class == KERBEROS_MODULE)
        else {
            return Ok(None);
        };
        if !found.has_gssapi {
            let refusal = &crate::registry::KERBEROS;
            let reason = format!("the section {} {}", section.name, refusal.reason);
            return Err(at(file, module.line, reason).hint(refusal.way_out));
        }
        let option = |name: &str| {
            let value = module.options.get(name).map(Secret::expose);
            value.map(str::trim).filter(|value| !value.is_empty())
        };
        let wrong = |what: &str, hint: &str| {
            let reason = format!("the section {} {what}", section.name);
            Err(at(file, module.line, reason).hint(hint))
        };
        if !option("useKeyTab").is_some_and(|flag| flag.eq_ignore_ascii_case("true")) {
            return wrong(
                "does not use a key tab, which this server requires",
                "add useKeyTab=true keyTab=\"...\"",
            );
        }
        let Some(key_tab) = option("keyTab") else {
            return wrong("does not name a key tab", "add keyTab=\"...\"");
        };
        let principal = option("principal").filter(|name| *name != "*");
        let Some(principal) = principal else {
            return wrong(
                "does not name a principal",
                "add principal=\"<service>/<host>@<REALM>\"",
            );
        };
        let key_tab = key_tab.strip_prefix("FILE:").unwrap_or(key_tab);
        Ok(Some(Self {
            principal: principal.to_owned(),
            key_tab: Path::new(key_tab.strip_prefix("file:").unwrap_or(key_tab)).to_owned(),
        }))
    }
}

fn check_module(
    jaas: &JaasFile,
    section: &Section,
    module: &crate::formats::jaas::Module,
) -> Result<(), ConfigError> {
    if module.class == DIGEST_MODULE {
        return Ok(());
    }
    let reason = format!(
        "the section {} uses the unknown login module {}",
        section.name, module.class
    );
    Err(at(jaas, module.line, reason).hint(format!("use {DIGEST_MODULE} or {KERBEROS_MODULE}")))
}

fn at(jaas: &JaasFile, line: u32, reason: String) -> ConfigError {
    ConfigError::new(reason)
        .with_id(crate::report::finding::JAAS)
        .at(Some(&Origin::line_of(jaas.path(), line)))
}

impl Sasl {
    pub(crate) fn read(
        settings: &mut WrittenSettings,
        providers: &BTreeMap<String, AuthProvider>,
        jaas: &Jaas,
    ) -> Result<Self, ConfigError> {
        let acceptor = read_acceptor(settings, providers, jaas)?;
        let auth_to_local = settings.text(&keys::AUTH_TO_LOCAL).unwrap_or_default();
        if matches!(acceptor, Some(SaslAcceptor::Kerberos(_))) {
            check_rules(settings, &auth_to_local)?;
        }
        Ok(Self {
            acceptor,
            allow_failed_clients: settings.flag(&keys::ALLOW_SASL_FAILED_CLIENTS)?,
            any_user_id: settings.some_text(&keys::LET_ANY_SASL_USER_DO_X),
            remove_host_from_principal: settings.flag(&keys::KERBEROS_REMOVE_HOST)?,
            remove_realm_from_principal: settings.flag(&keys::KERBEROS_REMOVE_REALM)?,
            canonicalize_host_names: settings.flag(&keys::KERBEROS_CANONICALIZE)?,
            auth_to_local,
            krb5_conf: settings.path(&keys::KRB5_CONF),
        })
    }
}

/// Checks that logins of clients and members are accepted with the same key tab. The Kerberos
/// library supports only one key tab for all accepted logins of a process.
pub(crate) fn check_one_key_tab(
    clients: &Sasl,
    members: Option<&QuorumSasl>,
) -> Result<(), ConfigError> {
    let of_members = members.and_then(|members| members.may_join.as_ref());
    let (Some(SaslAcceptor::Kerberos(one)), Some(SaslAcceptor::Kerberos(other))) =
        (&clients.acceptor, of_members)
    else {
        return Ok(());
    };
    if one.key_tab == other.key_tab {
        return Ok(());
    }
    let reason = format!(
        "clients log in with a key in {}, and members with a key in {}, but the Kerberos library \
         reads only one key tab",
        one.key_tab.display(),
        other.key_tab.display()
    );
    Err(ConfigError::new(reason).hint("put both keys into one key tab, with ktutil"))
}

fn check_rules(settings: &WrittenSettings, rules: &str) -> Result<(), ConfigError> {
    let Err(fault) = KerberosNames::parse(rules, false, false) else {
        return Ok(());
    };
    let reason = fault.to_string();
    let error = match settings.find(&keys::AUTH_TO_LOCAL) {
        Some(found) => found.refused(reason),
        None => ConfigError::new(reason),
    };
    Err(error.hint("write DEFAULT, or RULE:[<parts>:<format>](<pattern>)s/<from>/<to>/g"))
}

/// Reads the acceptor of clients' logins from its section. Without the section, logins are
/// impossible, and a warning is added if SASL is configured. Source:
/// ServerCnxnFactory.configureSaslLogin.
fn read_acceptor(
    settings: &mut WrittenSettings,
    providers: &BTreeMap<String, AuthProvider>,
    jaas: &Jaas,
) -> Result<Option<SaslAcceptor>, ConfigError> {
    let section = settings.text(&keys::SASL_SERVER_CONFIG).unwrap_or_default();
    let Some(found) = jaas.offered(&section) else {
        warn_without_section(settings, providers, jaas, &section)?;
        return Ok(None);
    };
    let mut users = match SaslAcceptor::of(&found)? {
        SaslAcceptor::DigestMd5(users) => users,
        by_ticket @ SaslAcceptor::Kerberos(_) => return Ok(Some(by_ticket)),
    };
    if let Some(password) = settings.secret(&keys::SASL_SUPER_PASSWORD) {
        match users.0.get_mut(SUPER) {
            Some(replaced) => *replaced = password,
            None => {
                if let Some(found) = settings.find(&keys::SASL_SUPER_PASSWORD) {
                    let text = format!(
                        "no effect because the section {section} of the JAAS file does not \
                         contain {USER}{SUPER}"
                    );
                    settings.notices.push(found.no_effect(text));
                }
            }
        }
    }
    if users.0.is_empty() {
        let notice = Notice {
            level: crate::report::origin::NoticeLevel::Warn,
            origin: Some(Origin::line_of(found.file.path(), found.section.line)),
            key: None,
            id: crate::report::finding::JAAS,
            text: format!(
                "all logins will fail because the section {} does not contain {USER}<name>",
                found.section.name
            ),
        };
        settings.notices.push(notice);
    }
    Ok(Some(SaslAcceptor::DigestMd5(users)))
}

/// Warns if the SASL provider or the name of the section is configured, but the section is missing.
fn warn_without_section(
    settings: &mut WrittenSettings,
    providers: &BTreeMap<String, AuthProvider>,
    jaas: &Jaas,
    section: &str,
) -> Result<(), ConfigError> {
    let asking = match settings.find(&keys::SASL_SERVER_CONFIG) {
        Some(found) => Some(found),
        None => sasl_provider(providers).and_then(|label| settings.provider(label)),
    };
    let Some(asking) = asking else {
        return Ok(());
    };
    let outcome = if requires_sasl(settings)? {
        "the server refuses every session because SASL is required"
    } else {
        "the server accepts clients without a login, as Apache ZooKeeper does"
    };
    let text = format!(
        "SASL logins will fail because {}, and {outcome} (start with -D{}=<file> and write a \
         section {section} into the file)",
        why_missing(jaas.file.as_ref(), section),
        keys::JAAS_FILE.name
    );
    settings.notices.push(Notice {
        id: crate::report::finding::JAAS,
        ..asking.warning(text)
    });
    Ok(())
}

/// Returns the label of the SASL provider.
fn sasl_provider(providers: &BTreeMap<String, AuthProvider>) -> Option<&str> {
    let mut all = providers.iter();
    let found = all.find(|(_, provider)| **provider == AuthProvider::Sasl);
    found.map(|(label, _)| label.as_str())
}

/// Returns whether all SASL logins would fail, although the provider is configured and
/// `requireClientAuthScheme` names SASL.
pub(crate) fn must_refuse_everybody(
    settings: &WrittenSettings,
    providers: &BTreeMap<String, AuthProvider>,
    sasl: &Sasl,
) -> bool {
    sasl.acceptor.is_none() && sasl_provider(providers).is_some() && asks_for_sasl(settings)
}
