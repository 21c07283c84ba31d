//! Effects of all written settings: warnings for settings without effect, and refusals for settings
//! that require missing features.

use super::finding;
use super::origin::{Notice, Origin};
use crate::error::ConfigError;
use crate::registry::{self, DefaultValue, Key, Verdict};
use crate::settings::{FoundSetting, WrittenSettings};

/// Adds the warnings about settings without effect, and returns the refusals in the order of the
/// lines.
pub(crate) fn judge(settings: &mut WrittenSettings, has_gssapi: bool) -> Vec<ConfigError> {
    let mut refusals = Vec::new();
    let mut notices: Vec<Notice> = Vec::new();
    for key in registry::all() {
        for found in written(settings, key) {
            match key.effect.judge(&found.text) {
                Verdict::Refused(refusal) if has_gssapi && *refusal == registry::KERBEROS => {}
                Verdict::Refused(refusal) if is_asked_for(settings, key) => {
                    let refused = found.refused(refusal.reason).with_id(finding::NOT_THERE);
                    refusals.push(refused.hint(refusal.way_out));
                }
                Verdict::NoEffect(why) if is_asked_for(settings, key) => {
                    notices.push(found.no_effect(format!("no effect: {why}")));
                }
                _ => {}
            }
        }
    }
    notices.sort_by_key(|notice| line(notice.origin.as_ref()));
    settings.notices.append(&mut notices);
    refusals.sort_by_key(|refusal: &ConfigError| line(refusal.origin.as_ref()));
    refusals
}

/// Returns the sort key of an origin. Flags come after all lines.
fn line(origin: Option<&Origin>) -> u32 {
    match origin {
        Some(Origin::File { line, .. }) => line.unwrap_or(u32::MAX),
        _ => u32::MAX,
    }
}

/// Returns the effective setting. For a family, returns all its settings except those with a
/// separate line in the registry.
fn written(settings: &WrittenSettings, key: &'static Key) -> Vec<FoundSetting> {
    let Some(beginning) = key.family() else {
        return settings.find(key).into_iter().collect();
    };
    let mut found = settings.find_family(beginning, key.scope);
    found.retain(|found| match found.key.strip_prefix("-D") {
        Some(name) => registry::find_property(name) == Some(key),
        None => registry::find(&found.key) == Some(key),
    });
    found
}

/// Returns whether the setting is effective, given the setting on which it depends.
fn is_asked_for(settings: &WrittenSettings, key: &Key) -> bool {
    let Some(condition) = key.only_with else {
        return true;
    };
    registry::find(condition.name).is_some_and(|other| {
        let value = match (settings.find(other), other.default) {
            (Some(found), _) => found.text,
            (None, DefaultValue::Value(text)) => text.to_owned(),
            (None, _) => String::new(),
        };
        condition.set.fits(&value)
    })
}
