//! Permissions of callers: every cell of the table in docs/SECURITY.md.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use client::{Client, Create, Options};
use proto::Acl;
use serde_json::Value;
use tests::{Flavour, HttpAnswer, HttpRequest, http_get, wait_for, workspace_root};

use crate::console::Visit;
use crate::site::{LIMIT, Site};

const TOKEN_ADMIN: &str = "admin:pw";
const ADMIN_ID: &str = "admin:HyfYpDg4zqvjWwhkAYRiLwvklpU=";
const READER: &str = "ann:pw";
const READER_ID: &str = "ann:RYbu6l5aZwqon8VWmkcGvezdzfc=";

/// Columns of the table, with user and password of each.
const CALLERS: [(&str, Option<&str>); 5] = [
    ("no credentials", None),
    ("made-up digest", Some("nobody:knows")),
    ("reader", Some(READER)),
    ("named administrator", Some(TOKEN_ADMIN)),
    ("super user", Some("super:secret")),
];

/// Calls, with the permission of each caller.
type Row = (Vec<String>, Vec<bool>);

fn table() -> Vec<Row> {
    let file = workspace_root().join("docs/SECURITY.md");
    let text = std::fs::read_to_string(file).expect("docs/SECURITY.md");
    let (_, table) = text.split_once("<!-- matrix -->").expect("the matrix");
    let (table, _) = table
        .split_once("<!-- end of the matrix -->")
        .expect("its end");
    let mut lines = table.lines().filter(|line| line.starts_with('|'));
    let cells = |line: &str| -> Vec<String> {
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().to_owned()).collect()
    };
    let heads = cells(lines.next().expect("the head"));
    let callers: Vec<&str> = CALLERS.iter().map(|(caller, _)| *caller).collect();
    assert_eq!(heads[1..], callers);
    let rows = lines.skip(1).map(|line| {
        let cells = cells(line);
        let calls = cells[0].split('`').filter(|call| !call.trim().is_empty());
        let allowed = cells[1..].iter().map(|cell| match cell.as_str() {
            "yes" => true,
            "no" => false,
            other => panic!("{other:?} in the matrix"),
        });
        (calls.map(str::to_owned).collect(), allowed.collect())
    });
    rows.collect()
}

/// Prepares a server whose znodes are open, except `/part`. Returns the zxid of the last change.
async fn prepare(site: &Site, is_open: bool) -> i64 {
    let client = Client::connect(Options::new(&site.server.address()));
    let client = client.await.expect("a session");
    let added = client.add_auth("digest", "super:secret").await;
    added.expect("a super user");
    let part = vec![Acl::new(1, "digest", READER_ID)];
    let part = Create::persistent().with_acl(part);
    client
        .create("/part", "private", &part)
        .await
        .expect("create");
    let open = Create::persistent();
    client
        .create("/open", "public", &open)
        .await
        .expect("create");
    client
        .create("/open/leaf", "", &open)
        .await
        .expect("create");
    let named = Acl::new(31, "digest", ADMIN_ID);
    let everybody = Acl::new(if is_open { 31 } else { 1 }, "world", "anyone");
    let set = client.set_acl("/", vec![named, everybody], -1).await;
    set.expect("set the ACL of /");
    client
        .set_data("/open", "again", -1)
        .await
        .expect("set")
        .mzxid
}

/// Returns the answer to a call of the table.
fn call(
    site: &Site,
    what: &str,
    head: &str,
    (caller, visit): (Option<&str>, &Visit),
) -> HttpAnswer {
    let (method, target) = what.split_once(' ').unwrap_or(("GET", what));
    let target = target.replace("HEAD", head);
    if target.starts_with("console/history/feed") {
        return begin_feed(site, &format!("/{target}"), &visit.header());
    }
    if target.starts_with("console/") {
        let body = (method != "GET").then_some(&b""[..]);
        let answer = visit.ask(method, &format!("/{target}"), body);
        if target == "console/logout" {
            log_in(visit, caller);
        }
        return answer;
    }
    let authorization = caller.map(|caller| format!("digest {caller}"));
    let header = authorization.as_deref().map(|text| ("Authorization", text));
    if target.starts_with("history/feed") {
        let header = authorization.map(|text| format!("Authorization: {text}\r\n"));
        let header = header.unwrap_or_default();
        return begin_feed(site, &format!("/commands/{target}"), &header);
    }
    let request = HttpRequest {
        method,
        target: &format!("/commands/{target}"),
        headers: header.as_slice(),
        body: (method == "POST").then_some(b"no snapshot"),
    };
    request.send(site.port).expect("an answer")
}

