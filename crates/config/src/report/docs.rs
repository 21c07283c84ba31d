//! Generator of docs/CONFIG.md from the registry.

use std::fmt::Write;

use crate::registry::{
    DefaultValue, Effect, Key, PREFIX, Refusal, Scope, Section, ValueKind, ValueSet, all,
};

/// Returns the reference of all settings as Markdown.
pub fn render_markdown() -> String {
    let mut out = String::from(HEAD);
    for section in Section::ALL {
        let used = section
            .keys()
            .iter()
            .filter(|key| matches!(key.effect, Effect::Works | Effect::Partly(_)));
        // Writing to a string does not fail.
        let _ = write!(out, "\n## {}\n\n{TABLE_HEAD}", section.title());
        for key in used {
            out.push_str(&row(key));
        }
    }
    out.push_str(REFUSED_HEAD);
    for refusal in refusals() {
        let why = format!(
            "**{}** {}",
            reason_sentence(refusal),
            sentence(refusal.way_out)
        );
        let _ = write!(out, "\n{}\n\n{REFUSED_TABLE_HEAD}", wrapped(&why));
        for (key, case) in cases() {
            if let Effect::Refused(set, given) = case
                && *given == refusal
            {
                out.push_str(&case_row(key, &set.describe(), key.doc));
            }
        }
    }
    out.push_str(NO_EFFECT_HEAD);
    for (key, case) in cases() {
        if let Effect::NoEffect(set, why) = case {
            let what = format!("{} {}", key.doc, sentence(why));
            out.push_str(&case_row(key, &set.describe(), &what));
        }
    }
    out
}

/// Returns each case of the effects of all settings, with the setting.
fn cases() -> impl Iterator<Item = (&'static Key, &'static Effect)> {
    all().flat_map(|key| key.effect.cases().iter().map(move |case| (key, case)))
}

/// Returns the refused values and their refusals, in the order of the settings.
fn refused() -> impl Iterator<Item = (&'static ValueSet, &'static Refusal)> {
    cases().filter_map(|(_, case)| match case {
        Effect::Refused(set, refusal) => Some((set, *refusal)),
        _ => None,
    })
}

/// Returns all refusals, in the order of the settings.
fn refusals() -> Vec<&'static Refusal> {
    let mut refusals = Vec::new();
    for (_, refusal) in refused() {
        if !refusals.contains(&refusal) {
            refusals.push(refusal);
        }
    }
    refusals
}

/// Returns the reason as a sentence. Adds a subject if the reason lacks one.
fn reason_sentence(refusal: &Refusal) -> String {
    if refusal.reason.starts_with(char::is_uppercase) {
        sentence(refusal.reason)
    } else {
        sentence(&format!("{} {}", subject(refusal), refusal.reason))
    }
}

/// Returns the subject of the sentence: the refused settings or values, which the table after the
/// sentence lists.
fn subject(refusal: &Refusal) -> &'static str {
    let sets: Vec<_> = refused().filter(|(_, given)| *given == refusal).collect();
    match sets.as_slice() {
        [(ValueSet::OneOf([_]), _)] => "this value",
        all if all.iter().all(|(set, _)| **set == ValueSet::Any) => "each setting below",
        _ => "each value below",
    }
}

fn case_row(key: &Key, values: &str, what: &str) -> String {
    let beside = key.only_with.map_or_else(String::new, |condition| {
        let values = condition.set.describe();
        format!(", where `{}` is {values}", condition.name)
    });
    format!("| `{}` | {values}{beside} | {what} |\n", name(key))
}

fn row(key: &Key) -> String {
    format!(
        "| {} | {} | {} | {} | {} |\n",
        file_name(key),
        property_name(key),
        values(key),
        default(key),
        key.doc.replace('|', "\\|")
    )
}

fn name(key: &Key) -> String {
    match key.scope {
        Scope::Members => key.name.trim_end_matches(['*', '.']).to_owned() + ".N",
        _ => key.name.replace('*', "<name>"),
    }
}

fn file_name(key: &Key) -> String {
    match key.scope {
        Scope::Property => "-".to_owned(),
        _ => format!("`{}`", name(key)),
    }
}

fn property_name(key: &Key) -> String {
    let own = match key.scope {
        Scope::Prefixed => format!("{PREFIX}{}", name(key)),
        _ => match key.property_name() {
            Some(property) => property.replace('*', "<name>"),
            None => return "-".to_owned(),
        },
    };
    let mut names = format!("`{own}`");
    for also in key.also {
        let _ = write!(names, ", `{also}`");
    }
    names
}

