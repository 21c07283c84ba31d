//! Who may log in by SASL, and as whom this server logs in with other members: from the sections of the JAAS file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::config::auth::AuthProvider;
use crate::error::ConfigError;
use crate::jaas::{JaasFile, Section};
use crate::origin::Origin;
use crate::properties::MAX_BYTES;
use crate::registry::security as keys;
use crate::secret::Secret;
use crate::settings::Settings;
use crate::surroundings::Surroundings;

/// SASL of clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sasl {
    /// Who may log in; absent is no SASL.
    pub users: Option<SaslUsers>,
    /// A connection survives a failed login.
    pub allow_failed_clients: bool,
    /// Id that in an ACL stands for every SASL user.
    pub any_user_id: Option<String>,
    /// The host is cut off Kerberos names.
    pub remove_host_from_principal: bool,
    /// The realm is cut off Kerberos names.
    pub remove_realm_from_principal: bool,
    /// Hosts of members are replaced by their canonical names.
    pub canonicalize_host_names: bool,
    /// Rules that turn Kerberos names into user names.
    pub auth_to_local: String,
}

/// Names and passwords.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaslUsers(BTreeMap<String, Secret>);

/// As whom somebody logs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaslLogin {
    /// The name.
    pub user: String,
    /// The password.
    pub password: Secret,
}

/// The login module of DIGEST-MD5.
const DIGEST_MODULE: &str = "org.apache.zookeeper.server.auth.DigestLoginModule";
/// What the options of its users begin with.
const USER: &str = "user_";
/// The user whose password a setting replaces.
const SUPER: &str = "super";

impl SaslUsers {
    /// Users by name.
    pub fn new(users: impl IntoIterator<Item = (String, Secret)>) -> Self {
        Self(users.into_iter().collect())
    }

    /// The password of a user.
    pub fn password(&self, user: &str) -> Option<&Secret> {
        self.0.get(user)
    }

    /// The users of a section, as Java's DIGEST-MD5 servers find them.
    pub(super) fn of(jaas: &JaasFile, section: &Section) -> Result<Self, ConfigError> {
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
    /// The login of a section. Source: DigestLoginModule.initialize.
    pub(super) fn of(jaas: &JaasFile, section: &Section) -> Result<Self, ConfigError> {
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
            "the section {} says neither username nor password to log in by",
            section.name
        );
        let hint = r#"add username="..." and password="..." behind its login module"#;
        Err(at(jaas, section.line, reason).hint(hint))
    }
}

fn check_module(
    jaas: &JaasFile,
    section: &Section,
    module: &crate::jaas::Module,
) -> Result<(), ConfigError> {
    if module.class == DIGEST_MODULE {
        return Ok(());
    }
    let reason = format!(
        "the section {} logs in by {}, and this release has DIGEST-MD5 only",
        section.name, module.class
    );
    Err(at(jaas, module.line, reason).hint(format!("use {DIGEST_MODULE}")))
}

fn at(jaas: &JaasFile, line: u32, reason: String) -> ConfigError {
    ConfigError::new(reason).at(Some(&Origin::line_of(jaas.path(), line)))
}

/// The JAAS file, if one is named.
pub(super) fn read_jaas_file(
    settings: &Settings,
    surroundings: &mut dyn Surroundings,
) -> Result<Option<JaasFile>, ConfigError> {
    let Some(found) = settings
        .find(&keys::JAAS_FILE)
        .filter(|found| !found.text.is_empty())
    else {
        return Ok(None);
    };
    let path = path_of(&found.text);
    let text = surroundings.read(&path, MAX_BYTES).map_err(|error| {
        let reason = format!("the JAAS file {} cannot be read: {error}", path.display());
        found.refused(reason).hint(
            "nobody could log in, and everybody would be let in without: name a file that this \
             server may read",
        )
    })?;
    JaasFile::parse(&path, &text, &settings.properties).map(Some)
}

/// A second `=` in front says to Java that no other file counts; a `file:` URL is taken, too.
fn path_of(written: &str) -> PathBuf {
    let path = written.strip_prefix('=').unwrap_or(written);
    let path = path
        .strip_prefix("file://")
        .or(path.strip_prefix("file:"))
        .unwrap_or(path);
    Path::new(path).to_owned()
}

