//! Typical mistakes, with the exit codes of docs/COMMANDS.md.

use std::collections::BTreeMap;
use std::fs;

use tests::workspace_root;

use super::{Site, complaint, program};

/// A command line, the name of its exit code in the table, and a part of the error text.
///
/// `CLIENT` and `ADMIN` stand for the ports of a server, `NOBODY` for a port without a listener.
const MISTAKES: &[(&str, &str, &str)] = &[
    ("get", "usage", "PATH"),
    ("get x", "usage", "must start with /"),
    ("get /x/", "usage", "must not end with /"),
    ("get /a//b", "usage", "empty node name"),
    (
        "get /nosuch",
        "not found",
        "/nosuch: the znode does not exist",
    ),
    ("gett /x", "usage", "'get'"),
    ("get /x --ouput json", "usage", "'--output'"),
    ("get /x --output xml", "usage", "yaml"),
    ("get /x --hex --base64", "usage", "cannot be used with"),
    ("get /secret", "denied", "/secret: permission denied"),
    ("get /x --at soon", "usage", "examples"),
    ("get /x -s NOBODY", "unreachable", "NOBODY"),
    ("get /x -s ADMIN", "unreachable", "is an admin port"),
    ("get /x --data-dir /nosuch", "usage", "--at"),
    ("get /x --tls-trust a.pem", "usage", "--tls"),
    ("get /x --token-file /nosuch", "failed", "--token-file"),
    ("ls /nosuch", "not found", "/nosuch"),
    ("ls -z", "usage", "-z"),
    ("stat /nosuch", "not found", "/nosuch"),
    ("set /x", "usage", "DATA"),
    ("set /nosuch 1", "not found", "/nosuch"),
    (
        "set /x 1 --if-version 77",
        "conflict",
        "/x: the znode has another version",
    ),
    ("set /x 1 --if-version new", "usage", "new"),
    ("create /x", "conflict", "/x: the znode exists already"),
    (
        "create /no/where",
        "not found",
        "the parent does not exist (-p creates it)",
    ),
    ("create x", "usage", "must start with /"),
    ("create /y --acl everybody", "usage", "scheme:id:perms"),
    ("create /y --ttl 0", "usage", "--ttl"),
    (
        "rm /x",
        "conflict",
        "/x: the znode has children (-r deletes them)",
    ),
    ("rm /nosuch", "not found", "/nosuch"),
    ("rm -r /", "usage", "cannot be deleted"),
    ("cp /x /y", "failed", "use -r to copy them"),
    ("cp /nosuch /y", "not found", "/nosuch"),
    ("mv /x /x/below", "usage", "into itself"),
    ("mv /nosuch /y", "not found", "/nosuch"),
    ("diff /x", "usage", "OTHER"),
    ("diff /x --from yesterday", "usage", "--to"),
    ("acl /x world:anyone:z", "usage", "cdrwa"),
    ("tree /nosuch", "not found", "/nosuch"),
    ("find /nosuch", "not found", "/nosuch"),
    ("history /x --admin CLIENT", "usage", "is a client port"),
    ("history /x --admin NOBODY", "unreachable", "NOBODY"),
    ("history", "usage", "PATH"),
    ("watch /x --op explode --admin ADMIN", "usage", "explode"),
    ("backup DIR/backup --admin NOBODY", "unreachable", "NOBODY"),
    ("status -s NOBODY", "unreachable", ""),
    ("top -d 0", "usage", "0.1"),
    ("word NOBODY ruok", "unreachable", "NOBODY"),
    (
        "config explain clientPrt",
        "not found",
        "did you mean clientPort",
    ),
    (
        "reconfig --remove 1 --members 1=a:1:2",
        "usage",
        "cannot be used with",
    ),
    ("help gett", "usage", "'get'"),
    ("help hisotry", "usage", "'history'"),
    ("delete /x", "usage", "'rm'"),
    ("mkdir /y", "usage", "'create'"),
    ("watch x", "usage", "must start with /"),
    ("history x", "usage", "must start with /"),
    ("history blame x", "usage", "must start with /"),
    ("get /x -s localhost:port", "usage", "`port` is not a port"),
    (
        "get /x -s localhost:99999",
        "usage",
        "`99999` is not a port",
    ),
    ("get /x --admin localhost:", "usage", "is not a port"),
    ("get /x --admin CLIENT", "usage", "is a client port"),
    ("get /x --admin NOBODY", "unreachable", "NOBODY"),
    ("word ADMIN srvr", "unreachable", "this is an admin port"),
    ("word localhost:port srvr", "usage", "is not a port"),
    ("rm /", "usage", "cannot be deleted"),
    ("reconfig --file /nosuch", "failed", "cannot read /nosuch"),
];

