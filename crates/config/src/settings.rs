//! Lookup of settings in all their places, and conversion of text to values.
//!
//! The precedence of a setting follows from its [`Scope`]. A setting that Java's parser of zoo.cfg
//! does not know becomes a system property, and so takes precedence over a `-D` flag. For a setting
//! that the parser knows, flags are ignored unless the scope names a property.
//!
//! Source: Java's QuorumPeerConfig.parseProperties, which sets an unknown key as a property.

use std::path::PathBuf;

use proto::Secret;

use crate::error::ConfigError;
use crate::formats::java;
use crate::formats::raw::RawConfig;
use crate::formats::system_properties::SystemProperties;
use crate::members::{MemberError, MemberRole};
use crate::registry::{self, DefaultValue, Key, OutOfRange, PREFIX, Scope, Tier, ValueKind};
use crate::report::finding;
use crate::report::origin::{Notice, NoticeLevel, Origin};

/// All written settings, and the notices about them.
pub(crate) struct WrittenSettings {
    pub(crate) raw: RawConfig,
    pub(crate) properties: SystemProperties,
    pub(crate) notices: Vec<Notice>,
    overridden_flags: Vec<(String, Origin)>,
}

/// Setting as written in one of its places.
pub(crate) struct FoundSetting {
    /// Value, as written.
    pub(crate) text: String,
    /// Key, as written.
    pub(crate) key: String,
    pub(crate) origin: Option<Origin>,
}

impl FoundSetting {
    pub(crate) fn refused(&self, reason: impl Into<String>) -> ConfigError {
        ConfigError::new(reason)
            .at(self.origin.as_ref())
            .key(&self.key)
    }

    pub(crate) fn warning(&self, text: impl Into<String>) -> Notice {
        Notice {
            level: NoticeLevel::Warn,
            origin: self.origin.clone(),
            key: Some(self.key.clone()),
            id: finding::FALLBACK,
            text: text.into(),
        }
    }

    /// Returns a notice for a setting without effect.
    pub(crate) fn no_effect(&self, text: impl Into<String>) -> Notice {
        Notice {
            id: finding::NO_EFFECT,
            ..self.warning(text)
        }
    }
}

impl WrittenSettings {
    /// Merges the file into the properties. Settings that the parser does not know become
    /// properties.
    pub(crate) fn new(raw: RawConfig, flags: SystemProperties) -> Self {
        let mut properties = flags;
        let mut overridden_flags = Vec::new();
        for (name, setting) in raw.settings() {
            if !registry::find(name).is_some_and(Key::is_parsed_directly) {
                let property = format!("{PREFIX}{name}");
                if properties
                    .get(&property)
                    .is_some_and(|flag| flag != setting.value)
                {
                    overridden_flags.push((property.clone(), setting.origin.clone()));
                }
                properties.set(&property, &setting.value, Some(setting.origin.clone()));
            }
        }
        Self {
            raw,
            properties,
            notices: Vec::new(),
            overridden_flags,
        }
    }

    /// Returns the properties whose flags differ from the file, and the line of the file, which
    /// takes precedence.
    pub(crate) fn overridden_flags(&self) -> &[(String, Origin)] {
        &self.overridden_flags
    }

    pub(crate) fn find(&self, key: &Key) -> Option<FoundSetting> {
        let in_file = || self.in_file(key.name);
        let own = match key.scope {
            Scope::File | Scope::Members => in_file(),
            Scope::FileOrProperty(property) => in_file().or_else(|| self.in_properties(property)),
            Scope::FileUnderProperty(property) => self.in_properties(property).or_else(in_file),
            Scope::Prefixed => self.in_properties(&format!("{PREFIX}{}", key.name)),
            Scope::Property => self.in_properties(key.name),
            Scope::PropertyOrFile => self.in_properties(key.name).or_else(in_file),
        };
        own.or_else(|| key.also.iter().find_map(|name| self.in_properties(name)))
    }

    /// Returns the provider `authProvider.<label>`, as written.
    pub(crate) fn provider(&self, label: &str) -> Option<FoundSetting> {
        self.in_properties(&format!(
            "{PREFIX}{}{label}",
            crate::access::auth::AUTH_PROVIDER
        ))
    }