/// Logs the visit in as its caller. A call may have removed the identity.
fn log_in(visit: &Visit, caller: Option<&str>) {
    if let Some((user, password)) = caller.and_then(|caller| caller.split_once(':')) {
        assert_eq!(visit.log_in(user, password).status, 200);
    }
}

/// Returns the first line of a feed, which does not end.
fn begin_feed(site: &Site, target: &str, header: &str) -> HttpAnswer {
    let mut stream = TcpStream::connect(("127.0.0.1", site.port)).expect("connect");
    stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
    let head = format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n{header}\r\n");
    stream.write_all(head.as_bytes()).expect("write");
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("a line");
    let status = line
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    HttpAnswer {
        status: status.expect("a status"),
        headers: Vec::new(),
        body: Vec::new(),
    }
}

/// Returns whether the caller had permission. The result of the command does not matter.
fn is_allowed(answer: &HttpAnswer) -> bool {
    let text = answer.text();
    let is_refused = [401, 403].contains(&answer.status)
        || text.contains("only administrators may see identities")
        || text.contains("\"ReadOnly\"");
    assert!(
        answer.status != 404 && !text.contains("Unknown command"),
        "{text}"
    );
    !is_refused
}

/// Returns every command that the server lists, and the unlisted ones.
fn all_commands(port: u16) -> BTreeSet<String> {
    let index = http_get(port, "/commands").text();
    let listed = index.split('"').skip(1).step_by(2);
    let names = listed.filter_map(|link| link.strip_prefix("/commands/"));
    let unlisted = [
        "backup/log",
        "log_levels",
        "clients",
        "figures",
        "search",
        "slow_requests",
        "member",
    ];
    names.chain(unlisted).map(str::to_owned).collect()
}

async fn compare(is_open: bool) {
    let settings = [
        ("history.enabled", "true"),
        ("history.minFreeMegabytes", "0"),
        ("admin.rateLimiterIntervalInMS", "0"),
        ("4lw.commands.whitelist", "*"),
    ];
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let Some(site) = Site::start_member(dir.path(), &settings) else {
        return;
    };
    let last = prepare(&site, is_open).await;
    let head = format!("{last:#x}");
    wait_for("record of the last change", LIMIT, || {
        let target = "history/changes?path=/open&limit=1";
        let found: Value =
            serde_json::from_slice(&http_get(site.port, &format!("/commands/{target}")).body)
                .ok()?;
        (found["extent"]["head"] == *head).then_some(())
    });
    let table = table();
    let calls = table.iter().flat_map(|(calls, _)| calls);
    let named: BTreeSet<String> = calls
        .map(|call| {
            call.split_once(' ')
                .map_or(call.as_str(), |(_, target)| target)
        })
        .map(|target| target.split('?').next().unwrap_or_default().to_owned())
        .collect();
    let missing: Vec<_> = all_commands(site.port)
        .difference(&named)
        .cloned()
        .collect();
    assert!(
        missing.is_empty(),
        "docs/SECURITY.md says nothing of {missing:?}"
    );
    // An address may have a few visits.
    let visits = CALLERS.map(|(_, credentials)| {
        let visit = Visit::begin(site.port);
        log_in(&visit, credentials);
        visit
    });
    for (calls, allowed) in &table {
        for what in calls {
            let callers = CALLERS.iter().zip(&visits).zip(allowed);
            for (((caller, credentials), visit), allowed) in callers {
                let answer = call(&site, what, &head, (*credentials, visit));
                let text = answer.text();
                assert_eq!(
                    is_allowed(&answer),
                    *allowed,
                    "{what} by {caller}, / open: {is_open}: {} {}",
                    answer.status,
                    text.chars().take(300).collect::<String>()
                );
            }
        }
    }
}

#[tokio::test]
async fn while_the_root_is_open_calls_are_answered_as_documented() {
    compare(true).await;
}

#[tokio::test]
async fn while_the_root_is_closed_calls_are_answered_as_documented() {
    compare(false).await;
}