pub(crate) fn values(key: &Key) -> String {
    let kind = match key.kind {
        ValueKind::Int | ValueKind::Long if key.unit.is_empty() => "number".to_owned(),
        ValueKind::Int | ValueKind::Long => key.unit.to_owned(),
        ValueKind::Ratio => "fraction".to_owned(),
        ValueKind::Port => "port".to_owned(),
        ValueKind::Flag => "`true`, `false`".to_owned(),
        ValueKind::Word { special, other } => format!("`{special}`, `{other}`"),
        ValueKind::Choice(words) => {
            let shown = words.iter().filter(|word| !word.is_empty());
            shown
                .map(|word| format!("`{word}`"))
                .collect::<Vec<_>>()
                .join(", ")
        }
        ValueKind::Path => "path".to_owned(),
        ValueKind::Host => "host".to_owned(),
        ValueKind::Text | ValueKind::Secret | ValueKind::Member => "text".to_owned(),
        ValueKind::List => "words, separated by commas".to_owned(),
        ValueKind::Class => "Java class name".to_owned(),
    };
    match key.range {
        Some(range) if range.max < i64::from(i32::MAX) && range.min > i64::from(i32::MIN) => {
            format!("{kind}, {} to {}", range.min, range.max)
        }
        Some(range) if range.min > i64::from(i32::MIN) => format!("{kind}, {} or more", range.min),
        _ => kind,
    }
}

fn default(key: &Key) -> String {
    match key.default {
        DefaultValue::Unset | DefaultValue::Value("") => "-".to_owned(),
        DefaultValue::Value(text) => format!("`{text}`"),
        DefaultValue::Derived(words) => words.to_owned(),
    }
}

fn sentence(why: &str) -> String {
    let mut letters = why.chars();
    let first = letters
        .next()
        .map(|first| first.to_uppercase().to_string())
        .unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

/// Wraps the text at 100 columns.
fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let is_full = column + word.len() >= 100;
        match (column, is_full) {
            (0, _) => {}
            (_, true) => {
                lines.push('\n');
                column = 0;
            }
            (_, false) => {
                lines.push(' ');
                column += 1;
            }
        }
        lines.push_str(word);
        column += word.len();
    }
    lines
}

const HEAD: &str = "\
# Configuration

<!-- Made from crates/config/src/registry by `ZOARIUM_BLESS=1 cargo test -p zoarium-config`. -->

Zoarium reads the zoo.cfg of Apache ZooKeeper 3.9 unchanged.

* The file has the syntax of Java's `.properties`: `key=value` lines. `#` starts a comment line, and
  `\\` at the end of a line continues it. `#` after a value belongs to the value.
* Set system properties with arguments (`zoarium server -Dname=value ... zoo.cfg`), or in the
  variables `SERVER_JVMFLAGS` and `JVMFLAGS`. An argument overrides `JVMFLAGS`, and `JVMFLAGS`
  overrides `SERVER_JVMFLAGS`.
* If a setting is written in both places, **the file overrides the property**. The exceptions are
  `syncEnabled` and `znode.container.*`, where the property overrides the file.
* A setting without a system property works in the file only. A setting without a name in zoo.cfg
  works as a property only.
* An invalid value prevents the start if the setting works in the file only. The error (exit code 2)
  contains file, line, key and reason. For most other settings, an invalid value is reported and the
  default is used, as in Apache ZooKeeper.
* A value that requires a missing feature also prevents the start. The error then contains a
  solution: see [Refused](#refused).
* A setting without an effect is accepted with a warning: see [Without effect](#without-effect).
* An unknown key is accepted, becomes the property `zookeeper.<key>`, and is reported with the most
  similar known name.

In the tables, `<name>` is any name, and N is a number.
";

const TABLE_HEAD: &str = "\
| In zoo.cfg | System property | Values | Default | Meaning |
|---|---|---|---|---|
";

const REFUSED_HEAD: &str = "
## Refused

Zoarium does not start with these values. Other values and empty values are accepted.
";

const REFUSED_TABLE_HEAD: &str = "\
| Setting | Values | Meaning |
|---|---|---|
";

const NO_EFFECT_HEAD: &str = "
## Without effect

Zoarium does not need these settings. At its start, it logs one warning for each setting, and one
for all flags of a JVM, such as `-Xmx`.

| Setting | Values | Meaning, and reason for the missing effect |
|---|---|---|
";

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn docs_config_md_is_made_from_the_registry() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/CONFIG.md");
        let rendered = render_markdown();
        if std::env::var_os("ZOARIUM_BLESS").is_some() {
            std::fs::write(&path, &rendered).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == rendered,
            "docs/CONFIG.md is not up to date; run ZOARIUM_BLESS=1 cargo test -p zoarium-config"
        );
    }

    #[test]
    fn every_row_has_the_columns_of_its_table() {
        for line in render_markdown()
            .lines()
            .filter(|line| line.starts_with('|'))
        {
            let bars = line.replace("\\|", "").matches('|').count();
            assert!(bars == 6 || bars == 4, "{line}");
        }
    }
}