    /// Returns the written members of a family: in the order of their lines if only the file may
    /// contain them, and otherwise in the order of their names.
    pub(crate) fn find_family(&self, beginning: &str, scope: Scope) -> Vec<FoundSetting> {
        let with_prefix = match scope {
            Scope::File | Scope::Members => {
                let names = self.raw.settings().into_iter().map(|(name, _)| name);
                let names = names.filter(|name| name.starts_with(beginning));
                return names.filter_map(|name| self.in_file(name)).collect();
            }
            Scope::Prefixed => format!("{PREFIX}{beginning}"),
            _ => beginning.to_owned(),
        };
        let names = self.properties.iter().map(|(name, _)| name);
        let names = names.filter(|name| name.starts_with(&with_prefix));
        names.filter_map(|name| self.in_properties(name)).collect()
    }

    fn in_file(&self, name: &str) -> Option<FoundSetting> {
        let setting = self.raw.setting(name)?;
        Some(FoundSetting {
            text: setting.value.clone(),
            key: name.to_owned(),
            origin: Some(setting.origin.clone()),
        })
    }

    fn in_properties(&self, name: &str) -> Option<FoundSetting> {
        let property = self.properties.property(name)?;
        let is_in_file = matches!(property.origin, Some(Origin::File { .. }));
        let key = match name.strip_prefix(PREFIX) {
            Some(written) if is_in_file => written.to_owned(),
            _ => format!("-D{name}"),
        };
        Some(FoundSetting {
            text: property.value.clone(),
            key,
            origin: property.origin.clone(),
        })
    }

    /// Returns the valid or default number, or `None` if there is neither.
    pub(crate) fn number(&mut self, key: &Key) -> Result<Option<i64>, ConfigError> {
        let default = default_text(key).and_then(java::parse_decimal);
        let Some(found) = self.find(key) else {
            return Ok(default);
        };
        let parsed = if key.is_decimal {
            java::parse_decimal(&found.text)
        } else {
            java::decode(&found.text)
        };
        let fits = |number: &i64| key.kind == ValueKind::Long || i32::try_from(*number).is_ok();
        let Some(number) = parsed.filter(fits) else {
            if key.is_strict {
                return Err(found
                    .refused(java::bad_number(&found.text))
                    .hint(expected(key)));
            }
            let text = format!(
                "`{}` is not a valid number; {}",
                found.text,
                default_holds(key)
            );
            self.notices.push(found.warning(text));
            return Ok(default);
        };
        if key.kind == ValueKind::Port {
            if u16::try_from(number).is_err() {
                let reason = format!("port out of range:{number}");
                return Err(found.refused(reason).hint("write a port from 0 to 65535"));
            }
        } else if let Some(range) = key.range.filter(|r| !(r.min..=r.max).contains(&number)) {
            return self.outside(key, &found, number, range);
        }
        Ok(Some(number))
    }

    fn outside(
        &mut self,
        key: &Key,
        found: &FoundSetting,
        number: i64,
        range: registry::Range,
    ) -> Result<Option<i64>, ConfigError> {
        let limits = if range.max >= i64::from(i32::MAX) {
            format!("{} or more", range.min)
        } else {
            format!("{} to {}", range.min, range.max)
        };
        if let Some(words) = java_words(key, number) {
            self.notices.push(found.warning(words));
            return Ok(Some(number.clamp(range.min, range.max)));
        }
        let text = format!("{number} is out of range ({limits})");
        let (value, outcome) = match range.outside {
            OutOfRange::Refused => return Err(found.refused(text)),
            OutOfRange::Nearest => {
                let nearest = number.clamp(range.min, range.max);
                (Some(nearest), format!("{nearest} is used"))
            }
            OutOfRange::Default => (
                default_text(key).and_then(java::parse_decimal),
                default_holds(key),
            ),
        };
        self.notices
            .push(found.warning(format!("{text}; {outcome}")));
        Ok(value)
    }

    /// Returns a number with a default, converted to `T`. A number outside of the range of `T`
    /// becomes the nearest value of `T`.
    pub(crate) fn int<T: TryFrom<i64> + Bounded>(&mut self, key: &Key) -> Result<T, ConfigError> {
        let number = self.number(key)?.unwrap_or_default();
        Ok(T::try_from(number).unwrap_or(if number < 0 { T::LEAST } else { T::GREATEST }))
    }

