//! `zoarium restore-path` with random trees and random damage. The subtree is restored byte for
//! byte, and no newer write is overwritten.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use client::{Client, Create};
use fastrand::Rng;
use proto::Acl;
use tests::zoarium_binary;

use crate::site::{SUPER, Site, stderr, stdout};

const TOP: &str = "/t";

/// The restored parts of a znode: the data, the ACL, and the owner of an ephemeral.
type State = (Option<Bytes>, Vec<Acl>, i64);

/// Returns the subtree without ephemerals.
async fn states(client: &Client) -> BTreeMap<String, State> {
    let own = client.session_id().0;
    let mut found = all(client).await;
    found.retain(|_, (_, _, owner)| *owner != own);
    found
}

async fn all(client: &Client) -> BTreeMap<String, State> {
    let mut found = BTreeMap::new();
    let mut left = vec![TOP.to_owned()];
    while let Some(path) = left.pop() {
        let (data, stat) = client.get_data(&path).await.expect("data");
        let acl = client.get_acl(&path).await.expect("an ACL").0;
        let children = client.get_children(&path).await.expect("children");
        left.extend(children.iter().map(|name| format!("{path}/{name}")));
        found.insert(path, (data, acl, stat.ephemeral_owner));
    }
    found
}

/// Creates and damages trees at random.
struct Random(Rng);

impl Random {
    fn data(&mut self) -> Option<Bytes> {
        let len = match self.0.u32(..20) {
            0 => return None,
            1 => 0,
            2 => 200_000,
            _ => self.0.usize(..2000),
        };
        Some(std::iter::repeat_with(|| self.0.u8(..)).take(len).collect())
    }

    fn acl(&mut self) -> Vec<Acl> {
        let all = [
            Acl::open(),
            Acl::new(31, "digest", "ann:RYbu6l5aZwqon8VWmkcGvezdzfc="),
            Acl::new(1, "world", "anyone"),
            Acl::new(7, "ip", "10.0.0.0/8"),
        ];
        let count = self.0.usize(1..3);
        let mut acl: Vec<Acl> = Vec::new();
        while acl.len() < count {
            let entry = &all[self.0.usize(..all.len())];
            if !acl.contains(entry) {
                acl.push(entry.clone());
            }
        }
        acl
    }

    fn create(&mut self) -> Create {
        let kind = match self.0.u32(..8) {
            0 => Create::container(),
            1 => Create::ttl(Duration::from_secs(3600)),
            2 => Create::ephemeral(),
            _ => Create::persistent(),
        };
        kind.with_acl(self.acl())
    }

    /// Adds a znode below one of these, unless the parent is an ephemeral.
    async fn add(&mut self, client: &Client, paths: &mut Vec<String>) {
        let parent = paths[self.0.usize(..paths.len())].clone();
        let path = format!("{parent}/{:03x} \u{e9}", self.0.u16(..0xfff));
        let create = self.create();
        let made = match self.data() {
            Some(data) => client.create(&path, data, &create).await,
            None => client.create_without_data(&path, &create).await,
        };
        // An ephemeral cannot have children, and the name may already exist.
        if made.is_ok() {
            paths.push(path);
        }
    }

    async fn spoil(&mut self, client: &Client, paths: &mut Vec<String>) {
        let path = paths[self.0.usize(..paths.len())].clone();
        match self.0.u32(..6) {
            0 if path != TOP => self.remove(client, &path, paths).await,
            1 if path != TOP => {
                // Another znode in its place.
                self.remove(client, &path, paths).await;
                let create = self.create();
                if client.create(&path, "other", &create).await.is_ok() {
                    paths.push(path);
                }
            }
            0..=2 => {
                let data = self.data().unwrap_or_default();
                client.set_data(&path, data, -1).await.expect("set");
            }
            3 => {
                let acl = self.acl();
                client.set_acl(&path, acl, -1).await.expect("set ACL");
            }
            _ => self.add(client, paths).await,
        }
    }

    async fn remove(&mut self, client: &Client, top: &str, paths: &mut Vec<String>) {
        let below = format!("{top}/");
        let (mut gone, rest): (Vec<String>, Vec<String>) = std::mem::take(paths)
            .into_iter()
            .partition(|path| path == top || path.starts_with(&below));
        gone.sort_unstable();
        for path in gone.iter().rev() {
            client.delete(path, -1).await.expect("delete");
        }
        *paths = rest;
    }
}

