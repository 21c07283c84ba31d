//! Explanation of a single setting, found by any of its names.

use super::docs;
use super::suggest;
use crate::registry::{self, DefaultValue, Effect, Key, PREFIX, Scope, ValueKind};

/// Description of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Name in zoo.cfg, or name of the property if the setting cannot be written there. For a
    /// family, the requested name.
    pub name: String,
    /// Purpose of the setting.
    pub meaning: &'static str,
    /// Places where the setting may be written, and their precedence.
    pub written: &'static str,
    /// System properties of the setting. Empty if it is read only from the file.
    pub properties: Vec<String>,
    /// Format of its values.
    pub values: String,
    /// Unit of a number. Empty for other values.
    pub unit: &'static str,
    /// Default value.
    pub default: Option<String>,
    /// First releases of Apache ZooKeeper with the setting.
    pub since: Option<&'static str>,
    /// Effect of the setting in Zoarium: `works`, or a line for each case.
    pub effect: Vec<EffectLine>,
}

/// Effect of certain values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectLine {
    /// `works`, `no effect` or `refused`.
    pub effect: &'static str,
    /// Affected values. Empty for the values that no other line contains.
    pub values: String,
    /// Reason for the effect.
    pub reason: &'static str,
    /// Recommended action. Empty if no action is necessary.
    pub way_out: &'static str,
}

/// Error for an unknown name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    /// Most similar known name, if any is similar.
    pub nearest: Option<String>,
}

/// Explains a setting by its name in zoo.cfg or its full property name, with or without `-D`.
///
/// # Errors
/// If the name is unknown. The error contains the most similar name.
pub fn explain(name: &str) -> Result<Explanation, UnknownName> {
    let name = name.strip_prefix("-D").unwrap_or(name);
    let found = registry::find(name).or_else(|| registry::find_property(name));
    if let Some(key) = found {
        return Ok(explained(name, key));
    }
    let real = registry::MISNAMED.iter().find(|(other, _)| *other == name);
    let nearest = match real {
        Some((_, real)) => Some((*real).to_owned()),
        None => suggest::nearest(name.strip_prefix(PREFIX).unwrap_or(name)),
    };
    Err(UnknownName { nearest })
}

fn explained(name: &str, key: &'static Key) -> Explanation {
    let own = match key.family() {
        Some(beginning) => {
            let rest = name.split_once(beginning).map_or("", |(_, rest)| rest);
            format!("{beginning}{rest}")
        }
        None => key.name.to_owned(),
    };
    let properties = key.property_name().into_iter();
    let also = key.also.iter().map(|name| (*name).to_owned());
    Explanation {
        name: own,
        meaning: key.doc,
        written: written(key.scope),
        properties: properties.chain(also).collect(),
        values: values(key),
        unit: key.unit,
        default: match key.default {
            DefaultValue::Unset | DefaultValue::Value("") => None,
            DefaultValue::Value(text) => Some(text.to_owned()),
            DefaultValue::Derived(words) => Some(words.replace('`', "")),
        },
        since: registry::since(key.name),
        effect: effect_lines(key),
    }
}

fn values(key: &Key) -> String {
    let values = docs::values(key).replace('`', "");
    // The unit has a separate field.
    match (key.kind, key.unit) {
        (ValueKind::Int | ValueKind::Long, "") => values.replacen("number", "whole number", 1),
        (ValueKind::Int | ValueKind::Long, unit) => values.replacen(unit, "whole number", 1),
        _ => values,
    }
}

fn written(scope: Scope) -> &'static str {
    match scope {
        Scope::File => "in zoo.cfg only",
        Scope::FileOrProperty(_) | Scope::Prefixed => {
            "in zoo.cfg or as a system property; zoo.cfg has priority"
        }
        Scope::FileUnderProperty(_) => {
            "in zoo.cfg or as a system property; the property has priority"
        }
        Scope::Property => "as a system property only",
        Scope::PropertyOrFile => {
            "as a system property, which has priority, or in zoo.cfg, where Apache ZooKeeper does not read it"
        }
        Scope::Members => "in zoo.cfg, or in the file that dynamicConfigFile names",
    }
}

fn effect_lines(key: &Key) -> Vec<EffectLine> {
    let works = |values: String| EffectLine {
        effect: "works",
        values,
        reason: "",
        way_out: "",
    };
    let mut lines: Vec<EffectLine> = Vec::new();
    let mut has_rest = true;
    for case in key.effect.cases() {
        let (set, line) = match case {
            Effect::NoEffect(set, reason) => (
                set,
                EffectLine {
                    effect: "no effect",
                    values: set.describe().replace('`', ""),
                    reason,
                    way_out: "",
                },
            ),
            Effect::Refused(set, refusal) => (
                set,
                EffectLine {
                    effect: "refused",
                    values: set.describe().replace('`', ""),
                    reason: refusal.reason,
                    way_out: refusal.way_out,
                },
            ),
            Effect::Works | Effect::Partly(_) => continue,
        };
        has_rest &= *set != registry::ValueSet::Any;
        lines.push(line);
    }
    if has_rest {
        lines.insert(0, works(String::new()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_found_by_each_of_its_names() {
        for name in ["snapCount", "zookeeper.snapCount", "-Dzookeeper.snapCount"] {
            let found = explain(name).unwrap();
            assert_eq!(found.name, "snapCount", "{name}");
            assert_eq!(found.properties, ["zookeeper.snapCount"]);
            assert_eq!(found.default.as_deref(), Some("100000"));
            assert_eq!(
                (found.unit, found.since),
                ("transactions", Some("3.4.0 or before"))
            );
            assert_eq!(found.values, "whole number, 2 or more");
            assert_eq!(found.effect.len(), 1);
            assert_eq!(found.effect[0].effect, "works");
        }
        assert_eq!(explain("server.7").unwrap().name, "server.7");
        assert_eq!(
            explain("authProvider.sasl").unwrap().name,
            "authProvider.sasl"
        );
    }

    #[test]
    fn a_misspelt_setting_gets_a_suggestion() {
        let nearest = |name: &str| explain(name).unwrap_err().nearest;
        assert_eq!(nearest("tikcTime").as_deref(), Some("tickTime"));
        assert_eq!(
            nearest("-Dzookeeper.snapCont").as_deref(),
            Some("snapCount")
        );
        assert_eq!(
            nearest("requestThrottleLimit").as_deref(),
            Some("request_throttle_max_requests")
        );
        assert_eq!(nearest("kubernetes.namespace"), None);
    }

    #[test]
    fn every_setting_has_an_explanation_with_a_fate() {
        for key in registry::all() {
            let name = key.name.replace('*', "x");
            let found = explain(&name).unwrap();
            assert!(
                !found.effect.is_empty() && !found.values.is_empty(),
                "{name}"
            );
            assert!(!found.values.contains('`'), "{name}");
        }
    }

    #[test]
    fn a_refusal_says_why_and_what_to_do() {
        let found = explain("ssl.crl").unwrap();
        let refused = found
            .effect
            .iter()
            .find(|line| line.effect == "refused")
            .unwrap();
        assert!(!refused.reason.is_empty() && !refused.way_out.is_empty());
    }
}