    /// Returns a limit. Zero and negative numbers mean unlimited.
    pub(crate) fn positive<T: TryFrom<i64> + Bounded>(
        &mut self,
        key: &Key,
    ) -> Result<Option<T>, ConfigError> {
        let number = self.number(key)?.filter(|&number| number > 0);
        Ok(number.map(|number| T::try_from(number).unwrap_or(T::GREATEST)))
    }

    pub(crate) fn port(&mut self, key: &Key) -> Result<Option<u16>, ConfigError> {
        Ok(self
            .number(key)?
            .and_then(|number| u16::try_from(number).ok()))
    }

    pub(crate) fn ratio(&mut self, key: &Key) -> Result<f64, ConfigError> {
        let default = default_text(key)
            .and_then(java::parse_ratio)
            .unwrap_or_default();
        let Some(found) = self.find(key) else {
            return Ok(default);
        };
        match java::parse_ratio(&found.text) {
            Some(ratio) => Ok(ratio),
            None if key.is_strict => Err(found
                .refused(java::bad_number(&found.text))
                .hint(expected(key))),
            None => {
                let text = format!(
                    "`{}` is not a valid number; {}",
                    found.text,
                    default_holds(key)
                );
                self.notices.push(found.warning(text));
                Ok(default)
            }
        }
    }

    /// Returns a boolean. In a setting that becomes a property, every word except `true` means
    /// false. In the file, other settings accept only `true` and `false`.
    pub(crate) fn flag(&mut self, key: &Key) -> Result<bool, ConfigError> {
        let Some(found) = self.find(key) else {
            return Ok(default_text(key) == Some("true"));
        };
        let is_true = found.text.eq_ignore_ascii_case("true");
        if is_true || found.text.eq_ignore_ascii_case("false") {
            return Ok(is_true);
        }
        let is_from_file = matches!(found.origin, Some(Origin::File { .. }));
        if key.is_parsed_directly() && is_from_file {
            let FoundSetting { text, key, .. } = &found;
            let reason = format!("Invalid option {text} for {key}. Choose 'true' or 'false.'");
            return Err(found.refused(reason));
        }
        let text = format!("`{}` means false; write true or false", found.text);
        self.notices.push(found.warning(text));
        Ok(false)
    }

    /// Returns whether the value is the special word.
    pub(crate) fn is_special(&mut self, key: &Key) -> bool {
        let ValueKind::Word { special, other } = key.kind else {
            return false;
        };
        let Some(found) = self.find(key) else {
            return false;
        };
        if found.text != special && found.text != other {
            let text = format!("`{}` means {other}; write {special} or {other}", found.text);
            self.notices.push(found.warning(text));
        }
        found.text == special
    }

