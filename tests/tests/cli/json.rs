//! `--output json`: output for programs.

use client::{Client, Create, Options};
use serde_json::{Value, json};
use tests::{Flavour, Server, or_skip};

use super::run;

/// Returns the output of a command, one value per line, and its exit code.
fn ask(server: &Server, words: &[&str], stdin: Option<&str>) -> (Vec<Value>, Option<i32>) {
    let address = server.address();
    let all = ["-server", &address, "--output", "json"];
    let all: Vec<String> = all
        .iter()
        .chain(words)
        .map(|word| word.to_string())
        .collect();
    let output = run(&all, stdin);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(
        !text.contains(|c: char| c.is_control() && c != '\n'),
        "{text:?}"
    );
    let parse = |line: &str| {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{words:?}: {line:?}: {error}"))
    };
    (text.lines().map(parse).collect(), output.status.code())
}

/// Text that a terminal would interpret.
const TEXT: &str = "line \u{1b}[2J\u{9b}2J\n";

/// Returns a server with text, binary data, no data and an ephemeral below `/a b`.
async fn filled() -> Option<(Server, Client)> {
    let server = or_skip("cli", Server::start(Flavour::Zoarium))?;
    let client = Client::connect(Options::new(&server.address()))
        .await
        .expect("connect");
    let persistent = Create::persistent();
    let binary = vec![0, 0xff];
    for (path, data) in [("/a b", TEXT.as_bytes().to_vec()), ("/a b/bin", binary)] {
        client
            .create(path, data, &persistent)
            .await
            .expect("create");
    }
    client
        .create_without_data("/a b/null", &persistent)
        .await
        .expect("create");
    client
        .create("/a b/mine", "", &Create::ephemeral())
        .await
        .expect("create");
    Some((server, client))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_names_its_encoding() {
    let Some((server, client)) = filled().await else {
        return;
    };
    let get = |path: &str, flag: &str| {
        let words: Vec<&str> = ["get", path, flag]
            .into_iter()
            .filter(|w| !w.is_empty())
            .collect();
        let (lines, code) = ask(&server, &words, None);
        assert_eq!((lines.len(), code), (1, Some(0)), "{lines:?}");
        lines.into_iter().next().expect("a line")
    };
    let shown = get("/a b", "");
    assert_eq!(
        (&shown["data"], &shown["encoding"]),
        (&json!(TEXT), &json!("utf-8"))
    );
    let stat = client
        .exists("/a b")
        .await
        .expect("ask")
        .expect("it is there");
    assert_eq!(shown["stat"]["cZxid"], json!(format!("0x{:x}", stat.czxid)));
    assert_eq!(shown["stat"]["numChildren"], 3);
    let shown = get("/a b/bin", "");
    assert_eq!(
        (&shown["data"], &shown["encoding"]),
        (&json!("AP8="), &json!("base64"))
    );
    assert_eq!(get("/a b/null", "")["data"], Value::Null);
    assert_eq!(get("/a b", "-b")["encoding"], "base64");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_reading_command_prints_one_object_per_line() {
    let Some((server, client)) = filled().await else {
        return;
    };
    let show = |words: &[&str]| ask(&server, words, None).0;
    let stat = show(&["stat", "/a b/mine"]);
    let owner = format!("0x{:x}", client.session_id().0);
    assert_eq!(stat[0]["stat"]["ephemeralOwner"], json!(owner), "{stat:?}");
    let names = json!(["bin", "mine", "null"]);
    assert_eq!(
        show(&["ls", "/a b"]),
        [json!({ "path": "/a b", "children": names })]
    );
    assert_eq!(show(&["ls", "-s", "/a b"])[0]["stat"]["numChildren"], 3);
    assert_eq!(show(&["ls", "-R", "/a b"]).len(), 4);
    let open = json!([{ "perms": 31, "scheme": "world", "id": "anyone" }]);
    assert_eq!(show(&["getAcl", "/a b"])[0]["acl"], open);
    let tree = show(&["tree", "/a b"]);
    let mine = json!({ "path": "/a b/mine", "depth": 1, "children": 0, "ephemeral": true });
    assert_eq!((tree.len(), &tree[2]), (4, &mine));
    assert_eq!(
        show(&["find", "-name", "b*", "/a b"]),
        [json!({ "path": "/a b/bin" })]
    );
    let sum = json!({ "path": "/a b", "bytes": TEXT.len() + 2, "znodes": 4 });
    assert_eq!(show(&["du", "/a b"]).last(), Some(&sum));
    assert_eq!(show(&["grep", "line", "/a b"])[0]["line"], TEXT.trim_end());
    assert_eq!(show(&["getAllChildrenNumber", "/a b"])[0]["number"], 3);
    assert_eq!(
        show(&["getEphemerals"])[0]["ephemerals"],
        json!([]),
        "it is another session"
    );
    let differs = json!({ "path": "/", "difference": "data differs (2 bytes, null)" });
    assert_eq!(
        ask(&server, &["diff", "/a b/bin", "/a b/null"], None),
        (vec![differs], Some(1))
    );
    assert!(
        show(&["whoami"])
            .iter()
            .all(|identity| identity["scheme"] == "ip")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_without_json_are_refused_and_pipes_get_only_json() {
    let Some(server) = or_skip("cli", Server::start(Flavour::Zoarium)) else {
        return;
    };
    let (lines, code) = ask(&server, &["get", "/nosuch"], None);
    assert_eq!((lines.len(), code), (0, Some(1)));
    assert_eq!(ask(&server, &["listquota", "/"], None), (vec![], Some(1)));
    // There is no greeting, and there are no events.
    let script = "create /x y\nget -w /x\nset /x z\nget /x\nls /\n";
    let (lines, code) = ask(&server, &[], Some(script));
    let data: Vec<&Value> = lines.iter().map(|line| &line["data"]).collect();
    assert_eq!(data, [&json!("y"), &json!("z"), &Value::Null]);
    assert_eq!(lines[2]["children"], json!(["x", "zookeeper"]));
    assert_eq!(code, Some(0));
}
