//! Check that the server reads every field of [`zoarium_config::Config`]. Otherwise the registry must mark
//! the settings of the field as refused or without effect.
//!
//! The test writes each setting to find the fields that it changes. It searches the sources of the
//! server and of the executable for readers of these fields.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use zoarium_config::Config;
use zoarium_config::registry::{self, Effect, Key};

use crate::every_setting::TOGETHER;
use crate::support::{Machine, another_value, machine_with};

/// Fields that are not settings: the record of written settings, which other code shows or checks.
const RECORD: &[&str] = &[
    "source",
    "initial_configuration",
    "properties",
    "given",
    "notices",
    "refusals",
    "auth.admin_token",
];

/// Member list, which depends on the `server.*` lines and on files.
const MEMBERSHIP: &str = "ensemble.membership";

/// Fields whose settings are not written one by one, with one setting for each.
const BEHIND: &[(&str, &str)] = &[
    ("auth.enforced_schemes", "enforce.auth.enabled"),
    ("client.plain.host", "clientPortAddress"),
    ("client.plain.ip", "clientPortAddress"),
    ("data_dir", "dataDir"),
    ("limits.budgets", "budget.*"),
    ("ensemble.dynamic_file", "dynamicConfigFile"),
    ("ensemble.last_seen", "dynamicConfigFile"),
    ("ensemble.my_id", "server.*"),
    ("ensemble.role", "peerType"),
    ("admin.member_ports", "zoarium.admin.*"),
    ("auth.sasl.acceptor", "java.security.auth.login.config"),
    ("ensemble.sasl.learner", "quorum.auth.learnerRequireSasl"),
    ("ensemble.sasl.may_join", "quorum.auth.enableSasl"),
    (
        "ensemble.sasl.server_requires",
        "quorum.auth.serverRequireSasl",
    ),
];

/// Fields that have their effect inside this crate, on the text of an address or on refusals of
/// SASL between members.
const IN_CONFIG: &[&str] = &["client.plain.host", "fips_mode"];

/// Field in the debug output of a configuration: its path, its value, and its containing type.
#[derive(Debug, Default, Clone, PartialEq)]
struct Field {
    value: String,
    owner_type: String,
}

/// Returns all fields by path, such as `storage.snap_count`.
fn fields(config: &Config) -> BTreeMap<String, Field> {
    let mut fields: BTreeMap<String, Field> = BTreeMap::new();
    // Stack of the names and types that contain the line, with their indentation.
    let mut names: Vec<(usize, String)> = Vec::new();
    let mut types: Vec<(usize, String)> = Vec::new();
    for line in format!("{config:#?}").lines() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        names.retain(|(at, _)| *at < indent);
        types.retain(|(at, _)| *at < indent);
        let name = text.split_once(": ").filter(|(name, _)| is_name(name));
        let value = name.map_or(text, |(_, value)| value);
        if let Some((name, _)) = name {
            names.push((indent, name.to_owned()));
        }
        let path: Vec<&str> = names.iter().map(|(_, name)| name.as_str()).collect();
        if !path.is_empty() {
            let field = fields.entry(path.join(".")).or_default();
            field.value.push_str(value);
            if name.is_some()
                && let Some((_, owner)) = types.last()
            {
                field.owner_type.clone_from(owner);
            }
        }
        if let Some(opened) = value.strip_suffix(" {") {
            types.push((indent, opened.to_owned()));
        }
    }
    fields
}

fn is_name(text: &str) -> bool {
    text.chars()
        .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
}

/// Returns the sources of the server and of the executable, without their tests.
fn sources() -> Vec<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let readers = [
        "admin",
        "admission",
        "frontend",
        "host",
        "metrics",
        "quorum",
        "replica",
        "server",
        "transport",
        "zoarium",
    ];
    let mut directories: Vec<_> = readers.map(|name| crates.join(name).join("src")).into();
    let mut sources = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "tests" {
                directories.push(path);
            } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
                let text = fs::read_to_string(path).unwrap();
                let code = text
                    .split("#[cfg(test)]\nmod tests {")
                    .next()
                    .unwrap_or_default();
                sources.push(code.to_owned());
            }
        }
    }
    sources
}

