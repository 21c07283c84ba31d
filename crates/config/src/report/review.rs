//! Notices about names: unknown, misplaced and overridden settings.
//!
//! Java accepts every name silently. Therefore none of these notices is an error.

use super::finding;
use super::origin::{Notice, NoticeLevel, Origin};
use super::suggest;
use crate::registry::{self, Key, MISNAMED, PREFIX, Scope};
use crate::settings::WrittenSettings;

/// Known setting that was written.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenSetting {
    /// Description of the setting.
    pub key: &'static Key,
    /// Name as written. The members of a family have different names.
    pub name: String,
    /// Place where the setting was written.
    pub origin: Option<Origin>,
}

/// Adds the notices about names, and returns the known settings that were written.
pub(crate) fn review(settings: &mut WrittenSettings) -> Vec<GivenSetting> {
    let mut notices = Vec::new();
    let mut given = Vec::new();
    review_file(settings, &mut notices, &mut given);
    review_flags(settings, &mut notices, &mut given);
    for (source, flags) in settings.properties.ignored_flags() {
        let text = format!(
            "no effect because this server is not a JVM: {}",
            flags.join(" ")
        );
        let origin = Some(Origin::Flags(source.to_owned()));
        notices.push(Notice {
            level: NoticeLevel::Warn,
            origin,
            key: None,
            id: finding::JVM_FLAGS,
            text,
        });
    }
    settings.notices.append(&mut notices);
    given
}

fn review_file(
    settings: &WrittenSettings,
    notices: &mut Vec<Notice>,
    given: &mut Vec<GivenSetting>,
) {
    for (name, setting) in settings.raw.settings() {
        let mut say = |level, id, text: String| {
            let origin = Some(setting.origin.clone());
            notices.push(Notice {
                level,
                origin,
                key: Some(name.to_owned()),
                id,
                text,
            });
        };
        for line in &setting.overridden_lines {
            say(
                NoticeLevel::Info,
                finding::OVERRIDDEN,
                format!("this line overrides line {line}, which has the same key"),
            );
        }
        let Some(key) = registry::find(name) else {
            say(NoticeLevel::Warn, finding::UNKNOWN, unknown_in_file(name));
            continue;
        };
        match key.scope {
            Scope::Property => say(
                NoticeLevel::Warn,
                finding::NO_EFFECT,
                format!("no effect in a file; set the system property -D{name}=..."),
            ),
            Scope::PropertyOrFile if settings.properties.get(name).is_some() => {
                say(
                    NoticeLevel::Warn,
                    finding::OVERRIDDEN,
                    format!("-D{name} overrides this line"),
                );
            }
            Scope::PropertyOrFile => say(
                NoticeLevel::Warn,
                finding::MISPLACED,
                format!(
                    "this line works, but Apache ZooKeeper reads the setting only from -D{name}"
                ),
            ),
            Scope::FileUnderProperty(property) if settings.properties.get(property).is_some() => {
                say(
                    NoticeLevel::Warn,
                    finding::OVERRIDDEN,
                    format!("-D{property} overrides this line"),
                );
            }
            _ => {}
        }
        given.push(GivenSetting {
            key,
            name: name.to_owned(),
            origin: Some(setting.origin.clone()),
        });
    }
}

fn unknown_in_file(name: &str) -> String {
    if let Some(rest) = name.strip_prefix(PREFIX) {
        return match registry::find(rest) {
            Some(key) if matches!(key.scope, Scope::Property) => {
                format!("no effect in a file; set the system property -D{rest}=VALUE")
            }
            Some(_) => format!("no effect; in a file this setting is called {rest}"),
            None => {
                "no effect; in a file, write settings without the prefix `zookeeper.`".to_owned()
            }
        };
    }
    if let Some((_, real)) = MISNAMED.iter().find(|(written, _)| *written == name) {
        return format!("no effect; this setting is called {real}");
    }
    match suggest::nearest(name) {
        Some(meant) => format!("unknown setting; did you mean {meant}?"),
        None => "unknown setting".to_owned(),
    }
}

fn review_flags(
    settings: &WrittenSettings,
    notices: &mut Vec<Notice>,
    given: &mut Vec<GivenSetting>,
) {
    for (name, property) in settings.properties.properties() {
        let Some(origin @ Origin::Flags(_)) = &property.origin else {
            continue;
        };
        let mut warn = |id, text: String| {
            let (origin, key) = (Some(origin.clone()), Some(format!("-D{name}")));
            notices.push(Notice {
                level: NoticeLevel::Warn,
                origin,
                key,
                id,
                text,
            });
        };
        match registry::find_property(name) {
            Some(key) => {
                if let (Scope::FileOrProperty(_), Some(line)) =
                    (key.scope, settings.raw.setting(key.name))
                {
                    warn(
                        finding::OVERRIDDEN,
                        format!("{} overrides this property", line.origin),
                    );
                }
                let name = name.to_owned();
                given.push(GivenSetting {
                    key,
                    name,
                    origin: Some(origin.clone()),
                });
            }
            None => {
                if let Some(text) = unknown_flag(name) {
                    warn(finding::UNKNOWN, text);
                }
            }
        }
    }
    for (name, origin) in settings.overridden_flags() {
        let text = format!("{origin} overrides this property");
        let key = Some(format!("-D{name}"));
        notices.push(Notice {
            level: NoticeLevel::Warn,
            origin: None,
            key,
            id: finding::OVERRIDDEN,
            text,
        });
    }
}

/// Returns the warning about an unknown property, or `None` if the property does not belong to
/// ZooKeeper.
fn unknown_flag(name: &str) -> Option<String> {
    let Some(rest) = name.strip_prefix(PREFIX) else {
        return match registry::find(name)?.scope {
            Scope::Prefixed => Some(format!("no effect; this property is called {PREFIX}{name}")),
            Scope::File => Some(format!(
                "no effect; {name} is read only from the configuration file"
            )),
            _ => None,
        };
    };
    if registry::find(rest).is_some_and(|key| matches!(key.scope, Scope::File | Scope::Members)) {
        return Some(format!(
            "no effect; {rest} is read only from the configuration file"
        ));
    }
    if registry::find(rest).is_some() {
        return Some(format!("no effect; this property is called {rest}"));
    }
    if let Some((_, real)) = MISNAMED.iter().find(|(written, _)| *written == rest) {
        return Some(format!("no effect; this property is called {PREFIX}{real}"));
    }
    let meant = suggest::nearest(rest).and_then(|meant| registry::find(&meant)?.property_name());
    Some(match meant {
        Some(meant) if !meant.ends_with('*') => {
            format!("unknown property; did you mean {meant}?")
        }
        _ => "unknown property".to_owned(),
    })
}
