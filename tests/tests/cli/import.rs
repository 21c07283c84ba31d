//! `import` with many znodes in flight. Each one is refused or created as if it were alone.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use client::{Client, Create, Options};
use proto::Acl;
use proto::data::perms;
use serde_json::json;
use tests::{Flavour, Server, or_skip};

use super::run;

/// Number of znodes in a large import.
const MANY: usize = 10_000;

async fn server() -> Option<(Server, Client)> {
    let server = or_skip("cli", Server::start(Flavour::Zoarium))?;
    let client = Client::connect(Options::new(&server.address())).await;
    Some((server, client.expect("connect")))
}

fn import(address: &str, words: &[&str], lines: &str) -> (Option<i32>, String) {
    let words: Vec<String> = ["-server", address, "import"]
        .iter()
        .chain(words)
        .map(|word| (*word).to_owned())
        .collect();
    let Output { status, stderr, .. } = run(&words, Some(lines));
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

fn line(path: &str, acl: &[Acl]) -> String {
    let entry =
        |acl: &Acl| json!({ "perms": acl.perms, "scheme": &*acl.id.scheme, "id": &*acl.id.id });
    let acl: Vec<_> = acl.iter().map(entry).collect();
    format!("{}\n", json!({ "path": path, "data": "eA==", "acl": acl }))
}

/// Returns paths, parents first: a root, and groups of a hundred in which the first znode is the
/// parent of the others.
fn many() -> Vec<String> {
    let path = |number: usize| match (number / 100, number % 100) {
        (0, 0) => "/many".to_owned(),
        (0, rest) => format!("/many/{rest}"),
        (group, 0) => format!("/many/group {group}"),
        (group, rest) => format!("/many/group {group}/{rest}"),
    };
    (0..MANY).map(path).collect()
}

/// Relays packets between a server and its client, and reports the maximum number of concurrent
/// pending requests.
fn counted(server: &str) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its number").to_string();
    let (server, most) = (server.to_owned(), Arc::new(AtomicUsize::new(0)));
    let found = Arc::clone(&most);
    thread::spawn(move || {
        let (client, _) = listener.accept().expect("a client");
        let server = TcpStream::connect(server).expect("a server");
        let [from_client, from_server] =
            [&client, &server].map(|end| end.try_clone().expect("a copy"));
        let unanswered = Arc::new(AtomicUsize::new(0));
        let answered = Arc::clone(&unanswered);
        thread::spawn(move || {
            pass(from_server, client, || {
                answered.fetch_sub(1, Ordering::SeqCst);
            })
        });
        let _ = pass(from_client, server, || {
            let now = unanswered.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(now, Ordering::SeqCst);
        });
    });
    (address, found)
}

/// Relays packets one by one. Without watches, each packet of the server answers one of the client.
fn pass(mut from: TcpStream, mut to: TcpStream, passed: impl Fn()) -> io::Result<()> {
    loop {
        let mut packet = vec![0; 4];
        from.read_exact(&mut packet)?;
        let length = u32::from_be_bytes([packet[0], packet[1], packet[2], packet[3]]);
        packet.resize(4 + length as usize, 0);
        from.read_exact(&mut packet[4..])?;
        passed();
        to.write_all(&packet)?;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_znodes_are_in_flight_at_a_time() {
    let Some((server, client)) = server().await else {
        return;
    };
    let lines: String = many()
        .iter()
        .map(|path| line(path, &[Acl::open()]))
        .collect();
    let (address, unanswered) = counted(&server.address());
    let (code, told) = import(&address, &["/"], &lines);
    assert_eq!(code, Some(0), "{told}");
    assert_eq!(
        told,
        format!("{MANY} znodes so far\n{MANY} znodes created, 0 replaced, 0 kept unchanged\n")
    );
    let most = unanswered.load(Ordering::SeqCst);
    assert!(most >= 8, "{most} requests at one time");
    for path in many() {
        let (data, _) = client.get_data(&path).await.expect(&path);
        assert_eq!(data.as_deref(), Some(&b"x"[..]), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_znode_is_named_and_ends_the_import() {
    let Some((server, client)) = server().await else {
        return;
    };
    let paths = many();
    let middle = MANY / 2;
    let line_of = |(number, path): (usize, &String)| {
        if number == middle {
            line("/no/such", &[Acl::open()])
        } else {
            line(path, &[Acl::open()])
        }
    };
    let lines: String = paths.iter().enumerate().map(line_of).collect();
    let (code, told) = import(&server.address(), &["/"], &lines);
    assert_eq!(code, Some(1), "{told}");
    let refused = format!(
        "line {}: Node does not exist: /no/such\nNot finished: ",
        middle + 1
    );
    assert!(told.starts_with(&refused), "{told}");
    let mut there = 0;
    for (number, path) in paths.iter().enumerate() {
        let is_there = client.exists(path).await.expect("ask").is_some();
        assert!(is_there || number >= middle, "{path}");
        there += usize::from(is_there);
    }
    assert!(there < MANY, "it goes on for ever");
    assert!(
        told.contains(&format!("{there} znodes created")),
        "{there}: {told}"
    );

    // An invalid line is reported, unless an earlier line is refused.
    let broken = format!("{}{{\n", line("/one", &[Acl::open()]));
    let (code, told) = import(&server.address(), &["/"], &broken);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.starts_with("line 2: EOF while parsing"), "{told}");
    assert!(client.exists("/one").await.expect("ask").is_some());
    let broken = format!("{}{{\n", line("/no/such", &[Acl::open()]));
    let (_, told) = import(&server.address(), &["/"], &broken);
    assert_eq!(told, "line 1: Node does not exist: /no/such\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_acl_is_set_before_descendants_are_created() {
    let Some((server, client)) = server().await else {
        return;
    };
    let closed = [Acl::new(perms::ALL & !perms::CREATE, "world", "anyone")];
    let create = Create::persistent().with_acl(closed.to_vec());
    client.create("/p", "old", &create).await.expect("create");
    let below: String = (0..100)
        .map(|number| line(&format!("/p/{number}"), &[Acl::open()]))
        .collect();
    let (code, told) = import(&server.address(), &["/"], &below);
    assert_eq!(code, Some(1), "{told}");
    assert_eq!(told, "line 1: Insufficient permission : /p/0\n");

    let opened = format!("{}{below}", line("/p", &[Acl::open()]));
    let (code, told) = import(&server.address(), &["-f", "/"], &opened);
    assert_eq!(code, Some(0), "{told}");
    assert_eq!(told, "100 znodes created, 1 replaced, 0 kept unchanged\n");

    // In the reverse order, the last line in the file applies.
    let twice = format!(
        "{}{}{}",
        line("/p", &[Acl::open()]),
        line("/p", &closed),
        line("/p/new", &[Acl::open()])
    );
    let (code, told) = import(&server.address(), &["-f", "/"], &twice);
    assert_eq!(code, Some(1), "{told}");
    assert!(
        told.starts_with("line 3: Insufficient permission : /p/new\n"),
        "{told}"
    );
    let (acl, _) = client.get_acl("/p").await.expect("ask");
    assert_eq!(acl, closed);
}