/// Returns whether a source reads `.leaf` and also names the parent of the field.
fn has_reader(sources: &[String], path: &str, field: &Field) -> bool {
    let (around, leaf) = path.rsplit_once('.').unwrap_or(("config", path));
    let parent = around.rsplit('.').next().unwrap_or(around);
    let is_read = |code: &str| words_after_dot(code).any(|word| word == leaf);
    let is_at_hand =
        |code: &str| words(code).any(|word| word == parent || word == field.owner_type);
    sources.iter().any(|code| is_read(code) && is_at_hand(code))
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
}

/// Returns the names after dots, except methods.
fn words_after_dot(code: &str) -> impl Iterator<Item = &str> {
    code.split('.').skip(1).filter_map(|rest| {
        let end = rest
            .find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
            .unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        (!behind.starts_with('(')).then_some(word)
    })
}

/// Returns the settings of each field.
fn settings_behind() -> BTreeMap<String, BTreeSet<&'static str>> {
    let without = fields(&Machine::switched_on("").config());
    let mut behind: BTreeMap<String, BTreeSet<&'static str>> = BTreeMap::new();
    for key in registry::all().filter(|key| !TOGETHER.contains(&key.name)) {
        let Some(value) = another_value(key) else {
            continue;
        };
        let with = fields(&machine_with(key, value).config());
        let paths: BTreeSet<&String> = without.keys().chain(with.keys()).collect();
        for path in paths {
            if without.get(path).map(|f| &f.value) != with.get(path).map(|f| &f.value) {
                behind.entry(path.clone()).or_default().insert(key.name);
            }
        }
    }
    behind
}

/// Returns whether any value of the setting works.
fn can_work(key: &Key) -> bool {
    matches!(key.effect, Effect::Works | Effect::Partly(_))
}

#[test]
fn the_server_reads_exactly_the_working_settings() {
    let behind = settings_behind();
    let sources = sources();
    let all = fields(&Machine::switched_on("").config());
    let (mut read, mut unread) = (0, 0);
    for (path, field) in &all {
        let has_parts = all.keys().any(|other| is_part(other, path));
        if has_parts || is_recorded(path) || path.starts_with(MEMBERSHIP) {
            continue;
        }
        let mut settings = behind.get(path).cloned().unwrap_or_default();
        let together = BEHIND.iter().filter(|(field, _)| field == path);
        settings.extend(together.map(|(_, name)| *name));
        assert!(!settings.is_empty(), "no setting is behind {path}");
        let works = settings.iter().any(|name| can_work(setting(name)));
        let is_read = has_reader(&sources, path, field);
        if IN_CONFIG.contains(&path.as_str()) {
            continue;
        }
        assert!(
            is_read || !works,
            "{path} is read nowhere: the server does not do what {settings:?} ask for, and the \
             registry says that it does"
        );
        assert!(
            works || !is_read,
            "{path} is read: the registry says that {settings:?} have no effect or are refused"
        );
        read += usize::from(is_read);
        unread += usize::from(!is_read);
    }
    assert!(read > 150 && unread > 5, "{read} read, {unread} not");
}

fn setting(name: &str) -> &'static Key {
    let named = registry::all().find(|key| key.name == name);
    named.unwrap_or_else(|| panic!("{name} is not a setting"))
}

fn is_part(path: &str, of: &str) -> bool {
    path.strip_prefix(of)
        .is_some_and(|rest| rest.starts_with('.'))
}

fn is_recorded(path: &str) -> bool {
    RECORD
        .iter()
        .any(|field| path == *field || is_part(path, field))
}
