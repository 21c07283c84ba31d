//! Every recorded command prints the output of zkCli.sh, and has the same exit code.

use std::process::Output;
use std::time::Duration;

use client::{Client, Create, Options};
use proto::Acl;
use proto::data::perms;
use serde_json::Value;
use tests::{Flavour, Server, ServerBuilder, or_skip, wait_for};

use super::run;

/// `bob:pw` as digest identity.
const BOB: &str = "bob:ikIaKsbtGweaHnb/jKn7OHqbunM=";
/// `super:secret` as digest identity.
const SUPER: &str = "super:lK75jTNcA+U9vtVEw5vB51mj/w4=";

/// Recorded command lines with deliberate differences, and their reasons. docs/COMPATIBILITY.md
/// contains the same list.
const DIFFERENT: [(&str, &str); 3] = [
    ("help", "a command here: it lists all commands and succeeds"),
    ("version", "the version is ours"),
    (
        "setquota -n 5 /zookeeper",
        "a setquota that was refused has left no znode behind that would be counted",
    ),
];

struct Case {
    words: Vec<String>,
    stdin: Option<String>,
    stdout: String,
    stderr: String,
    exit: i64,
}

fn recorded() -> Option<Vec<Case>> {
    let path = testkit::recordings::find("vectors/operations/cli/standalone.jsonl")?;
    let text = std::fs::read_to_string(path).expect("read a recording");
    let case = |line: &str| {
        let record: Value = serde_json::from_str(line).expect("a line is JSON");
        let text = |key: &str| record[key].as_str().unwrap_or_default().to_owned();
        let words = record["argv"].as_array().expect("words").iter();
        Case {
            words: words
                .map(|word| word.as_str().unwrap_or_default().to_owned())
                .collect(),
            stdin: record["stdin"].as_str().map(str::to_owned),
            stdout: text("stdout"),
            stderr: text("stderr"),
            exit: record["exit"].as_i64().expect("an exit code"),
        }
    };
    Some(text.lines().map(case).collect())
}

/// Returns the part that is equal in every run, without session events, ports, times, zxids, and
/// remains of earlier sessions.
fn steady(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    // An event has four lines, of which the first and third are empty.
    let joined = text.replace("\nWATCHER::\n\n", "");
    for line in joined.replace("WatchedEvent", "\nWatchedEvent").lines() {
        let is_of_session = line.starts_with("WatchedEvent") && line.contains("path:null");
        if is_of_session || line == "WATCHER::" {
            continue;
        }
        let line = match line.split_once(" zxid: ") {
            Some((event, _)) => event.to_owned(),
            None => steady_line(line),
        };
        lines.push(line);
    }
    // Lines were split where events were removed.
    lines.retain(|line| !line.is_empty());
    lines
}

const NUMBERS: [&str; 9] = [
    "cZxid",
    "ctime",
    "mZxid",
    "mtime",
    "pZxid",
    "cversion",
    "ephemeralOwner",
    "numChildren",
    "Connecting to",
];

fn steady_line(line: &str) -> String {
    if let Some(name) = NUMBERS.iter().find(|name| line.starts_with(**name)) {
        return (*name).to_owned();
    }
    // A server's lists have no defined order, and sequence numbers differ.
    let line = without_sequence(line);
    match line
        .strip_prefix('[')
        .and_then(|line| line.strip_suffix(']'))
    {
        Some(items) => {
            let mut items: Vec<&str> = items.split(", ").collect();
            items.sort_unstable();
            format!("[{}]", items.join(", "))
        }
        None => line,
    }
}

fn without_sequence(line: &str) -> String {
    let mut shown = String::new();
    let mut digits = String::new();
    for c in line.chars().chain(['\0']) {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        shown.push_str(if digits.len() == 10 {
            "NUMBER"
        } else {
            &digits
        });
        digits.clear();
        shown.push(c);
    }
    shown.trim_end_matches('\0').to_owned()
}