/// Returns the kinds of all znodes except ephemerals at a moment. No Stat contains the kind.
fn kinds(site: &Site, at: &str) -> BTreeMap<String, String> {
    let words = ["tree", TOP, "--at", at, "--output", "json", "--auth", SUPER];
    let znodes = crate::site::lines(&site.tool(&words));
    let text =
        |znode: &serde_json::Value, name: &str| znode[name].as_str().expect("text").to_owned();
    let all = znodes
        .iter()
        .map(|znode| (text(znode, "path"), text(znode, "kind")));
    all.filter(|(_, kind)| kind != "KIND_EPHEMERAL").collect()
}

fn restore<'a>(site: &'a Site, at: &'a str, more: &[&'a str]) -> std::process::Output {
    let connect = site.server.address();
    let words = [
        "restore-path",
        TOP,
        "--at",
        at,
        "--connect",
        &connect,
        "--auth",
        SUPER,
    ];
    site.tool(&[&words[..], more].concat())
}

// The test waits for tools that take seconds. Meanwhile another thread keeps the session of its
// client alive.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn random_trees_come_back_from_random_damage() {
    // No other task may delete containers during the test.
    let settings = [("znode.container.checkIntervalMs", "3600000")];
    let Some(site) = Site::start(&settings) else {
        return;
    };
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = Random(Rng::with_seed(seed));
    let client = site.super_client().await;
    client
        .create(TOP, "top", &Create::persistent())
        .await
        .expect("create");
    let mut paths = vec![TOP.to_owned()];
    for _ in 0..150 {
        random.add(&client, &mut paths).await;
    }
    for round in 0..4 {
        let wanted = states(&client).await;
        let mark = client
            .set_data("/", format!("{round}"), -1)
            .await
            .expect("set");
        for _ in 0..60 {
            random.spoil(&client, &mut paths).await;
        }
        let damaged = states(&client).await;
        assert_ne!(damaged, wanted, "nothing was spoilt");
        let end = client.set_data("/", "end", -1).await.expect("set");
        site.wait_until_recorded(end.mzxid);
        let at = format!("{:#x}", mark.mzxid);
        let plan = restore(&site, &at, &["--dry-run", "--force"]);
        assert!(plan.status.success(), "{}", stderr(&plan));
        assert_eq!(states(&client).await, damaged, "a dry run did something");
        // Newer ephemerals prevent the restoration of the znodes below them only if their parents
        // are also new.
        let done = restore(&site, &at, &["--yes", "--force"]);
        assert!(
            done.status.success(),
            "round {round}: {}{}",
            stdout(&plan),
            stderr(&done)
        );
        let found = states(&client).await;
        assert_eq!(found, wanted, "round {round}: {}", stdout(&done));
        let end = client.set_data("/", "end", -1).await.expect("set");
        site.wait_until_recorded(end.mzxid);
        let now = format!("{:#x}", end.mzxid);
        assert_eq!(kinds(&site, &now), kinds(&site, &at), "round {round}");
        let again = restore(&site, &at, &["--dry-run", "--force"]);
        assert!(
            stdout(&again).contains(" matches the state after "),
            "{}",
            stdout(&again)
        );
        paths = all(&client).await.into_keys().collect();
    }
}

