//! `--output json` and `--output yaml` of each command.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Deserializer, Number, Value};
use tests::{Port, wait_for};
use yaml_rust2::{Yaml, YamlLoader};

use super::{Site, complaint, program};

/// Commands with objects on standard output, in the order of their execution.
///
/// The test replaces `ADMIN` by the admin port of the server, `DATA` by its data directory, `ZXID` by the transaction
/// that created `/a`, and `CONFIG` by another configuration.
const COMMANDS: &[(&str, Repeat)] = &[
    ("get /a", Repeat::Equal),
    ("get /a/bin --base64", Repeat::Equal),
    ("get /a --at ZXID --admin ADMIN", Repeat::Equal),
    ("ls /a", Repeat::Equal),
    ("ls -l /a", Repeat::Equal),
    ("ls -R /a", Repeat::Equal),
    ("stat /a", Repeat::Equal),
    ("tree /a", Repeat::Equal),
    ("tree /a --at ZXID --admin ADMIN", Repeat::Equal),
    ("find / --name a", Repeat::Equal),
    ("acl /a", Repeat::Equal),
    ("export /a", Repeat::Equal),
    ("history /a --until ZXID --admin ADMIN", Repeat::Equal),
    ("history blame /a --admin ADMIN", Repeat::Equal),
    ("diff /a --from 0x1 --to ZXID --admin ADMIN", Repeat::Equal),
    ("watch / --from 0x1 --limit 2 --admin ADMIN", Repeat::Equal),
    ("reconfig", Repeat::Equal),
    ("shell", Repeat::Equal),
    ("config check CONFIG", Repeat::Equal),
    ("config explain tickTime", Repeat::Equal),
    ("config effective CONFIG", Repeat::Equal),
    ("preflight CONFIG", Repeat::Differs),
    ("snapshot summary DATA", Repeat::Equal),
    ("snapshot compare DATA DATA --bytes -1", Repeat::Equal),
    ("status", Repeat::Differs),
    ("top -n 1 -d 0.1", Repeat::Differs),
    ("set /a other", Repeat::Differs),
    ("create /b", Repeat::Differs),
    ("acl /b world:anyone:cdrwa", Repeat::Differs),
    ("cp -r /a /c", Repeat::Differs),
    ("diff /a /b", Repeat::Equal),
    ("mv /c /d", Repeat::Differs),
    ("import /d", Repeat::Differs),
    ("rm -r /d", Repeat::Differs),
];

/// Result of a second execution of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repeat {
    Equal,
    /// Other values, or an error.
    Differs,
}

