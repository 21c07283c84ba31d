//! docs/CONFIG.md, made from the registry.

use std::fmt::Write;

use crate::registry::{DefaultValue, Effect, Key, Kind, PREFIX, Scope, Section};

/// The reference of all settings.
pub fn render_markdown() -> String {
    let mut out = String::from(HEAD);
    for section in Section::ALL {
        let used = section
            .keys()
            .iter()
            .filter(|key| key.effect == Effect::Used);
        // Writing to a string does not fail.
        let _ = write!(out, "\n## {}\n\n{TABLE_HEAD}", section.title());
        for key in used {
            out.push_str(&row(key));
        }
    }
    out.push_str(NO_EFFECT_HEAD);
    for section in Section::ALL {
        for key in section.keys() {
            let (why, is_reported) = match key.effect {
                Effect::Used => continue,
                Effect::Accepted(why) => (why, "no"),
                Effect::None(why) => (why, "yes"),
            };
            let _ = writeln!(
                out,
                "| `{}` | {} {} | {is_reported} |",
                name(key),
                key.doc,
                sentence(why)
            );
        }
    }
    out
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

fn values(key: &Key) -> String {
    let kind = match key.kind {
        Kind::Int | Kind::Long if key.unit.is_empty() => "number".to_owned(),
        Kind::Int | Kind::Long => key.unit.to_owned(),
        Kind::Ratio => "fraction".to_owned(),
        Kind::Port => "port".to_owned(),
        Kind::Flag => "`true`, `false`".to_owned(),
        Kind::Word { special, other } => format!("`{special}`, `{other}`"),
        Kind::Choice(words) => {
            let shown = words.iter().filter(|word| !word.is_empty());
            shown
                .map(|word| format!("`{word}`"))
                .collect::<Vec<_>>()
                .join(", ")
        }
        Kind::Path => "path".to_owned(),
        Kind::Host => "host".to_owned(),
        Kind::Text | Kind::Secret | Kind::Member => "text".to_owned(),
        Kind::List => "words, by commas".to_owned(),
        Kind::Class => "Java class name".to_owned(),
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

const HEAD: &str = "\
# Configuration

<!-- Made from crates/config/src/registry by `ZOARIUM_BLESS=1 cargo test -p zoarium-config`. -->

Zoarium reads the zoo.cfg of Apache ZooKeeper 3.9 as it is.

* The file has the syntax of Java's `.properties`: `key=value` lines, `#` starts a comment line,
  `\\` at the end of a line continues it. `#` after a value belongs to the value.
* System properties are given as `zoarium server -Dname=value ... zoo.cfg`, or as `-Dname=value` in
  the variables `SERVER_JVMFLAGS` and `JVMFLAGS`; the command line goes before `JVMFLAGS`, and that
  before `SERVER_JVMFLAGS`.
* Where a setting has both forms, **the file goes before the property**. `syncEnabled` and
  `znode.container.*` are the exceptions: there the property goes before the file.
* A setting with no property name is taken from the file only, one with no file name from a property
  only.
* A wrong value in a setting that is taken from the file only is refused, with file, line, key and
  reason, and exit code 2. For most others a wrong value is reported and the default holds, as in
  Apache ZooKeeper.
* An unknown key is accepted, becomes the property `zookeeper.<key>`, and is reported together with
  the nearest name that is known.

In the tables, `<name>` is any name and N a number.
";

const TABLE_HEAD: &str = "\
| In zoo.cfg | System property | Values | Default | Meaning |
|---|---|---|---|---|
";

const NO_EFFECT_HEAD: &str = "
## Accepted without effect

These have nothing to act on here. Whether that is reported when one is written stands in the last
column. Flags of a JVM, such as `-Xmx`, are reported once.

| Setting | What it is | Reported |
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