/// Shows a plan, runs `meanwhile`, confirms the plan, and returns the result.
async fn agree_late(site: &Site, at: &str, meanwhile: impl AsyncFnOnce()) -> (bool, String) {
    let mut process = Command::new(zoarium_binary())
        .args(["restore-path", TOP, "--at", at, "--auth", SUPER])
        .args(["--connect", &site.server.address()])
        .args(["--server", &site.admin_address()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("zoarium runs");
    let mut shown = Vec::new();
    let mut out = process.stdout.take().expect("its output");
    let mut byte = [0];
    while !shown.ends_with(b"(yes/no) ") {
        let count = out.read(&mut byte).expect("a plan");
        assert_eq!(count, 1, "{}", String::from_utf8_lossy(&shown));
        shown.push(byte[0]);
    }
    meanwhile().await;
    let mut answer = process.stdin.take().expect("its input");
    writeln!(answer, "yes").expect("agree");
    drop(answer);
    let mut said = String::new();
    let mut err = process.stderr.take().expect("its complaints");
    err.read_to_string(&mut said).expect("text");
    (process.wait().expect("its end").success(), said)
}

/// Creates `/t` and `/t/kept` with the data `then`, and then damages everything. Returns the moment
/// before the damage.
async fn spoilt(site: &Site, client: &Client) -> String {
    let persistent = Create::persistent();
    client
        .create(TOP, "then", &persistent)
        .await
        .expect("create");
    let mark = client
        .create2("/t/kept", "then", &persistent)
        .await
        .expect("create")
        .1;
    client.set_data(TOP, "damage", -1).await.expect("set");
    client.set_data("/t/kept", "damage", -1).await.expect("set");
    client
        .create("/t/new", "", &persistent)
        .await
        .expect("create");
    client
        .set_acl(TOP, vec![Acl::new(1, "world", "anyone")], -1)
        .await
        .expect("set ACL");
    let end = client.set_data("/", "", -1).await.expect("set");
    site.wait_until_recorded(end.mzxid);
    format!("{:#x}", mark.czxid)
}

async fn data(client: &Client, path: &str) -> Bytes {
    let (data, _) = client.get_data(path).await.expect("data");
    data.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_newer_write_is_not_overwritten() {
    let Some(site) = Site::start(&[]) else { return };
    let client = site.super_client().await;
    let at = spoilt(&site, &client).await;
    let set = async || {
        client.set_data("/t/kept", "newer", -1).await.expect("set");
    };
    let (done, said) = agree_late(&site, &at, set).await;
    assert!(!done && said.contains("/t/kept"), "{said}");
    assert!(
        said.contains("the multi with this step was not executed"),
        "{said}"
    );
    assert_eq!(data(&client, "/t/kept").await, "newer");
    assert_eq!(
        data(&client, TOP).await,
        "damage",
        "the multi was done by half"
    );

    // A new child keeps its parent.
    let create = async || {
        let made = client
            .create("/t/new/child", "", &Create::persistent())
            .await;
        made.expect("create");
    };
    let (done, said) = agree_late(&site, &at, create).await;
    assert!(!done && said.contains("/t/new"), "{said}");
    assert!(
        client
            .exists("/t/new/child")
            .await
            .expect("a look")
            .is_some()
    );

    // A newer ACL is not overwritten either.
    let acl = vec![Acl::new(3, "world", "anyone")];
    let set = async || {
        client.set_acl(TOP, acl.clone(), -1).await.expect("set ACL");
    };
    let (done, said) = agree_late(&site, &at, set).await;
    assert!(!done && said.contains("/t: "), "{said}");
    assert_eq!(client.get_acl(TOP).await.expect("an ACL").0, acl);
    // The earlier steps were executed, and the output reports them.
    assert!(said.contains("steps executed before: "), "{said}");

    let (done, said) = agree_late(&site, &at, async || {}).await;
    assert!(done, "{said}");
    assert_eq!(data(&client, TOP).await, "then");
    assert_eq!(data(&client, "/t/kept").await, "then");
    assert_eq!(client.get_children(TOP).await.expect("children"), ["kept"]);
    assert_eq!(client.get_acl(TOP).await.expect("an ACL").0, [Acl::open()]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn znodes_that_cannot_be_restored_are_reported() {
    let Some(site) = Site::start(&[("history.exclude", "/t/unrecorded")]) else {
        return;
    };
    let client = site.super_client().await;
    let persistent = Create::persistent();
    client.create(TOP, "", &persistent).await.expect("create");
    client
        .create("/t/ephemeral", "", &Create::ephemeral())
        .await
        .expect("create");
    client
        .create("/t/container", "", &Create::container())
        .await
        .expect("create");
    client
        .create("/t/ttl", "", &Create::ttl(Duration::from_secs(3600)))
        .await
        .expect("create");
    client
        .create("/t/unrecorded", "", &persistent)
        .await
        .expect("create");
    let mark = client.set_data("/", "", -1).await.expect("set");
    for path in ["/t/ephemeral", "/t/container", "/t/ttl"] {
        client.delete(path, -1).await.expect("delete");
    }
    client
        .create("/t/newer", "", &Create::ephemeral())
        .await
        .expect("create");
    let end = client.set_data("/", "", -1).await.expect("set");
    site.wait_until_recorded(end.mzxid);
    let at = format!("{:#x}", mark.mzxid);
    let plan = stdout(&restore(&site, &at, &["--dry-run"]));
    for said in [
        "/t/ephemeral was an ephemeral of session",
        "/t/container is a container",
        "/t/ttl has a TTL: servers delete it after 3600000 ms without changes and children",
        "/t/newer is not changed: it is an ephemeral",
        "/t/unrecorded is not changed: the change history does not record it",
    ] {
        assert!(plan.contains(said), "{said}: {plan}");
    }
    // Without confirmation.
    let refused = restore(&site, &at, &[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(client.exists("/t/ttl").await.expect("a look").is_none());
    let done = restore(&site, &at, &["--yes"]);
    assert!(done.status.success(), "{}", stderr(&done));
    let mut children = client.get_children(TOP).await.expect("children");
    children.sort();
    assert_eq!(children, ["container", "newer", "ttl", "unrecorded"]);
}
