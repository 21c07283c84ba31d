//! Configuration file as text with line numbers, before its settings are interpreted.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use proto::Secret;

use super::java;
use super::properties::{Entry, NaturalLines, Properties, PropertiesError, escape_value};
use crate::error::ConfigError;
use crate::membership::is_member_key;
use crate::registry::{self, HIDDEN};
use crate::report::finding;
use crate::report::origin::Origin;

/// Text and entries of a configuration file.
///
/// `Debug` does not show values, because some are passwords.
#[derive(Clone, PartialEq, Eq)]
pub struct RawConfig {
    path: PathBuf,
    bytes: Vec<u8>,
    properties: Properties,
    settings: BTreeMap<String, RawSetting>,
}

/// Effective entry of a key. Key and value are without surrounding blanks.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct RawSetting {
    pub(crate) value: String,
    pub(crate) origin: Origin,
    /// Earlier lines with the same key, which this entry overrides.
    pub(crate) overridden_lines: Vec<u32>,
}

impl RawConfig {
    /// Parses the bytes of a file. `path` is used only in messages.
    ///
    /// # Errors
    /// If the bytes are not a properties file. The error contains the line.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, ConfigError> {
        let properties = Properties::parse(bytes).map_err(|error| match &error {
            PropertiesError::MalformedUnicode { line, raw_key } => {
                ConfigError::new(error.to_string())
                    .with_id(finding::FILE)
                    .at(Some(&Origin::line_of(path, *line)))
                    .key(raw_key)
                    .hint("four hexadecimal digits must follow \\u; write \\\\ for a backslash")
            }
            PropertiesError::TooLong { .. } => {
                let error = ConfigError::new(error.to_string()).with_id(finding::FILE);
                error.at(Some(&Origin::file(path)))
            }
        })?;
        let mut settings: BTreeMap<String, RawSetting> = BTreeMap::new();
        for Entry {
            key, value, line, ..
        } in properties.entries()
        {
            let key = java::trim(key);
            let mut setting = RawSetting {
                value: java::trim(value).to_owned(),
                origin: Origin::line_of(path, *line),
                overridden_lines: Vec::new(),
            };
            if let Some(earlier) = settings.remove(key) {
                setting.overridden_lines = earlier.overridden_lines;
                if let Origin::File {
                    line: Some(line), ..
                } = earlier.origin
                {
                    setting.overridden_lines.push(line);
                }
            }
            settings.insert(key.to_owned(), setting);
        }
        Ok(Self {
            path: path.to_owned(),
            bytes: bytes.to_vec(),
            properties,
            settings,
        })
    }

    /// Creates a configuration without a file, from keys and values.
    pub(crate) fn without_file<'a>(
        settings: impl IntoIterator<Item = (&'a str, String)>,
        origin: &Origin,
    ) -> Self {
        let setting = |(key, value): (&str, String)| {
            let overridden_lines = Vec::new();
            (
                key.to_owned(),
                RawSetting {
                    value,
                    origin: origin.clone(),
                    overridden_lines,
                },
            )
        };
        Self {
            path: PathBuf::new(),
            bytes: Vec::new(),
            properties: Properties::default(),
            settings: settings.into_iter().map(setting).collect(),
        }
    }

    /// Returns the path of the file, as given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the text of the file without its secrets, for the admin command
    /// `initial_configuration`. The text must not be logged, because an unknown setting may contain
    /// a secret.
    pub fn shown_text(&self) -> Secret {
        let hides = |entry: &&Entry| registry::is_secret(java::trim(&entry.key));
        let hidden: Vec<_> = self.properties.entries().iter().filter(hides).collect();
        if hidden.is_empty() {
            return Secret::new(String::from_utf8_lossy(&self.bytes));
        }
        let mut shown = String::with_capacity(self.bytes.len());
        for line in NaturalLines::new(&self.bytes) {
            let holds = |entry: &&&Entry| (entry.line..=entry.last_line).contains(&line.number);
            match hidden.iter().find(holds) {
                Some(entry) if entry.line == line.number => {
                    shown.push_str(&format!("{}={HIDDEN}\n", entry.raw_key));
                }
                // A further line of a secret value, which is skipped.
                Some(_) => {}
                None => {
                    shown.push_str(&String::from_utf8_lossy(line.text));
                    shown.push('\n');
                }
            }
        }
        Secret::new(shown)
    }

    /// Returns the effective value of a key, without surrounding blanks.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.settings.get(key).map(|setting| setting.value.as_str())
    }

    pub(crate) fn setting(&self, key: &str) -> Option<&RawSetting> {
        self.settings.get(key)
    }

    /// Returns the file without some of its settings, for the search for further faults.
    pub(crate) fn without(&self, is_left_out: impl Fn(&str) -> bool) -> Self {
        let mut rest = self.clone();
        rest.settings.retain(|key, _| !is_left_out(key));
        rest
    }

    /// Returns the file with another value for a setting, on the same line.
    pub(crate) fn replacing(&self, key: &str, value: &str) -> Self {
        let mut other = self.clone();
        if let Some(setting) = other.settings.get_mut(key) {
            value.clone_into(&mut setting.value);
        }
        other
    }

    /// Returns the effective settings in the order of the lines, so that the first invalid one is
    /// reported.
    pub(crate) fn settings(&self) -> Vec<(&str, &RawSetting)> {
        let mut all: Vec<_> = self
            .settings
            .iter()
            .map(|(key, s)| (key.as_str(), s))
            .collect();
        all.sort_by_key(|(_, setting)| match setting.origin {
            Origin::File { line, .. } => line,
            Origin::Flags(_) => None,
        });
        all
    }

    /// Returns the contents of the file after its member list has moved to the dynamic file.
    ///
    /// Member lines, `peerType` and an older `dynamicConfigFile` are removed. With
    /// `erase_client_port`, `clientPort` and `clientPortAddress` are removed, too.
    /// `dynamicConfigFile=<path>` comes last. Java writes the rest in the order of a hash table and
    /// unescaped. This function preserves comments, order and escapes.
    pub fn with_dynamic_file(&self, dynamic_file: &str, erase_client_port: bool) -> Vec<u8> {
        let is_dropped = |key: &str| {
            is_member_key(key)
                || key.starts_with("dynamicConfigFile")
                || key.starts_with("peerType")
                || (erase_client_port && key.starts_with("clientPort"))
        };
        let entries = self.properties.entries().iter();
        let dropped: Vec<_> = entries
            .filter(|entry| is_dropped(java::trim(&entry.key)))
            .map(|entry| entry.line..=entry.last_line)
            .collect();
        let mut bytes = Vec::with_capacity(self.bytes.len() + dynamic_file.len() + 20);
        for line in NaturalLines::new(&self.bytes) {
            if !dropped.iter().any(|lines| lines.contains(&line.number)) {
                bytes.extend_from_slice(line.text);
                bytes.push(b'\n');
            }
        }
        bytes.extend_from_slice(b"dynamicConfigFile=");
        bytes.extend_from_slice(escape_value(dynamic_file).as_bytes());
        bytes.push(b'\n');
        bytes
    }
}