/// Returns the exit codes of the table in docs/COMMANDS.md, by name.
fn table() -> BTreeMap<String, i32> {
    let text = fs::read_to_string(workspace_root().join("docs/COMMANDS.md")).expect("the page");
    let row = |line: &str| {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let code = cells.next()?.parse().ok()?;
        Some((cells.next()?.to_owned(), code))
    };
    text.lines().filter_map(row).collect()
}

#[test]
fn mistakes_have_the_exit_codes_of_the_page() {
    let Some(site) = Site::start() else { return };
    for path in ["/x/child", "/secret"] {
        site.text(&["create", "-p", path]);
    }
    site.text(&["acl", "/secret", "digest:nobody:x:cdrwa"]);
    let table = table();
    assert_eq!(table.get("done"), Some(&0));
    let dir = tempfile::tempdir().expect("a directory");
    let replaced = |text: &str| {
        text.replace("CLIENT", &site.server.address())
            .replace("ADMIN", &site.admin_address())
            .replace("NOBODY", "127.0.0.1:1")
            .replace("DIR", &dir.path().display().to_string())
    };
    let mut wrong = Vec::new();
    for (line, name, part) in MISTAKES {
        let line = replaced(line);
        let words: Vec<&str> = line.split(' ').collect();
        let output = program(&words, &site.server.address(), "");
        let code = table.get(*name).copied();
        assert!(code.is_some(), "the page has no exit code `{name}`");
        let text = complaint(&output);
        let is_explained = text.contains(&replaced(part)) && !text.contains("org.apache");
        let is_status = words[0] == "status";
        if output.status.code() != code
            || !is_explained
            || (!output.stdout.is_empty() && !is_status)
        {
            wrong.push(format!(
                "{line}: exit code {:?} and not {code:?} ({name}), or no {part:?} in: {text}",
                output.status.code()
            ));
        }
    }
    assert!(MISTAKES.len() >= 40);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Each command of the page exists, and each command has a help text with an example.
#[test]
fn each_command_on_the_page_has_a_help_with_an_example() {
    let text = fs::read_to_string(workspace_root().join("docs/COMMANDS.md")).expect("the page");
    let row = |line: &str| {
        let first = line.strip_prefix("| `")?.split('`').next()?;
        Some(first.split(' ').next().unwrap_or_default().to_owned())
    };
    let is_command = |name: &String| name.starts_with(|c: char| c.is_ascii_lowercase());
    let names: Vec<String> = text.lines().filter_map(row).filter(is_command).collect();
    assert!(names.len() >= 20, "{names:?}");
    for name in names {
        let help = program(&["help", &name], "", "");
        let printed = String::from_utf8_lossy(&help.stdout).into_owned();
        assert!(help.status.success(), "{name}: {}", complaint(&help));
        assert!(printed.contains("Example"), "{name}: {printed}");
    }
    let completions = program(&["completions", "bash"], "", "");
    let script = String::from_utf8_lossy(&completions.stdout).into_owned();
    assert!(script.contains("reconfig") && script.contains("--if-version"));
}
