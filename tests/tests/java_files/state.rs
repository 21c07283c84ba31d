//! The state of a server's data, as the server reports it.

use std::collections::{BTreeMap, BTreeSet};

use tests::secrets::{SUPER, SUPER_DIGEST};
use tests::{Dump, Flavour, RawSession, Server, ServerBuilder};

/// Parent of the hundred thousand znodes.
pub(crate) const MANY_BELOW: &str = "/many";

/// The longest session timeout of these servers: no session expires between two servers.
pub(crate) const TIMEOUT_MS: i32 = 120_000;

/// Returns a server on which nothing changes without a request.
pub(crate) fn builder(flavour: Flavour) -> ServerBuilder {
    let day = "86400000";
    ServerBuilder::new(flavour)
        .setting("maxSessionTimeout", &TIMEOUT_MS.to_string())
        .property("znode.container.checkIntervalMs", day)
        .property(
            "zookeeper.DigestAuthenticationProvider.superDigest",
            SUPER_DIGEST,
        )
        // The digest includes the bytes of the path, which depend on the locale before Java 18.
        .property("file.encoding", "UTF-8")
}

/// All data that must not change when another server opens the directory.
#[derive(Debug)]
pub(crate) struct State {
    dump: Dump,
    /// Session and path of each ephemeral.
    ephemerals: BTreeSet<(String, String)>,
    /// Digests of the tree at some of its zxids.
    digests: BTreeMap<u64, String>,
    /// The last zxid before the first query.
    zxid_found: String,
    /// The last zxid after the queries, which need a session.
    zxid_left: String,
    /// Number of znodes as the server counts them.
    znodes: Option<String>,
}

impl State {
    /// Reads the whole state. Below `/many` it reads only on request, because this takes a while.
    pub(crate) fn of(server: &Server, with_many: bool) -> State {
        let zxid_found = line_of(&server.word("srvr"), "Zxid: ");
        let mut session = RawSession::open(&server.address(), None, TIMEOUT_MS)
            .unwrap_or_else(|error| panic!("no session: {error}"));
        session
            .authenticate("digest", SUPER)
            .expect("the super user");
        let left_out = if with_many { "" } else { MANY_BELOW };
        let dump = Dump::read_but(&mut session, left_out).expect("the tree");
        session.close().expect("the end of a session");
        let digests = server.word("hash");
        State {
            dump,
            ephemerals: ephemerals(&server.word("dump")),
            digests: digests.lines().filter_map(digest).collect(),
            zxid_found,
            znodes: server.metric("znode_count"),
            zxid_left: line_of(&server.word("srvr"), "Zxid: "),
        }
    }

    /// Removes the znodes below `/many`.
    #[must_use]
    pub(crate) fn without_many(mut self) -> State {
        self.dump = self.dump.but(MANY_BELOW);
        self
    }

    /// Panics unless `self`, read from the next server, equals `before`.
    pub(crate) fn assert_same(&self, before: &State, what: &str) {
        self.dump.assert_same(&before.dump, what);
        assert_eq!(self.ephemerals, before.ephemerals, "{what}: ephemerals");
        assert_eq!(self.znodes, before.znodes, "{what}: number of znodes");
        assert_eq!(self.zxid_found, before.zxid_left, "{what}: last zxid");
    }

    /// Panics unless the newest common digest is equal. Older digests may come from a fuzzy
    /// snapshot and differ.
    pub(crate) fn assert_same_digest(&self, before: &State, what: &str) {
        let common = self.digests.iter().rev();
        let mut common = common.filter(|(zxid, _)| before.digests.contains_key(zxid));
        let (zxid, digest) = common.next().unwrap_or_else(|| panic!("{what}: no digest"));
        assert_eq!(*digest, before.digests[zxid], "{what}: digest at {zxid:#x}");
    }

    pub(crate) fn dump(&self) -> &Dump {
        &self.dump
    }
}

fn line_of(text: &str, key: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.unwrap_or_else(|| panic!("no {key:?} in {text}"))
        .to_owned()
}

/// Parses a line of the word `hash`.
fn digest(line: &str) -> Option<(u64, String)> {
    let (zxid, digest) = line.split_once(": ")?;
    let zxid = u64::from_str_radix(zxid, 16).ok()?;
    Some((zxid, digest.to_owned()))
}

/// Parses the middle part of the word `dump`: each session, and its paths after it.
fn ephemerals(answer: &str) -> BTreeSet<(String, String)> {
    let (_, part) = answer
        .split_once("Sessions with Ephemerals")
        .unwrap_or_else(|| panic!("no ephemerals in {answer}"));
    let mut found = BTreeSet::new();
    let mut session = "";
    let lines = part.lines().skip(1);
    for line in lines.take_while(|line| !line.starts_with("Connections")) {
        match line.strip_prefix('\t') {
            Some(path) => {
                found.insert((session.to_owned(), path.to_owned()));
            }
            None => session = line.trim_end_matches(':'),
        }
    }
    found
}
