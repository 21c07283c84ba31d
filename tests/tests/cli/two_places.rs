//! `diff` and `cp`: two subtrees of one ensemble or of two.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Output;
use std::thread;
use std::time::Duration;

use client::{Client, Create, Options};
use proto::Acl;
use tests::{Flavour, Server, ServerBuilder, or_skip};

use super::run;

struct Two {
    here: Server,
    there: Server,
    /// A session with each server.
    clients: [Client; 2],
}

async fn two() -> Option<Two> {
    let builder =
        ServerBuilder::new(Flavour::Zoarium).property("zookeeper.extendedTypesEnabled", "true");
    let start = || or_skip("cli", builder.start());
    let (here, there) = (start()?, start()?);
    let connect = |server: &Server| Client::connect(Options::new(&server.address()));
    let clients = [
        connect(&here).await.expect("connect"),
        connect(&there).await.expect("connect"),
    ];
    Some(Two {
        here,
        there,
        clients,
    })
}

impl Two {
    /// Runs a command with the first server. `THERE` in a word stands for the second server's
    /// address.
    fn ask(&self, words: &[&str]) -> (Option<i32>, String, String) {
        self.ask_by(words, &self.there.address())
    }

    fn ask_by(&self, words: &[&str], there: &str) -> (Option<i32>, String, String) {
        let mut all = vec!["-server".to_owned(), self.here.address()];
        all.extend(words.iter().map(|word| word.replace("THERE", there)));
        told(&run(&all, None))
    }
}

