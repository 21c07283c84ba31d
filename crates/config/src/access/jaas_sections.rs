//! JAAS file, and the sections that settings name.

use std::io::ErrorKind;

use super::provider::AuthProvider;
use crate::error::ConfigError;
use crate::formats::jaas::{JaasFile, Section, path_of};
use crate::formats::properties::MAX_BYTES;
use crate::registry::security as keys;
use crate::report::origin::Notice;
use crate::settings::WrittenSettings;
use crate::surroundings::Surroundings;

/// JAAS file, and whether this build supports Kerberos.
pub(crate) struct Jaas {
    pub(crate) file: Option<JaasFile>,
    has_gssapi: bool,
}

/// Section of the JAAS file.
pub(crate) struct FoundSection<'a> {
    pub(crate) file: &'a JaasFile,
    pub(crate) section: &'a Section,
    pub(crate) has_gssapi: bool,
}

impl Jaas {
    pub(crate) fn read(
        settings: &mut WrittenSettings,
        surroundings: &mut dyn Surroundings,
    ) -> Result<Self, ConfigError> {
        Ok(Self {
            file: read_jaas_file(settings, surroundings)?,
            has_gssapi: surroundings.has_gssapi(),
        })
    }

    /// Returns a section that a setting requires.
    pub(crate) fn required(
        &self,
        settings: &WrittenSettings,
        name: &str,
        asking: &crate::registry::Key,
    ) -> Result<FoundSection<'_>, ConfigError> {
        let (file, section) = required(settings, self.file.as_ref(), name, asking)?;
        Ok(FoundSection {
            file,
            section,
            has_gssapi: self.has_gssapi,
        })
    }

    /// Returns an optional section.
    pub(crate) fn offered(&self, name: &str) -> Option<FoundSection<'_>> {
        let file = self.file.as_ref()?;
        Some(FoundSection {
            file,
            section: file.section(name)?,
            has_gssapi: self.has_gssapi,
        })
    }
}

/// Reads the JAAS file, if one is configured. Refuses a configured file that cannot be read,
/// because without the file all clients would be admitted. If the file is missing and a setting
/// requires SASL, the server starts without the file and refuses all sessions.
fn read_jaas_file(
    settings: &mut WrittenSettings,
    surroundings: &mut dyn Surroundings,
) -> Result<Option<JaasFile>, ConfigError> {
    let Some(found) = settings
        .find(&keys::JAAS_FILE)
        .filter(|found| !found.text.is_empty())
    else {
        return Ok(None);
    };
    let path = path_of(&found.text);
    let error = match surroundings.read(&path, MAX_BYTES) {
        Ok(text) => return JaasFile::parse(&path, &text, &settings.properties).map(Some),
        Err(error) => error,
    };
    let reason = format!("the JAAS file {} cannot be read: {error}", path.display());
    if error.kind() == ErrorKind::NotFound && requires_sasl(settings)? {
        settings.notices.push(Notice {
            id: crate::report::finding::JAAS,
            ..found.warning(reason)
        });
        return Ok(None);
    }
    Err(found.refused(reason).hint(
        "without the file, SASL logins would fail, and clients would be accepted without a login; \
         name a file that this server may read",
    ))
}

/// Returns whether a setting admits only clients that have logged in by SASL.
/// `requireClientAuthScheme` comes from old guides and has no effect in Apache ZooKeeper. In
/// Zoarium, its value `sasl` counts as such a setting.
pub(crate) fn requires_sasl(settings: &mut WrittenSettings) -> Result<bool, ConfigError> {
    let is_sasl = |scheme: &String| scheme == AuthProvider::Sasl.scheme();
    let enforced = settings.flag(&keys::ENFORCE_AUTH_ENABLED)?
        && settings
            .list(&keys::ENFORCE_AUTH_SCHEMES)
            .is_some_and(|schemes| schemes.iter().any(is_sasl));
    Ok(enforced || settings.flag(&keys::SESSION_REQUIRE_SASL)? || asks_for_sasl(settings))
}

pub(crate) fn asks_for_sasl(settings: &WrittenSettings) -> bool {
    settings
        .text(&keys::REQUIRE_CLIENT_AUTH_SCHEME)
        .is_some_and(|scheme| scheme == AuthProvider::Sasl.scheme())
}

/// Returns a section that a setting requires.
fn required<'a>(
    settings: &WrittenSettings,
    jaas: Option<&'a JaasFile>,
    section: &str,
    asking: &crate::registry::Key,
) -> Result<(&'a JaasFile, &'a Section), ConfigError> {
    if let Some(found) = jaas.and_then(|jaas| Some((jaas, jaas.section(section)?))) {
        return Ok(found);
    }
    let reason = format!(
        "requires SASL, but {}, so every member would be accepted without a login",
        why_missing(jaas, section)
    );
    let error = match settings.find(asking) {
        Some(found) => found.refused(reason),
        None => ConfigError::new(reason),
    };
    let error = error.with_id(crate::report::finding::JAAS);
    Err(error.hint(format!(
        "start with -D{}=<file> and write a section {section} into the file, or remove the SASL settings",
        keys::JAAS_FILE.name
    )))
}

/// Returns the reason why the section does not exist.
pub(crate) fn why_missing(jaas: Option<&JaasFile>, section: &str) -> String {
    let Some(jaas) = jaas else {
        return "no JAAS file is configured".to_owned();
    };
    let names: Vec<&str> = jaas.names().collect();
    format!(
        "the JAAS file {} does not contain the section {section} (its sections: {})",
        jaas.path().display(),
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        }
    )
}