/// Returns the objects of a text, which may use several lines for an object.
fn objects(text: &str) -> Vec<Value> {
    let values = Deserializer::from_str(text).into_iter();
    let values: Result<Vec<Value>, _> = values.collect();
    values.unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

/// Parses YAML documents with a parser that the program does not use.
fn documents(text: &str) -> Vec<Value> {
    assert!(text.starts_with("---\n"), "{text}");
    let documents = YamlLoader::load_from_str(text);
    let documents = documents.unwrap_or_else(|error| panic!("{error}: {text}"));
    documents.iter().map(value).collect()
}

fn value(yaml: &Yaml) -> Value {
    match yaml {
        Yaml::Null => Value::Null,
        Yaml::Boolean(is_set) => Value::Bool(*is_set),
        Yaml::Integer(number) => Value::Number((*number).into()),
        Yaml::Real(text) => {
            let number = text.parse().ok().and_then(Number::from_f64);
            Value::Number(number.unwrap_or_else(|| panic!("not a number: {text}")))
        }
        Yaml::String(text) => Value::String(text.clone()),
        Yaml::Array(items) => items.iter().map(value).collect(),
        Yaml::Hash(fields) => {
            let fields = fields.iter().map(|(name, field)| {
                let name = name.as_str().expect("the name of a field");
                (name.to_owned(), value(field))
            });
            fields.collect()
        }
        other => panic!("{other:?}"),
    }
}

/// Returns the part that is equal in every run: the names of fields.
fn shape(values: &[Value]) -> Vec<Vec<String>> {
    let names = |value: &Value| match value {
        Value::Object(fields) => vec![fields.keys().cloned().collect()],
        Value::Array(items) => shape(items),
        other => panic!("neither an object nor a list: {other}"),
    };
    values.iter().flat_map(names).collect()
}

/// Starts a server with a change history, and creates znodes. Returns the transaction that created `/a`.
fn site() -> Option<(Site, String)> {
    let site = Site::start_with(&[
        ("history.enabled", "true"),
        ("history.minFreeMegabytes", "0"),
    ])?;
    site.text(&["create", "-p", "/a/x", "no: \"yes\"\n- 5 # é"]);
    site.text(&["create", "/a/bin", "\u{9b}2J"]);
    let stat = objects(&site.text(&["stat", "/a/bin", "--output", "json"]));
    let zxid = stat[0]["stat"]["cZxid"]
        .as_str()
        .expect("a zxid")
        .to_owned();
    let admin = site.admin_address();
    let words = ["get", "/a/bin", "--at", &zxid, "--admin", &admin];
    wait_for("record of the last change", super::super::PATIENCE, || {
        site.run(&words).status.success().then_some(())
    });
    Some((site, zxid))
}

/// Runs a command, and returns its output.
fn printed(site: &Site, words: &[&str], form: &str) -> String {
    let export =
        r#"{"path":"/i","data":"YQ==","acl":[{"perms":31,"scheme":"world","id":"anyone"}]}"#;
    let input = if words[0] == "shell" {
        "get /a/x\n"
    } else {
        export
    };
    let words = [words, &["--output", form]].concat();
    let output = program(&words, &site.server.address(), input);
    // `diff` of two subtrees finds differences.
    let is_difference = words[0] == "diff" && !words.contains(&"--from");
    assert_eq!(
        output.status.code(),
        Some(i32::from(is_difference)),
        "{words:?}: {}",
        complaint(&output)
    );
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn each_command_prints_objects_that_parse() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("zoo.cfg");
    let port = Port::take();
    let data = dir.path().join("data");
    fs::create_dir(&data).expect("a directory");
    let lines = format!("dataDir={}\nclientPort={}\n", data.display(), port.number());
    fs::write(&config, lines).expect("zoo.cfg");
    let mut shapes = Vec::new();
    for form in ["json", "yaml"] {
        let Some((site, zxid)) = site() else { return };
        let parse: fn(&str) -> Vec<Value> = match form {
            "json" => objects,
            _ => documents,
        };
        let mut all = Vec::new();
        for (line, repeat) in COMMANDS {
            let line = line
                .replace("ADMIN", &site.admin_address())
                .replace("ZXID", &zxid)
                .replace("CONFIG", &config.display().to_string())
                .replace("DATA", &site.server.data_dir().display().to_string());
            let words: Vec<&str> = line.split(' ').collect();
            let found = parse(&printed(&site, &words, form));
            assert!(!found.is_empty(), "{line} prints nothing");
            if form == "json" && *repeat == Repeat::Equal {
                assert_eq!(documents(&printed(&site, &words, "yaml")), found, "{line}");
            }
            all.push(shape(&found));
        }
        shapes.push(all);
    }
    for ((json, yaml), (line, _)) in shapes[0].iter().zip(&shapes[1]).zip(COMMANDS) {
        assert_eq!(json, yaml, "{line}");
    }
}

/// Adds the commands below `words` whose help names the forms of the output.
fn add_commands_with_forms(words: &[&str], found: &mut BTreeSet<String>) {
    let help = program(&[words, &["--help"]].concat(), "", "");
    let text = String::from_utf8(help.stdout).expect("text");
    if text.contains("--output <OUTPUT>") && text.contains("yaml") {
        found.insert(words.join(" "));
    }
    let commands = text
        .split_once("\nCommands:\n")
        .map_or("", |(_, rest)| rest);
    let commands = commands.lines().take_while(|line| line.starts_with("  "));
    // A name is followed by two spaces, or by the end of its line.
    let names = commands.filter(|line| !line.starts_with("   "));
    for name in names.filter_map(|line| line.split_whitespace().next()) {
        if name != "help" {
            add_commands_with_forms(&[words, &[name]].concat(), found);
        }
    }
}

/// A new command with `--output` must be a line of the table.
#[test]
fn the_table_contains_each_command_with_a_form_of_its_output() {
    let mut found = BTreeSet::new();
    add_commands_with_forms(&[], &mut found);
    let is_listed = |name: &String| {
        let begin = format!("{name} ");
        let mut lines = COMMANDS.iter().map(|(line, _)| format!("{line} "));
        lines.any(|line| line.starts_with(&begin))
    };
    let missing: Vec<&String> = found.iter().filter(|name| !is_listed(name)).collect();
    assert!(missing.is_empty(), "no test of --output for {missing:?}");
    assert!(found.len() >= 26, "{found:?}");
    for name in ["get", "history blame", "config effective", "watch"] {
        assert!(found.contains(name), "{name} is not in {found:?}");
    }
}

#[test]
fn a_watch_prints_changes_as_they_happen() {
    use std::io::{BufRead, BufReader};
    let Some(site) = Site::start() else { return };
    site.text(&["create", "/w"]);
    let mut child = Command::new(tests::zoarium_binary())
        .args(["watch", "/w", "--limit", "2", "--output", "json"])
        .env("ZOARIUM_SERVER", site.server.address())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start the program");
    // Writes until the first change is visible, which proves that the watch is set.
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let (sender, seen) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        while let Some(Ok(line)) = lines.next() {
            all.push(line);
            let _ = sender.send(());
        }
        all
    });
    while seen.try_recv().is_err() {
        site.text(&["set", "/w", "again"]);
    }
    site.text(&["create", "/w/child"]);
    let all = reader.join().expect("its lines");
    assert!(child.wait().expect("its end").success());
    let changes = objects(&all.join("\n"));
    assert_eq!(changes.len(), 2, "{all:?}");
    assert_eq!(
        (&changes[0]["path"], &changes[0]["operation"]),
        (&"/w".into(), &"set".into())
    );
    assert!(
        changes[0]["zxid"]
            .as_str()
            .expect("a zxid")
            .starts_with("0x")
    );
}