/// A section that must be there, for the sake of this setting.
pub(super) fn required<'a>(
    settings: &Settings,
    jaas: Option<&'a JaasFile>,
    section: &str,
    asking: &crate::registry::Key,
) -> Result<(&'a JaasFile, &'a Section), ConfigError> {
    let reason = match jaas {
        None => "asks for SASL, and no JAAS file says who may log in: everybody would be let in \
                 without"
            .to_owned(),
        Some(jaas) => {
            if let Some(found) = jaas.section(section) {
                return Ok((jaas, found));
            }
            let names: Vec<&str> = jaas.names().collect();
            format!(
                "asks for SASL, and the JAAS file {} has no section {section} (it has: {})",
                jaas.path().display(),
                if names.is_empty() {
                    "none".to_owned()
                } else {
                    names.join(", ")
                }
            )
        }
    };
    let error = match settings.find(asking) {
        Some(found) => found.refused(reason),
        None => ConfigError::new(reason),
    };
    Err(error.hint(format!(
        "start with -D{}=<file> and have a section {section} in the file, or leave SASL out",
        keys::JAAS_FILE.name
    )))
}

impl Sasl {
    pub(super) fn read(
        settings: &mut Settings,
        providers: &BTreeMap<String, AuthProvider>,
        jaas: Option<&JaasFile>,
    ) -> Result<Self, ConfigError> {
        Ok(Self {
            users: read_users(settings, providers, jaas)?,
            allow_failed_clients: settings.flag(&keys::ALLOW_SASL_FAILED_CLIENTS)?,
            any_user_id: settings.some_text(&keys::LET_ANY_SASL_USER_DO_X),
            remove_host_from_principal: settings.flag(&keys::KERBEROS_REMOVE_HOST)?,
            remove_realm_from_principal: settings.flag(&keys::KERBEROS_REMOVE_REALM)?,
            canonicalize_host_names: settings.flag(&keys::KERBEROS_CANONICALIZE)?,
            auth_to_local: settings.text(&keys::AUTH_TO_LOCAL).unwrap_or_default(),
        })
    }
}

/// Java starts without SASL, and lets everybody in, where the section or the file is missing and
/// only the provider asks for it. Source: ServerCnxnFactory.configureSaslLogin.
fn read_users(
    settings: &mut Settings,
    providers: &BTreeMap<String, AuthProvider>,
    jaas: Option<&JaasFile>,
) -> Result<Option<SaslUsers>, ConfigError> {
    let section = settings.text(&keys::SASL_SERVER_CONFIG).unwrap_or_default();
    let provider = providers
        .iter()
        .find(|(_, known)| **known == AuthProvider::Sasl);
    let found = if settings.find(&keys::SASL_SERVER_CONFIG).is_some() {
        Some(required(
            settings,
            jaas,
            &section,
            &keys::SASL_SERVER_CONFIG,
        )?)
    } else if let Some((label, _)) = provider {
        let asked = required(settings, jaas, &section, &keys::JAAS_FILE);
        Some(asked.map_err(|error| settings.at_provider(label, error))?)
    } else {
        jaas.and_then(|jaas| Some((jaas, jaas.section(&section)?)))
    };
    let Some((jaas, section)) = found else {
        return Ok(None);
    };
    let mut users = SaslUsers::of(jaas, section)?;
    if let Some(password) = settings.secret(&keys::SASL_SUPER_PASSWORD) {
        match users.0.get_mut(SUPER) {
            Some(replaced) => *replaced = password,
            None => {
                if let Some(found) = settings.find(&keys::SASL_SUPER_PASSWORD) {
                    let text = format!("no effect: the section has no {USER}{SUPER}");
                    settings.notices.push(found.warning(text));
                }
            }
        }
    }
    if users.0.is_empty() {
        let notice = crate::origin::Notice {
            level: crate::origin::NoticeLevel::Warn,
            origin: Some(Origin::line_of(jaas.path(), section.line)),
            key: None,
            text: format!(
                "the section {} has no {USER}<name>: nobody can log in",
                section.name
            ),
        };
        settings.notices.push(notice);
    }
    Ok(Some(users))
}
