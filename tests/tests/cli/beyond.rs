//! Commands that zkCli.sh does not have.

use std::fs::File;
use std::process::{Command, Output, Stdio};

use client::{Client, Create, Options};
use proto::Acl;
use proto::data::perms;
use tests::{Flavour, Server, or_skip, zoarium_binary};

use super::{run, run_program};

fn server() -> Option<Server> {
    or_skip("cli", Server::start(Flavour::Zoarium))
}

fn ask(server: &Server, words: &[&str], stdin: Option<&str>) -> Output {
    let address = server.address();
    let words = ["-server", &address]
        .into_iter()
        .chain(words.iter().copied());
    let words: Vec<String> = words.map(str::to_owned).collect();
    run(&words, stdin)
}

/// Returns the output, which does not contain lines about the connection, so that other programs
/// can read it.
fn printed(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(str::to_owned).collect()
}

async fn make(server: &Server, znodes: &[(&str, &str)]) -> Client {
    let client = Client::connect(Options::new(&server.address()))
        .await
        .expect("connect");
    for (path, data) in znodes {
        let created = client
            .create(path, data.to_string(), &Create::persistent())
            .await;
        created.expect("create a znode");
    }
    client
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subtree_is_printed_searched_and_summed() {
    let Some(server) = server() else { return };
    let znodes = [
        ("/app", "top"),
        ("/app/a", "one\ntwo needle\n"),
        ("/app/b", ""),
        ("/app/b/lock-1", "needle"),
    ];
    let client = make(&server, &znodes).await;
    let ephemeral = client.create("/app/b/me", "", &Create::ephemeral()).await;
    ephemeral.expect("create a znode");
    let show = |words: &[&str]| printed(&ask(&server, words, None));
    let tree = ["/app", "  a", "  b", "    lock-1", "    me *"];
    assert_eq!(show(&["tree", "/app"]), tree);
    assert_eq!(
        show(&["tree", "-d", "1", "/app"]),
        ["/app", "  a", "  b (children: 2)"]
    );
    assert_eq!(
        show(&["find", "-name", "lock-*", "/app"]),
        ["/app/b/lock-1"]
    );
    let lines = ["/app/a: two needle", "/app/b/lock-1: needle"];
    assert_eq!(show(&["grep", "needle", "/app"]), lines);
    assert_eq!(
        show(&["grep", "-l", "needle", "/app"]),
        ["/app/a", "/app/b/lock-1"]
    );
    assert_eq!(
        ask(&server, &["grep", "straw", "/app"], None).status.code(),
        Some(1)
    );
    let sums: Vec<String> = show(&["du", "/app"])
        .iter()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let wanted = [
        "15 bytes 1 znodes /app/a",
        "6 bytes 3 znodes /app/b",
        "24 bytes 5 znodes /app",
    ];
    assert_eq!(sums, wanted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_is_imported_elsewhere() {
    let Some(server) = server() else { return };
    let client = make(
        &server,
        &[("/from", "top"), ("/from/a", "\u{1}ü\n"), ("/to", "")],
    )
    .await;
    client
        .create_without_data("/from/null", &Create::persistent())
        .await
        .expect("create");
    let ephemeral = client.create("/from/me", "", &Create::ephemeral()).await;
    ephemeral.expect("create a znode");
    let exported = ask(&server, &["export", "/from"], None);
    let told = String::from_utf8_lossy(&exported.stderr).into_owned();
    assert!(
        told.contains("3 znodes exported, 1 ephemeral not exported"),
        "{told}"
    );
    let lines = printed(&exported).join("\n");
    let imported = ask(&server, &["import", "/to"], Some(&lines));
    let told = String::from_utf8_lossy(&imported.stderr).into_owned();
    assert!(
        told.contains("3 znodes created, 0 replaced, 0 kept unchanged"),
        "{told}"
    );
    let data = |path: &'static str| async {
        let answer = client.get_data(path).await;
        answer.expect("it is there").0
    };
    assert_eq!(data("/to/from/a").await, data("/from/a").await);
    assert_eq!(data("/to/from/null").await, None);
    assert_eq!(client.exists("/to/from/me").await.expect("ask"), None);

    // Existing znodes are kept, unless they are to be replaced.
    client.set_data("/to/from/a", "new", -1).await.expect("set");
    ask(&server, &["import", "/to"], Some(&lines));
    assert_eq!(data("/to/from/a").await.as_deref(), Some(&b"new"[..]));
    ask(&server, &["import", "-f", "/to"], Some(&lines));
    assert_eq!(data("/to/from/a").await, data("/from/a").await);

    let refused = ask(
        &server,
        &["import", "/to"],
        Some("{\"path\":\"/x\",\"data\":5}\n"),
    );
    assert_eq!(refused.status.code(), Some(1));
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        told.contains("line 1: the field `data` must be text or null"),
        "{told}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_comes_from_stdin_and_names_cannot_send_terminal_commands() {
    let Some(server) = server() else { return };
    let client = make(&server, &[]).await;
    let made = ask(&server, &["create", "-i", "/data"], Some("a\nb\n"));
    assert!(made.status.success());
    let (data, _) = client.get_data("/data").await.expect("it is there");
    assert_eq!(data.as_deref(), Some(&b"a\nb\n"[..]));
    client
        .set_data("/data", "\u{1b}]0;owned\u{7} needle", -1)
        .await
        .expect("set");
    let found = ask(&server, &["grep", "needle", "/"], None);
    let text = String::from_utf8_lossy(&found.stdout).into_owned();
    assert!(
        text.contains("needle") && !text.contains('\u{1b}'),
        "{text:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_without_ephemerals_does_not_outlive_its_command() {
    let Some(server) = server() else { return };
    assert!(ask(&server, &["ls", "/"], None).status.success());
    let sessions = server.metric("global_sessions");
    assert_eq!(sessions.as_deref(), Some("0"));
    assert!(
        ask(&server, &["create", "-e", "/mine"], None)
            .status
            .success()
    );
    assert!(
        server.word("dump").contains("/mine"),
        "it stays until its session expires"
    );
}

/// Creates a subtree with a znode whose ACL permits changes of the ACL, but not listing its
/// children.
async fn make_with_unreadable(server: &Server) -> Client {
    let znodes = [
        ("/app", "top"),
        ("/app/closed", ""),
        ("/app/closed/below", ""),
        ("/app/open", "data"),
    ];
    let client = make(server, &znodes).await;
    let admin_only = vec![Acl::new(perms::ADMIN, "world", "anyone")];
    let closed = client.set_acl("/app/closed", admin_only, -1).await;
    closed.expect("set the ACL");
    client
}

/// Runs a command of the program with the address of the server.
fn program(server: &Server, words: &[&str]) -> Output {
    let address = server.address();
    let target = ["--server", &address];
    let words = words.iter().chain(&target);
    let words: Vec<String> = words.map(|word| (*word).to_owned()).collect();
    run_program(&words, None)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recursive_listing_of_a_closed_subtree_fails_after_its_siblings() {
    let Some(server) = server() else { return };
    let client = make_with_unreadable(&server).await;
    let wanted = ["/app", "/app/closed", "/app/open"];
    let listed = ask(&server, &["ls", "-R", "/app"], None);
    assert_eq!(listed.status.code(), Some(1), "{listed:?}");
    // As in Java, messages about the connection come first.
    assert!(
        printed(&listed).ends_with(&wanted.map(str::to_owned)),
        "{listed:?}"
    );
    let listed = program(&server, &["ls", "-R", "/app"]);
    assert_eq!(listed.status.code(), Some(5), "{listed:?}");
    assert_eq!(printed(&listed), wanted);
    // Nothing is deleted if a part of the subtree cannot be listed.
    let removed = program(&server, &["rm", "-r", "/app"]);
    assert_eq!(removed.status.code(), Some(5), "{removed:?}");
    assert!(client.exists("/app/open").await.expect("ask").is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recursive_acl_opens_and_closes_subtrees() {
    let Some(server) = server() else { return };
    let client = make_with_unreadable(&server).await;
    let paths = ["/app", "/app/closed", "/app/closed/below", "/app/open"];
    for command in ["setAcl", "acl"] {
        for (letters, perms) in [("ra", perms::READ | perms::ADMIN), ("a", perms::ADMIN)] {
            let acl = format!("world:anyone:{letters}");
            let words = [command, "-R", "/app", &acl];
            let set = match command {
                "setAcl" => ask(&server, &words, None),
                _ => program(&server, &words),
            };
            assert_eq!(set.status.code(), Some(0), "{words:?}: {set:?}");
            for path in paths {
                let (acl, _) = client.get_acl(path).await.expect("the ACL");
                assert_eq!(
                    acl,
                    [Acl::new(perms, "world", "anyone")],
                    "{words:?}: {path}"
                );
            }
        }
    }
}

/// A znode whose ACL does not permit changes of the ACL does not keep the others from their ACL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recursive_acl_is_set_around_a_znode_that_refuses_it() {
    let Some(server) = server() else { return };
    let client = make_with_unreadable(&server).await;
    let read_only = vec![Acl::new(perms::READ, "world", "anyone")];
    for path in ["/app/kept", "/app/kept/below"] {
        let created = client.create(path, "", &Create::persistent()).await;
        created.expect("create a znode");
    }
    let kept = client.set_acl("/app/kept", read_only.clone(), -1).await;
    kept.expect("set the ACL");
    let paths = ["/app", "/app/closed/below", "/app/kept/below", "/app/open"];
    for (command, code) in [("setAcl", 1), ("acl", 5)] {
        for (letters, perms) in [("ra", perms::READ | perms::ADMIN), ("a", perms::ADMIN)] {
            let acl = format!("world:anyone:{letters}");
            let words = [command, "-R", "/app", &acl];
            let set = match command {
                "setAcl" => ask(&server, &words, None),
                _ => program(&server, &words),
            };
            assert_eq!(set.status.code(), Some(code), "{words:?}: {set:?}");
            let told = String::from_utf8_lossy(&set.stderr).into_owned();
            assert!(told.contains("permission : /app/kept\n"), "{told}");
            assert!(told.contains("1 znode not changed"), "{told}");
            for path in paths {
                let (acl, _) = client.get_acl(path).await.expect("the ACL");
                let set = [Acl::new(perms, "world", "anyone")];
                assert_eq!(acl, set, "{words:?}: {path}");
            }
            let (acl, _) = client.get_acl("/app/kept").await.expect("the ACL");
            assert_eq!(acl, read_only);
        }
    }
    // Without -R, the refusal is the result of the command.
    let set = program(&server, &["acl", "/app/kept", "world:anyone:a"]);
    assert_eq!(set.status.code(), Some(5), "{set:?}");
    let told = String::from_utf8_lossy(&set.stderr).into_owned();
    assert!(told.contains("/app/kept: permission denied"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_without_unreadable_znodes_fails() {
    let Some(server) = server() else { return };
    let _client = make_with_unreadable(&server).await;
    let exported = program(&server, &["export", "/app"]);
    assert_eq!(exported.status.code(), Some(5), "{exported:?}");
    let told = String::from_utf8_lossy(&exported.stderr).into_owned();
    assert!(told.contains("2 znodes exported"), "{told}");
    assert!(told.contains("1 znode not readable"), "{told}");
    assert_eq!(printed(&exported).len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn walks_print_all_readable_znodes_and_then_fail() {
    let Some(server) = server() else { return };
    let _client = make_with_unreadable(&server).await;
    for (words, wanted) in [
        (&["tree", "/app"][..], "/app\n  open\n"),
        (&["find", "/app"], "/app\n/app/open\n"),
        (&["grep", "data", "/app"], "/app/open: data\n"),
        (
            &["du", "-d", "0", "/app"],
            "           7 bytes          2 znodes /app\n",
        ),
    ] {
        let output = ask(&server, words, None);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), wanted);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains("1 znode not readable"), "{told}");
    }
    for (words, wanted) in [
        (&["tree", "/app"][..], "  open"),
        (&["find", "/app"], "/app/open"),
        (&["ls", "-l", "/app"], "  open"),
        (&["ls", "-l", "-R", "/app"], "  /app/open"),
    ] {
        let output = program(&server, words);
        assert_eq!(output.status.code(), Some(5), "{words:?}: {output:?}");
        let last = printed(&output).pop().unwrap_or_default();
        assert!(last.ends_with(wanted), "{words:?}: {output:?}");
    }
}

/// An export does not contain these znodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_does_not_read_the_znodes_of_the_ensemble() {
    let Some(server) = server() else { return };
    let client = make(&server, &[("/app", "top"), ("/app/zookeeper", "mine")]).await;
    let admin_only = vec![Acl::new(perms::ADMIN, "world", "anyone")];
    let closed = client.set_acl("/zookeeper/quota", admin_only, -1).await;
    closed.expect("set the ACL");
    let exported = program(&server, &["export", "/"]);
    assert_eq!(exported.status.code(), Some(0), "{exported:?}");
    assert_eq!(printed(&exported).len(), 3);
    let nothing = program(&server, &["export", "/zookeeper"]);
    assert_eq!(nothing.status.code(), Some(0), "{nothing:?}");
    assert!(printed(&nothing).is_empty());
    // A znode with this name below a chroot is a usual znode.
    let address = format!("{}/app", server.address());
    let words = ["export", "/", "--server", &address].map(str::to_owned);
    let exported = run_program(&words, None);
    assert_eq!(printed(&exported).len(), 2, "{exported:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_that_cannot_be_written_is_a_failure_unless_its_reader_has_ended() {
    let Some(server) = server() else { return };
    let _client = make(&server, &[("/app", "top"), ("/app/a", "data")]).await;
    let ended = |words: &[&str], stdout: Stdio| {
        let mut command = Command::new(zoarium_binary());
        let command = command.args(words).env("ZOARIUM_SERVER", server.address());
        let output = command.stdin(Stdio::null()).stdout(stdout).output();
        let output = output.expect("run the command");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), told)
    };
    let address = server.address();
    for words in [
        &["get", "/app"][..],
        &["ls", "-R", "/app"],
        &["export", "/app"],
        &["cli", "-server", &address, "ls", "-R", "/app"],
    ] {
        let full = File::options().write(true).open("/dev/full");
        let (code, told) = ended(words, full.expect("/dev/full").into());
        assert_eq!(code, Some(1), "{words:?}: {told}");
        assert!(told.contains("No space left"), "{words:?}: {told}");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let (code, told) = ended(words, writer.into());
        assert_eq!(code, Some(0), "{words:?}: {told}");
    }
}