/// Returns exit code, standard output and standard error.
fn told(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

async fn make(client: &Client, znodes: &[(&str, &[u8])]) {
    for (path, data) in znodes {
        let data = data.to_vec();
        let created = client.create(path, data, &Create::persistent()).await;
        created.unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trees_of_two_ensembles_are_compared() {
    let Some(two) = two().await else { return };
    let binary = [0, 0xff, 0x1b, b'[', b'2', b'J'];
    for client in &two.clients {
        make(
            client,
            &[("/a b", b"top"), ("/a b/x y", &binary), ("/a b/z", b"1")],
        )
        .await;
    }
    let (code, out, err) = two.ask(&["diff", "/a b", "THERE/a b"]);
    assert_eq!((code, out.as_str()), (Some(0), ""), "{err}");
    assert!(err.contains("3 znodes compared, 0 differences"), "{err}");
    // The roots of both: each ensemble's own znodes are skipped.
    assert_eq!(two.ask(&["diff", "/", "THERE/"]).0, Some(0));

    let [here, there] = &two.clients;
    there
        .set_data("/a b/x y", vec![0, 0xfe], -1)
        .await
        .expect("set");
    make(here, &[("/a b/only", b""), ("/a b/only/below", b"")]).await;
    make(there, &[("/a b/other", b"")]).await;
    here.create_without_data("/a b/null", &Create::persistent())
        .await
        .expect("create");
    make(there, &[("/a b/null", b"")]).await;
    // Servers describe containers and TTL znodes to clients like any other znodes.
    for (client, create) in [
        (here, Create::container()),
        (there, Create::ttl(Duration::from_secs(60))),
    ] {
        client
            .create("/a b/kind", "", &create)
            .await
            .expect("create");
        client
            .create("/a b/mine", "", &Create::ephemeral())
            .await
            .expect("create");
    }
    make(here, &[("/a b/whose", b"")]).await;
    there
        .create("/a b/whose", "", &Create::ephemeral())
        .await
        .expect("create");
    let (code, out, err) = two.ask(&["diff", "/a b", "THERE/a b"]);
    let there_is = two.there.address();
    let wanted = [
        "/null: data differs (null, 0 bytes)".to_owned(),
        "/only: only in /a b".to_owned(),
        format!("/other: only in {there_is}/a b"),
        "/whose: only one of the znodes is ephemeral".to_owned(),
        "/x y: data differs (6 bytes, 2 bytes)".to_owned(),
    ];
    assert_eq!(out.lines().collect::<Vec<_>>(), wanted, "{err}");
    assert_eq!(code, Some(1));
    assert!(
        err.contains("5 differences, 1 ephemeral not compared"),
        "{err}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acls_are_compared_on_request_and_unreadable_znodes_reported() {
    let Some(two) = two().await else { return };
    let [here, there] = &two.clients;
    make(
        here,
        &[("/a", b""), ("/a/b", b"1"), ("/c", b""), ("/c/b", b"1")],
    )
    .await;
    let read_only = vec![Acl::new(proto::data::perms::READ, "world", "anyone")];
    here.set_acl("/c/b", read_only, -1)
        .await
        .expect("set an ACL");
    assert_eq!(two.ask(&["diff", "/a", "/c"]).0, Some(0));
    let (code, out, _) = two.ask(&["diff", "-a", "/a", "/c"]);
    assert_eq!((code, out.as_str()), (Some(1), "/b: ACL differs\n"));

    // There, only `u:p` may read it.
    make(there, &[("/a", b""), ("/a/b", b"1")]).await;
    there.add_auth("digest", "u:p").await.expect("log in");
    let all = proto::data::perms::ALL;
    there
        .set_acl("/a/b", vec![Acl::new(all, "auth", "")], -1)
        .await
        .expect("set an ACL");
    let (code, out, err) = two.ask(&["diff", "/a", "THERE/a"]);
    assert_eq!(
        (code, out.as_str()),
        (Some(2), ""),
        "it is not known whether they differ"
    );
    let place = format!("{}/a/b", two.there.address());
    assert!(
        err.contains(&format!("Insufficient permission : {place}")),
        "{err}"
    );
    assert!(err.contains("0 differences, 1 not readable"), "{err}");
    let with_identity = ["diff", "-auth", "digest:u:p", "/a", "THERE/a"];
    assert_eq!(two.ask(&with_identity).0, Some(0));
}

/// Relays data between a server and its client. After `limit` bytes from the server, `then` returns
/// whether the relay continues. Otherwise it ends both connections.
fn between(server: &str, limit: usize, then: impl FnOnce() -> bool + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its number").to_string();
    let server = server.to_owned();
    thread::spawn(move || {
        let Ok((client, _)) = listener.accept() else {
            return;
        };
        drop(listener);
        let server = TcpStream::connect(server).expect("a server");
        let [mut from_client, mut to_client] =
            [&client; 2].map(|end| end.try_clone().expect("a copy"));
        let [mut from_server, mut to_server] =
            [&server; 2].map(|end| end.try_clone().expect("a copy"));
        thread::spawn(move || std::io::copy(&mut from_client, &mut to_server));
        let (mut passed, mut buffer, mut then) = (0, [0; 4096], Some(then));
        while let Ok(count @ 1..) = from_server.read(&mut buffer) {
            passed += count;
            let goes_on = passed < limit || then.take().is_none_or(|then| then());
            if !goes_on || to_client.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        for end in [client, server] {
            let _ = end.shutdown(Shutdown::Both);
        }
    });
    address
}

/// Creates `/a` with a hundred children of a thousand bytes.
async fn make_hundred(client: &Client) {
    make(client, &[("/a", b"")]).await;
    for number in 0..100 {
        let path = format!("/a/{number}");
        make(client, &[(path.as_str(), &[b'x'; 1000])]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_of_a_comparison_are_not_reported_as_differences() {
    let Some(two) = two().await else { return };
    for client in &two.clients {
        make_hundred(client).await;
    }
    assert_eq!(two.ask(&["diff", "/a", "THERE/a"]).0, Some(0));
    let cut = between(&two.there.address(), 40_000, || false);
    let (code, out, err) = two.ask_by(&["diff", "/a", "THERE/a"], &cut);
    assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
    assert!(
        err.contains(&format!("ConnectionLoss for {cut}/a/")),
        "{err}"
    );

    for (words, reason) in [
        (&["diff", "/a"][..], "diff [-a] [-e] [-auth scheme:auth]"),
        (&["diff", "-y", "/a", "/a"], "Unrecognized option: -y"),
        (&["diff", "/a", "/nosuch"], "Node does not exist: /nosuch"),
        (
            &["diff", "/a", "a"],
            "is not a path, and not HOST:PORT/PATH",
        ),
        (&["diff", "/a", "THERE/a//b"], "empty node name"),
    ] {
        let (code, out, err) = two.ask(words);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{words:?}: {err}");
        assert!(err.contains(reason), "{words:?}: {err}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subtree_is_copied_inside_an_ensemble_and_to_another() {
    let Some(two) = two().await else { return };
    let [here, there] = &two.clients;
    let binary = [0, 0xff, 0x1b, b'\n'];
    make(
        here,
        &[
            ("/a b", b"top"),
            ("/a b/x y", &binary),
            ("/a b/x y/z", b"1"),
            ("/one", b"1"),
        ],
    )
    .await;
    here.create_without_data("/a b/null", &Create::persistent())
        .await
        .expect("create");
    here.create("/a b/mine", "", &Create::ephemeral())
        .await
        .expect("create");
    // The copying client may replace it. An ACL with only READ could not be replaced again.
    let perms = proto::data::perms::ALL & !proto::data::perms::CREATE;
    let acl = vec![Acl::new(perms, "world", "anyone")];
    here.set_acl("/a b/x y/z", acl.clone(), -1)
        .await
        .expect("set an ACL");

    for target in ["/copy", "THERE/copy"] {
        let (code, out, err) = two.ask(&["cp", "-r", "/a b", target]);
        assert_eq!((code, out.as_str()), (Some(0), ""), "{err}");
        assert!(
            err.contains("4 znodes created, 0 replaced, 1 ephemeral not copied"),
            "{err}"
        );
        assert_eq!(two.ask(&["diff", "-a", "/a b", target]).0, Some(0));
    }
    assert_eq!(there.get_acl("/copy/x y/z").await.expect("ask").0, acl);
    assert_eq!(
        two.ask(&["cp", "THERE/copy/null", "/null"]).0,
        Some(0),
        "from there, too"
    );

    // Existing znodes are kept, unless they are to be replaced.
    there.set_data("/copy", "new", -1).await.expect("set");
    let (code, _, err) = two.ask(&["cp", "-r", "/a b", "THERE/copy"]);
    assert_eq!(code, Some(1));
    assert!(err.contains("/copy (-f replaces data and ACLs)"), "{err}");
    let data = there.get_data("/copy").await.expect("ask").0;
    assert_eq!(data.as_deref(), Some(&b"new"[..]));
    make(there, &[("/copy/more", b"")]).await;
    there.delete("/copy/null", -1).await.expect("delete");
    let (code, _, err) = two.ask(&["cp", "-rf", "/a b", "THERE/copy"]);
    assert!(err.contains("1 znode created, 3 replaced"), "{err}");
    assert_eq!(code, Some(0));
    let (_, out, _) = two.ask(&["diff", "/a b", "THERE/copy"]);
    assert_eq!(
        out,
        format!("/more: only in {}/copy\n", two.there.address())
    );

    // A copy inside its source contains the earlier znodes, under any name of the ensemble.
    let itself = format!("{}/a b/copy", two.here.address());
    let (code, _, err) = two.ask(&["cp", "-r", "/a b", &itself]);
    assert!(err.contains("4 znodes created"), "{err}");
    assert_eq!(code, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_impossible_copy_is_refused_before_any_write() {
    let Some(two) = two().await else { return };
    let here = &two.clients[0];
    make(here, &[("/a b", b"top"), ("/a b/x y", b""), ("/one", b"1")]).await;
    let mine = here.create("/mine", "", &Create::ephemeral()).await;
    mine.expect("create");
    for (words, reason) in [
        (
            &["cp", "/a b", "/x"][..],
            "/a b has children: use -r to copy them too",
        ),
        (&["cp", "/mine", "/x"], "/mine is ephemeral"),
        (&["cp", "/nosuch", "/x"], "Node does not exist: /nosuch"),
        (
            &["cp", "/one", "/no/such/x"],
            "Node does not exist: /no/such",
        ),
        (
            &["cp", "-f", "/one", "/one"],
            "/one and /one are the same znode",
        ),
        (&["cp", "/one"], "cp [-r] [-f]"),
    ] {
        let (code, out, err) = two.ask(words);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{words:?}: {err}");
        assert!(err.contains(reason), "{words:?}: {err}");
    }
    assert_eq!(here.exists("/x").await.expect("ask"), None);
}

/// Returns the last number before `what` in a summary.
fn number(text: &str, what: &str) -> usize {
    let at = text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
    text[..at]
        .rsplit([' ', '\n'])
        .find_map(|word| word.parse().ok())
        .unwrap_or_else(|| panic!("{what}: {text}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_incomplete_copy_is_reported() {
    let Some(two) = two().await else { return };
    let [here, there] = &two.clients;
    make_hundred(here).await;
    let all = proto::data::perms::ALL;
    here.add_auth("digest", "u:p").await.expect("log in");
    here.set_acl("/a/5", vec![Acl::new(all, "auth", "")], -1)
        .await
        .expect("set an ACL");
    let (code, _, err) = two.ask(&["cp", "-r", "/a", "THERE/a"]);
    assert_eq!(code, Some(1));
    assert!(err.contains("Insufficient permission : /a/5\n"), "{err}");
    assert!(
        err.contains("100 znodes created, 0 replaced, 1 not readable"),
        "{err}"
    );
    here.delete("/a/5", -1).await.expect("delete");

    // The target's server disappears.
    let cut = between(&two.there.address(), 1_500, || false);
    let (code, _, err) = two.ask_by(&["cp", "-r", "/a", "THERE/b"], &cut);
    assert_eq!(code, Some(1), "{err}");
    assert!(
        err.contains(&format!("ConnectionLoss for {cut}/b/")),
        "{err}"
    );
    let created = number(&err, " created, ");
    let are_there = there.get_children("/b").await.expect("ask").len() + 1;
    assert!(
        err.contains("Not finished") && (1..=are_there).contains(&created),
        "{err}"
    );

    // The source is deleted in the middle: it is listed completely by then, and copied in part.
    let words = ["-server", &two.here.address(), "deleteall", "/a"].map(str::to_owned);
    let deletes = move || run(&words, None).status.success();
    let watched = between(&two.here.address(), 60_000, deletes);
    let words = ["-server", &watched, "cp", "-r", "/a", "/c"].map(str::to_owned);
    let (code, _, err) = told(&run(&words, None));
    assert_eq!(code, Some(1), "{err}");
    assert!(
        err.contains("Node was deleted during the copy: /a/"),
        "{err}"
    );
    let (created, gone) = (
        number(&err, " created, "),
        number(&err, "deleted during the copy\n"),
    );
    assert_eq!(created + gone, 100, "{err}");
    assert_eq!(
        here.get_children("/c").await.expect("ask").len() + 1,
        created
    );
}