impl fmt::Debug for RawConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawConfig")
            .field("path", &self.path)
            .field("keys", &self.settings.keys())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> RawConfig {
        RawConfig::parse(Path::new("zoo.cfg"), text.as_bytes()).unwrap()
    }

    #[test]
    fn blanks_around_keys_and_values_are_ignored() {
        let raw = raw("dataDir=/data  \\\n  \nkey\\ =1\t\n");
        assert_eq!(raw.get("dataDir"), Some("/data"));
        assert_eq!(raw.get("key"), Some("1"));
    }

    #[test]
    fn the_printed_text_omits_only_secrets() {
        let text = "# mine\r\ndataDir=/data\n ssl.keyStore.password = hun\\\n  ter2\n\
                    ssl.keyStore.passwordPath=/p\nzookeeper.ssl.quorum.trustStore.password:hunter2\n\
                    DigestAuthenticationProvider.superDigest hunter2\nmy.Password=hunter2";
        let raw = raw(text);
        let expected = "# mine\ndataDir=/data\nssl.keyStore.password=*****\n\
                        ssl.keyStore.passwordPath=/p\nzookeeper.ssl.quorum.trustStore.password=*****\n\
                        DigestAuthenticationProvider.superDigest=*****\nmy.Password=*****\n";
        assert_eq!(raw.shown_text().expose(), expected);
        assert!(!format!("{raw:?}").contains("hunter2"));
    }

    #[test]
    fn a_duplicate_remembers_the_lines_it_overrides() {
        let raw = raw("a=1\na=2\nb=0\na=3");
        let setting = raw.setting("a").unwrap();
        assert_eq!(
            (setting.value.as_str(), &setting.overridden_lines[..]),
            ("3", &[1, 2][..])
        );
        assert_eq!(setting.origin.to_string(), "zoo.cfg:4");
    }

    #[test]
    fn c22_the_rewritten_file_names_the_dynamic_file_instead_of_members() {
        let text = "# mine\r\ntickTime=2000\nserver.1=a:1:2\nserver.2=\\\n  b:1:2\n\
                    peerType=observer\ndynamicConfigFileX=1\n\nclientPort=2181\ngroup.1=1";
        let rewritten = |file: &str, erase_client_port| {
            String::from_utf8(raw(text).with_dynamic_file(file, erase_client_port)).unwrap()
        };
        assert_eq!(
            rewritten("/conf/zoo.cfg.dynamic.100000000", false),
            "# mine\ntickTime=2000\n\nclientPort=2181\n\
             dynamicConfigFile=/conf/zoo.cfg.dynamic.100000000\n"
        );
        assert_eq!(
            rewritten("/d", true),
            "# mine\ntickTime=2000\n\ndynamicConfigFile=/d\n"
        );
    }

    #[test]
    fn a_bad_escape_is_refused_with_file_line_and_key() {
        let error = RawConfig::parse(Path::new("zoo.cfg"), b"a=1\ndataDir=C:\\users").unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("zoo.cfg:2: dataDir: Malformed \\uxxxx encoding.")
        );
        assert_eq!(error.exit_code, 2);
    }
}
