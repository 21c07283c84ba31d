//! The `curl` commands in the pages about the admin server.

use std::process::Command;

use proto::request::{Request, flags};
use tests::requests::create;
use tests::{RawSession, find_tool, or_skip, workspace_root};

use crate::site::Site;

#[test]
fn the_commands_of_the_manual_work() {
    let (Some(_), Some(site)) = (or_skip("curl", find_tool("curl")), Site::start::<&str>(&[]))
    else {
        return;
    };
    let mut session = RawSession::open(&site.server.address(), None, 30_000).expect("a session");
    let request = create("/there", Vec::new(), flags::PERSISTENT);
    session.call(&Request::Write(request)).expect("an answer");
    let pages = ["docs/ADMIN.md", "docs/MONITORING.md"]
        .map(|page| std::fs::read_to_string(workspace_root().join(page)).expect("a page"))
        .concat()
        .replace("\\\n", "");
    let commands: Vec<&str> = pages
        .lines()
        .filter(|line| line.starts_with("    curl "))
        .collect();
    assert!(commands.len() >= 11, "{commands:#?}");
    let place = tempfile::tempdir().expect("a directory");
    for command in commands {
        let here = command.replace("localhost:8080", &format!("127.0.0.1:{}", site.port));
        let mut shell = Command::new("sh");
        shell.args(["-c", &here]).current_dir(place.path());
        let output = shell.output().expect("a shell");
        assert!(output.status.success(), "{here}: {output:?}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(!text.contains("Unknown command"), "{here}: {text}");
    }
}
