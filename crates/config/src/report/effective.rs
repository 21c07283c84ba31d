//! Effective values of all settings, and the places where they were written.

use std::fmt;
use std::path::Path;

use super::examine::read;
use super::origin::Origin;
use crate::config::Config;
use crate::error::ConfigError;
use crate::formats::properties::MAX_BYTES;
use crate::formats::raw::RawConfig;
use crate::formats::system_properties::SystemProperties;
use crate::membership::is_member_key;
use crate::registry::{self, DefaultValue, HIDDEN, Key, Scope, Section, ValueKind, cluster};
use crate::settings::WrittenSettings;
use crate::surroundings::Surroundings;

/// Setting and its effective value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// Section of the registry. Absent for an unknown name.
    pub section: Option<Section>,
    /// Name in zoo.cfg, or name of the property.
    pub name: String,
    /// Effective value, or [`HIDDEN`] for secrets. Absent if the setting has no value.
    pub value: Option<String>,
    /// Unit of a number.
    pub unit: &'static str,
    /// Source of the value.
    pub place: ValueSource,
    /// Written value, if another value is in effect.
    pub written: Option<String>,
}

/// Source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueSource {
    /// The value was written at this place.
    Written(Origin),
    /// An invalid value was written at this place. The default or the nearest valid value is in
    /// effect.
    Corrected(Origin),
    /// The setting was not written.
    Default,
}