    /// Returns a word of a choice in its canonical spelling, or the default if the text is not a
    /// known word.
    pub(crate) fn choice(&mut self, key: &Key) -> Result<Option<&'static str>, ConfigError> {
        let ValueKind::Choice(words) = key.kind else {
            return Ok(None);
        };
        let known = |text: &str| {
            words
                .iter()
                .copied()
                .find(|word| word.eq_ignore_ascii_case(text))
        };
        let default = default_text(key).and_then(known);
        let Some(found) = self.find(key) else {
            return Ok(default);
        };
        // An empty property is treated as missing.
        if found.text.is_empty() && !key.is_parsed_directly() {
            return Ok(known("").or(default));
        }
        match known(&found.text) {
            Some(word) => Ok(Some(word)),
            None if key.name == registry::cluster::PEER_TYPE.name => {
                let role = found.text.clone();
                let reason = MemberError::UnknownRole { role }.to_string();
                Err(found.refused(reason).hint(expected(key)))
            }
            None if key.is_strict => {
                let reason = format!("`{}` is unknown", found.text);
                Err(found.refused(reason).hint(expected(key)))
            }
            None => {
                let text = format!("`{}` is unknown; {}", found.text, default_holds(key));
                self.notices.push(found.warning(text));
                Ok(default)
            }
        }
    }

    pub(crate) fn role(&mut self, key: &Key) -> Result<MemberRole, ConfigError> {
        let word = self.choice(key)?.unwrap_or_default();
        Ok(MemberRole::parse(word).unwrap_or_default())
    }

    /// Returns the written text or the default.
    pub(crate) fn text(&self, key: &Key) -> Option<String> {
        self.find(key)
            .map(|found| found.text)
            .or_else(|| default_text(key).map(str::to_owned))
    }

    /// Returns the written text or the default, unless it is empty.
    pub(crate) fn some_text(&self, key: &Key) -> Option<String> {
        self.text(key).filter(|text| !text.is_empty())
    }

    pub(crate) fn secret(&self, key: &Key) -> Option<Secret> {
        self.some_text(key).map(Secret::new)
    }

    pub(crate) fn path(&self, key: &Key) -> Option<PathBuf> {
        self.some_text(key).map(PathBuf::from)
    }

    /// Returns the words between commas, without surrounding blanks and without empty words.
    pub(crate) fn list(&self, key: &Key) -> Option<Vec<String>> {
        let text = self.text(key)?;
        let words = text
            .split(',')
            .map(java::trim)
            .filter(|word| !word.is_empty());
        Some(words.map(str::to_owned).collect())
    }

    /// Checks every setting of the file that does not become a property, in the order of the lines.
    /// The first invalid one is reported.
    pub(crate) fn check_file(&mut self) -> Result<(), ConfigError> {
        let names: Vec<String> = self
            .raw
            .settings()
            .into_iter()
            .map(|(name, _)| name.to_owned())
            .collect();
        let told = self.notices.len();
        for name in names {
            let is_checked = |key: &&Key| key.is_parsed_directly() && key.tier != Tier::Warn;
            let Some(key) = registry::find(&name).filter(is_checked) else {
                continue;
            };
            match key.kind {
                ValueKind::Int | ValueKind::Long | ValueKind::Port => drop(self.number(key)?),
                ValueKind::Flag => drop(self.flag(key)?),
                ValueKind::Choice(_) => drop(self.choice(key)?),
                _ => {}
            }
        }
        // Each setting is read again for its struct, which adds the notices.
        self.notices.truncate(told);
        Ok(())
    }

    pub(crate) fn notice(&mut self, level: NoticeLevel, id: &'static str, text: impl Into<String>) {
        self.notices.push(Notice {
            level,
            origin: None,
            key: None,
            id,
            text: text.into(),
        });
    }
}

/// Returns Java's log message for a corrected number, if operators may search for it.
fn java_words(key: &Key, number: i64) -> Option<String> {
    if key.name == registry::storage::SNAP_RETAIN_COUNT.name {
        Some(format!(
            "Invalid autopurge.snapRetainCount: {number}. Defaulting to 3"
        ))
    } else if key.name == registry::storage::SNAP_COUNT.name {
        Some("SnapCount should be 2 or more. Now, snapCount is reset to 2".to_owned())
    } else {
        None
    }
}

/// Limits of a number type.
pub(crate) trait Bounded {
    const LEAST: Self;
    const GREATEST: Self;
}

macro_rules! bounded {
    ($($int:ty),+) => {
        $(impl Bounded for $int {
            const LEAST: Self = Self::MIN;
            const GREATEST: Self = Self::MAX;
        })+
    };
}
bounded!(u16, u32, u64, usize, i32, i64);

fn default_text(key: &Key) -> Option<&'static str> {
    match key.default {
        DefaultValue::Value(text) => Some(text),
        DefaultValue::Unset | DefaultValue::Derived(_) => None,
    }
}

fn default_holds(key: &Key) -> String {
    match key.default {
        DefaultValue::Value("") | DefaultValue::Unset => "the value is ignored".to_owned(),
        DefaultValue::Value(text) => format!("the default {text} is used"),
        DefaultValue::Derived(words) => format!("the default ({words}) is used"),
    }
}

/// Describes a valid value.
fn expected(key: &Key) -> String {
    match key.kind {
        ValueKind::Port => "write a port from 0 to 65535, without other characters".into(),
        ValueKind::Ratio => "write a number such as 0.5".to_owned(),
        ValueKind::Choice(words) => format!("choose one of {}", words.join(", ")),
        _ => match (key.unit, default_text(key)) {
            ("", _) => "write a whole number, without other characters".to_owned(),
            (unit, Some(text)) => {
                format!("write a whole number of {unit} such as {text}, without other characters")
            }
            (unit, None) => format!("write a whole number of {unit}, without other characters"),
        },
    }
}
