//! `--output json` and `--output yaml` of each command.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;
use tests::{find_tool, or_skip};

use super::{Site, complaint, program};

/// Commands with objects on standard output. A trailing `INPUT` stands for an export.
const COMMANDS: &[&str] = &[
    "get /a",
    "get /a/bin --base64",
    "ls /a",
    "ls -l /a",
    "ls -R /a",
    "stat /a",
    "set /a other",
    "create /b",
    "tree /a",
    "find / --name a",
    "acl /a",
    "acl /b world:anyone:cdrwa",
    "cp -r /a /c",
    "diff /a /b",
    "mv /c /d",
    "export /a",
    "import /d",
    "rm -r /d",
    "reconfig",
    "status",
    "top -n 1 -d 0.1",
];

/// Reads YAML documents from standard input and prints each as a line of JSON.
const TO_JSON: &str = "\
import json, sys, yaml
for document in yaml.safe_load_all(sys.stdin):
    print(json.dumps(document))
";

fn objects(text: &str) -> Vec<Value> {
    let parse =
        |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
    text.lines().map(parse).collect()
}

/// Parses YAML documents with another implementation. Returns `None` if this machine does not have
/// one.
fn documents(yaml: &str) -> Option<Vec<Value>> {
    let python = find_tool("python3").ok()?;
    let has_yaml = Command::new(&python).args(["-c", "import yaml"]).output();
    if !has_yaml.is_ok_and(|output| output.status.success()) {
        return None;
    }
    let mut child = Command::new(python)
        .args(["-c", TO_JSON])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start Python");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(yaml.as_bytes()).expect("a reader");
    drop(input);
    let output = child.wait_with_output().expect("its end");
    assert!(output.status.success(), "not YAML: {yaml}");
    Some(objects(&String::from_utf8(output.stdout).expect("text")))
}

/// Returns the part that is equal in every run: the paths and names of fields.
fn shape(objects: &[Value]) -> Vec<Vec<String>> {
    let fields = |object: &Value| {
        let fields = object.as_object().expect("an object");
        fields.keys().cloned().collect()
    };
    objects.iter().map(fields).collect()
}

#[test]
fn each_command_prints_objects_that_parse() {
    let _ = or_skip("another parser of YAML", find_tool("python3"));
    let mut shapes = Vec::new();
    for form in ["json", "yaml"] {
        let Some(site) = Site::start() else { return };
        site.text(&["create", "-p", "/a/x", "no: \"yes\"\n- 5 # é"]);
        site.text(&["create", "/a/bin", "\u{9b}2J"]);
        let mut all = Vec::new();
        for line in COMMANDS {
            let mut words: Vec<&str> = line.split(' ').collect();
            words.extend(["--output", form]);
            let export = r#"{"path":"/i","data":"YQ==","acl":[{"perms":31,"scheme":"world","id":"anyone"}]}"#;
            let output = program(&words, &site.server.address(), export);
            let text = String::from_utf8(output.stdout.clone()).expect("text");
            // `diff` finds differences.
            let wanted = if words[0] == "diff" { 1 } else { 0 };
            assert_eq!(
                output.status.code(),
                Some(wanted),
                "{line}: {}",
                complaint(&output)
            );
            let found = match form {
                "json" => Some(objects(&text)),
                _ => {
                    assert!(text.starts_with("---\n"), "{line}: {text}");
                    documents(&text)
                }
            };
            let Some(found) = found else { continue };
            assert!(!found.is_empty(), "{line} prints nothing");
            all.push((*line, shape(&found)));
        }
        shapes.push(all);
    }
    for (json, yaml) in shapes[0].iter().zip(&shapes[1]) {
        assert_eq!(json, yaml);
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