impl fmt::Display for ValueSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Written(origin) => write!(f, "{origin}"),
            Self::Corrected(origin) => write!(f, "replaces the value at {origin}"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// Returns every setting with a value, in the order of the registry. The members of a family are in
/// the order of their lines or, for properties, of their names. Unknown settings follow at the end.
///
/// # Errors
/// If the configuration is refused, like [`Config::load`]. A refused configuration does not have
/// effective values.
pub fn effective(
    path: &Path,
    flags: SystemProperties,
    surroundings: &mut dyn Surroundings,
) -> Result<Vec<Effective>, ConfigError> {
    let raw = read(path, surroundings)?;
    let config = Config::parse(raw.clone(), flags.clone(), surroundings)?;
    config.check_supported()?;
    let mut settings = WrittenSettings::new(raw, flags);
    let mut rows = Vec::new();
    for section in Section::ALL {
        for key in section.keys() {
            match key.family() {
                Some(_) if key.scope == Scope::Members => {
                    rows.extend(members(section, key, &settings.raw));
                }
                Some(beginning) => rows.extend(family(section, key, beginning, &settings)),
                None => rows.push(single(section, key, &mut settings, &config)),
            }
        }
    }
    if let Some(file) = settings.path(&cluster::DYNAMIC_CONFIG_FILE) {
        let bytes = surroundings.read(&file, MAX_BYTES);
        let bytes = bytes.map_err(|error| ConfigError::new(error.to_string()))?;
        let raw = RawConfig::parse(&file, &bytes)?;
        for key in Section::Cluster.keys() {
            if key.scope == Scope::Members {
                rows.extend(members(Section::Cluster, key, &raw));
            }
        }
    }
    rows.extend(unknown(&settings));
    rows.retain(|row| row.value.is_some());
    Ok(rows)
}

fn shown(name: &str, value: String) -> String {
    let name = name.strip_prefix("-D").unwrap_or(name);
    if registry::is_secret(name) && !value.is_empty() {
        HIDDEN.to_owned()
    } else {
        value
    }
}

/// Returns the value that the server interprets.
fn typed(key: &'static Key, settings: &mut WrittenSettings) -> Result<Option<String>, ConfigError> {
    Ok(match key.kind {
        ValueKind::Int | ValueKind::Long | ValueKind::Port => {
            settings.number(key)?.map(|n| n.to_string())
        }
        ValueKind::Ratio if settings.find(key).is_some() => Some(settings.ratio(key)?.to_string()),
        ValueKind::Ratio => None,
        ValueKind::Flag => Some(settings.flag(key)?.to_string()),
        ValueKind::Choice(_) => settings.choice(key)?.map(str::to_owned),
        ValueKind::Word { special, other } => Some(
            if settings.is_special(key) {
                special
            } else {
                other
            }
            .to_owned(),
        ),
        _ => settings.text(key),
    })
}

fn single(
    section: Section,
    key: &'static Key,
    settings: &mut WrittenSettings,
    config: &Config,
) -> Effective {
    let found = settings.find(key);
    // The configuration is accepted, so the server does not read an invalid value.
    let typed = typed(key, settings).unwrap_or_else(|_| settings.text(key));
    let default = match key.default {
        DefaultValue::Value(text) => Some(text.to_owned()),
        DefaultValue::Derived(words) => derived(key, config).or(Some(words.replace('`', ""))),
        DefaultValue::Unset => None,
    };
    let is_derived = matches!(key.default, DefaultValue::Derived(_));
    // -1 in a file requests the value derived from other settings.
    let is_default_asked = is_derived && typed.as_deref() == Some("-1");
    let value = typed.filter(|_| !is_default_asked).or(default);
    let value = value.filter(|value| !value.is_empty());
    let (place, written) = match found {
        None => (ValueSource::Default, None),
        Some(found) => {
            let origin = found.origin.unwrap_or(Origin::Flags("unknown".to_owned()));
            let same = value
                .as_deref()
                .is_some_and(|value| is_same(key, value, &found.text));
            if same || (value.is_none() && found.text.is_empty()) {
                (ValueSource::Written(origin), None)
            } else {
                (
                    ValueSource::Corrected(origin),
                    Some(shown(key.name, found.text)),
                )
            }
        }
    };
    Effective {
        section: Some(section),
        name: key.name.to_owned(),
        value: value.map(|value| shown(key.name, value)),
        unit: key.unit,
        place,
        written,
    }
}

/// Returns whether `value` equals the written value, regardless of its spelling.
fn is_same(key: &Key, value: &str, written: &str) -> bool {
    let number = |text: &str| {
        if key.is_decimal {
            crate::formats::java::parse_decimal(text)
        } else {
            crate::formats::java::decode(text)
        }
    };
    match key.kind {
        ValueKind::Int | ValueKind::Long | ValueKind::Port => number(written) == number(value),
        ValueKind::Ratio => {
            crate::formats::java::parse_ratio(written).map(f64::to_bits)
                == crate::formats::java::parse_ratio(value).map(f64::to_bits)
        }
        ValueKind::Flag | ValueKind::Choice(_) => value.eq_ignore_ascii_case(written),
        _ => value == written,
    }
}

/// Returns the value that is derived from other settings, if it is a single value.
fn derived(key: &Key, config: &Config) -> Option<String> {
    let limits = &config.limits;
    Some(match key.name {
        "dataLogDir" => config.data_log_dir.display().to_string(),
        "minSessionTimeout" => config.sessions.min_timeout_ms.to_string(),
        "maxSessionTimeout" => config.sessions.max_timeout_ms.to_string(),
        "jute.maxbuffer.extrasize" => limits.jute_extra_size.to_string(),
        "maxWriteQueuePollTime" => config.storage.max_write_queue_poll_time_ms.to_string(),
        "auditlog.file" => config.audit.as_ref()?.file.display().to_string(),
        "history.dir" => config.history.as_ref()?.dir.display().to_string(),
        _ => return None,
    })
}

fn row(section: Option<Section>, name: &str, value: &str, origin: Option<Origin>) -> Effective {
    let origin = origin.unwrap_or(Origin::Flags("unknown".to_owned()));
    Effective {
        section,
        name: name.to_owned(),
        value: Some(shown(name, value.to_owned())),
        unit: "",
        place: ValueSource::Written(origin),
        written: None,
    }
}

fn members<'a>(
    section: Section,
    key: &'static Key,
    raw: &'a RawConfig,
) -> impl Iterator<Item = Effective> + use<'a> {
    let lines = raw.settings().into_iter();
    let lines = lines.filter(move |(name, _)| {
        is_member_key(name) && registry::find(name).is_some_and(|found| found.name == key.name)
    });
    lines.map(move |(name, setting)| {
        let origin = Some(setting.origin.clone());
        row(Some(section), name, &setting.value, origin)
    })
}

fn family(
    section: Section,
    key: &'static Key,
    beginning: &str,
    settings: &WrittenSettings,
) -> Vec<Effective> {
    let found = settings.find_family(beginning, key.scope).into_iter();
    let is_own = |name: &str| match name.strip_prefix("-D") {
        Some(property) => registry::find_property(property) == Some(key),
        None => registry::find(name) == Some(key),
    };
    found
        .filter(|found| is_own(&found.key))
        .map(|found| row(Some(section), &found.key, &found.text, found.origin))
        .collect()
}

/// Returns the unknown settings of the file.
fn unknown(settings: &WrittenSettings) -> Vec<Effective> {
    let lines = settings.raw.settings().into_iter();
    let lines = lines.filter(|(name, _)| registry::find(name).is_none());
    lines
        .map(|(name, setting)| row(None, name, &setting.value, Some(setting.origin.clone())))
        .collect()
}
