//! `zoarium admin-token`: the first minute of somebody who administers a new server.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use tests::{Flavour, HttpRequest, Port, ServerBuilder, or_skip, wait_for, zoarium_binary};

use crate::console::{Visit, found};
use crate::site::LIMIT;

fn status(port: u16, target: &str, authorization: &str) -> (u16, String) {
    let request = HttpRequest {
        method: "GET",
        target,
        headers: &[("Authorization", authorization)],
        body: None,
    };
    let answer = request.send(port).expect("an answer");
    (answer.status, answer.text())
}

/// A new server knows no administrator. The command makes one while it runs, and the tools find the credential.
#[test]
fn the_first_administrator_needs_one_command() {
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let port = Port::take();
    let builder = ServerBuilder::new(Flavour::Zoarium)
        .setting("admin.enableServer", "true")
        .setting("admin.serverAddress", "127.0.0.1")
        .setting("admin.serverPort", &port.number().to_string())
        .setting("admin.rateLimiterIntervalInMS", "0");
    let Some(server) = or_skip("a server", builder.start()) else {
        return;
    };
    assert!(server.log().contains("the ACL of / is open to everybody"));
    let target = "/commands/snapshot?streaming=false";
    let (refused, text) = status(port.number(), target, "digest a:b");
    assert_eq!(refused, 403, "{text}");
    assert!(text.contains("zoarium admin-token"), "{text}");

    let run = |arguments: &[&str]| {
        let mut command = Command::new(zoarium_binary());
        command.args(arguments).stdin(Stdio::null());
        let output = command.output().expect("zoarium runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let wrong = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {text}{wrong}");
        text
    };
    let config = server.config_file().display().to_string();
    let printed = run(&["admin-token", &config]);
    let console = format!("http://127.0.0.1:{}/", port.number());
    assert!(printed.contains(&console), "{printed}");
    let header = printed
        .lines()
        .find_map(|line| line.strip_prefix("header:   Authorization: "));
    let header = header.expect("a header").to_owned();
    let file = server.data_dir().join("admin-token");
    let mode = std::fs::metadata(&file)
        .expect("the file")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(run(&["admin-token", &config]), printed, "it stays as it is");

    // At once at the admin port, and soon at the console, which logs in at the client port.
    let (answered, text) = status(port.number(), target, &header);
    assert_eq!(answered, 200, "{text}");
    let (user, password) = header
        .strip_prefix("digest ")
        .and_then(|both| both.split_once(':'))
        .expect("two parts");
    wait_for("a login at the console", LIMIT, || {
        let visit = Visit::begin(port.number());
        found(&visit.log_in(user, password));
        (visit.ask("GET", "/console/log", None).status == 200).then_some(())
    });
    let admin = format!("127.0.0.1:{}", port.number());
    let backup = server.data_dir().with_file_name("backup");
    let (backup, file) = (backup.display().to_string(), file.display().to_string());
    run(&["backup", &backup, "--server", &admin, "--token-file", &file]);

    // Another one takes its place, and without the file there is none.
    run(&["admin-token", "--new", &config]);
    assert_eq!(status(port.number(), target, &header).0, 403);
    std::fs::remove_file(&file).expect("remove the credential");
    wait_for("the end of the credential", LIMIT, || {
        (status(port.number(), target, &header).0 == 403).then_some(())
    });
}