async fn prepare(client: &Client) {
    let open = Create::persistent();
    let data = |text: &str| text.as_bytes().to_vec();
    let mut bytes: Vec<u8> = (0..40).collect();
    bytes.extend([0xff, 0xfe]);
    let znodes: Vec<(&str, Vec<u8>, Create)> = vec![
        ("/app", data("data1"), open.clone()),
        ("/app/c1", data("xc1"), open.clone()),
        ("/app/c2", data("xc2"), open.clone()),
        ("/app/c10", data("xc10"), open.clone()),
        ("/app/c1/deep", data(""), open.clone()),
        ("/empty", data(""), open.clone()),
        ("/bin", bytes, open.clone()),
        ("/lines", data("one\ntwo\n"), open.clone()),
        ("/utf8", data("grüße"), open.clone()),
        ("/held", data(""), Create::ephemeral()),
        (
            "/locked",
            data("secret"),
            open.clone()
                .with_acl(vec![Acl::new(perms::ALL, "digest", BOB)]),
        ),
        (
            "/readonly",
            data("r"),
            open.clone()
                .with_acl(vec![Acl::new(perms::READ, "world", "anyone")]),
        ),
        ("/cont", data(""), Create::container()),
    ];
    for (path, data, create) in znodes {
        client
            .create(path, data, &create)
            .await
            .expect("create a znode");
    }
    client
        .create_without_data("/null", &open)
        .await
        .expect("create a znode");
    for (parent, child, below, count) in [("/tree", "n", "/leaf", 3), ("/bulk", "k", "", 5)] {
        client
            .create(parent, "", &open)
            .await
            .expect("create a znode");
        for number in 0..count {
            let path = format!("{parent}/{child}{number}");
            client
                .create(&path, "", &open)
                .await
                .expect("create a znode");
            if !below.is_empty() {
                let path = format!("{path}{below}");
                client
                    .create(&path, "", &open)
                    .await
                    .expect("create a znode");
            }
        }
    }
}

/// Starts a server like the recorded one: with a super user, and without extended types.
fn server() -> Option<Server> {
    let started = ServerBuilder::new(Flavour::Zoarium)
        .setting("extendedTypesEnabled", "false")
        .setting("maxSessionTimeout", "6000")
        .property("zookeeper.DigestAuthenticationProvider.superDigest", SUPER)
        .start();
    or_skip("cli", started)
}

/// Waits for the session expiry of one-shot commands, which removes their ephemerals.
fn wait_for_expiry(server: &Server) {
    wait_for(
        "end of the sessions of earlier commands",
        Duration::from_secs(60),
        || {
            let dump = server.word("dump");
            (!dump.contains("/eph") && !dump.contains("/app/es-")).then_some(())
        },
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_recorded_command_prints_and_ends_as_recorded() {
    let (Some(cases), Some(server)) = (recorded(), server()) else {
        return;
    };
    let client = Client::connect(Options::new(&server.address()))
        .await
        .expect("connect");
    prepare(&client).await;
    let recorded_address = cases[0].words[1].clone();
    let mut wrong = Vec::new();
    for case in &cases {
        let here = |text: &str| text.replace(&recorded_address, &server.address());
        let words: Vec<String> = case.words.iter().map(|word| here(word)).collect();
        let line = format!("{} <{:?}", words[2..].join(" "), case.stdin);
        if words.get(2).is_some_and(|word| word == "stat") {
            wait_for_expiry(&server);
        }
        let stdin = case.stdin.as_deref().map(here);
        let output = run(&words, stdin.as_deref());
        let command = case.stdin.clone().unwrap_or_else(|| words[2..].join(" "));
        if DIFFERENT.iter().any(|(name, _)| command.starts_with(name)) {
            continue;
        }
        compare(&mut wrong, &line, case, &output, &here);
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

fn compare(
    wrong: &mut Vec<String>,
    line: &str,
    case: &Case,
    output: &Output,
    here: &impl Fn(&str) -> String,
) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    let exit = output.status.code().map(i64::from);
    if exit != Some(case.exit) {
        wrong.push(format!(
            "{line}: exit {exit:?}, recorded {}: {stderr}",
            case.exit
        ));
    }
    let (got, wanted) = (steady(&stdout), steady(&here(&case.stdout)));
    if got != wanted {
        wrong.push(format!("{line}: stdout\n  {got:?}, recorded\n  {wanted:?}"));
    }
    // Java ends with a stack trace in this case, and Zoarium with a line.
    let ends_in_trace = case.stderr.contains("\tat ");
    let recorded: Vec<String> = case
        .stderr
        .lines()
        .take_while(|line| {
            !line.contains("Exception in thread") && !line.contains("ConfigException")
        })
        .map(str::to_owned)
        .collect();
    let is_same = if ends_in_trace {
        stderr.lines().count() > recorded.len()
    } else {
        // Zoarium adds the reason after the recorded text.
        let plain = stderr.lines().filter(|line| !line.starts_with("zoarium: "));
        plain
            .map(without_sequence)
            .eq(recorded.iter().map(|line| without_sequence(line)))
    };
    if !is_same {
        wrong.push(format!(
            "{line}: stderr\n  {stderr:?}, recorded\n  {:?}",
            case.stderr
        ));
    }
}
