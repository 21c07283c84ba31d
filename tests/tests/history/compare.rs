//! Every kind of query: the answers of a member are compared with the plain list.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use fastrand::Rng;
use serde_json::Value;
use tests::HttpRequest;

use crate::plain::{Plain, PlainChange, PlainZnode, TOP, Tree};
use crate::site::SUPER;

/// Sends a command to a member as the super user, and returns the answer.
pub(crate) fn ask(member: SocketAddr, target: &str) -> (u16, Value) {
    // The only name that is not ASCII.
    let target = target.replace('\u{e9}', "%C3%A9");
    let request = HttpRequest {
        method: "GET",
        target: &format!("/commands/history/{target}"),
        headers: &[("Authorization", SUPER)],
        body: None,
    };
    let answer = request.send_to(member).expect("an answer");
    let found = serde_json::from_slice(&answer.body).expect("JSON");
    (answer.status, found)
}

/// The range of changes that a member knows.
#[derive(Debug)]
pub(crate) struct Extent {
    recorded_after: i64,
    known_from: i64,
    pub(crate) head: i64,
    /// For each hole: the last zxid before it, the zxid from which changes are recorded again, and
    /// the zxid from which the tree is known again.
    pub(crate) holes: Vec<(i64, i64, i64)>,
}

impl Extent {
    pub(crate) fn of(member: SocketAddr) -> Option<Self> {
        let (status, found) = ask(member, "changes?path=/&limit=1");
        let extent = &found["extent"];
        let zxid = |value: &Value| hex(value);
        let holes = extent["holes"].as_array().into_iter().flatten();
        let hole = |hole: &Value| {
            ["after", "recorded_after", "known_from"]
                .map(|name| zxid(&hole[name]))
                .into()
        };
        (status == 200).then(|| Self {
            recorded_after: zxid(&extent["recorded_after"]),
            known_from: zxid(&extent["known_from"]),
            head: zxid(&extent["head"]),
            holes: holes.map(hole).collect(),
        })
    }

    fn is_recorded(&self, zxid: i64) -> bool {
        let mut holes = self.holes.iter();
        let is_lost = holes.any(|(after, again, _)| zxid > *after && zxid <= *again);
        zxid > self.recorded_after && zxid <= self.head && !is_lost
    }

    fn is_known(&self, zxid: i64) -> bool {
        let mut holes = self.holes.iter();
        let is_lost = holes.any(|(after, _, again)| zxid > *after && zxid < *again);
        zxid >= self.known_from && zxid <= self.head && !is_lost
    }
}

fn hex(value: &Value) -> i64 {
    let text = value.as_str().unwrap_or_else(|| panic!("no text: {value}"));
    i64::from_str_radix(&text[2..], 16).expect("hex")
}

fn znode_of(found: &Value) -> Option<PlainZnode> {
    let number = |name: &str| found[name].as_i64().expect("a number");
    let is_there = !found.is_null();
    is_there.then(|| PlainZnode {
        czxid: hex(&found["czxid"]),
        mzxid: hex(&found["mzxid"]),
        version: number("version"),
        aversion: number("aversion"),
        data: found["data"]["base64"].as_str().expect("data").to_owned(),
        acl: found["acl"].clone(),
        is_ephemeral: found["kind"] == "KIND_EPHEMERAL",
    })
}

/// Returns the position of a change and its description.
fn words_of(change: &Value) -> (i64, u64, String, String, String) {
    let text = |name: &str| change[name].as_str().expect("text").to_owned();
    let index = change["index"].as_u64().expect("a number");
    let (session, operation) = (text("session"), text("operation"));
    (
        hex(&change["zxid"]),
        index,
        session,
        operation,
        text("path"),
    )
}

fn plain_words(change: &PlainChange) -> (i64, u64, String, String, String) {
    let (session, operation) = (change.session.clone(), change.operation.to_owned());
    (
        change.zxid,
        change.index,
        session,
        operation,
        change.path.clone(),
    )
}

fn is_below(top: &str, path: &str) -> bool {
    let rest = path.strip_prefix(top);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn below<'a>(tree: &'a Tree, top: &str) -> BTreeMap<&'a str, &'a PlainZnode> {
    let all = tree.iter().filter(|(path, _)| is_below(top, path));
    all.map(|(path, znode)| (path.as_str(), znode)).collect()
}

/// Sends many random queries to a member.
pub(crate) struct Asking<'a> {
    pub(crate) member: SocketAddr,
    pub(crate) plain: &'a Plain,
    pub(crate) extent: Extent,
    pub(crate) random: Rng,
}

impl Asking<'_> {
    pub(crate) fn compare(&mut self, rounds: usize) {
        for _ in 0..rounds {
            self.changes();
            self.cat();
            self.tree();
            self.diff();
            self.blame();
        }
        self.lost_moments();
    }

    /// Returns all pages of an answer.
    fn pages(&self, target: &str) -> Vec<Value> {
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let (status, page) = ask(self.member, &format!("{target}{after}"));
            assert_eq!(status, 200, "{target}: {page}");
            found.extend(page["results"].as_array().expect("results").iter().cloned());
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => return found,
            }
        }
    }

    fn any_change(&mut self) -> PlainChange {
        let changes = &self.plain.changes;
        changes[self.random.usize(..changes.len())].clone()
    }

    fn path(&mut self) -> String {
        match self.random.u8(..5) {
            0 => TOP.to_owned(),
            _ => self.any_change().path,
        }
    }

    /// Returns a moment whose tree the member knows.
    fn moment(&mut self) -> i64 {
        let trees = self.plain.trees.iter().map(|(zxid, _)| *zxid);
        let known: Vec<i64> = trees.filter(|zxid| self.extent.is_known(*zxid)).collect();
        assert!(!known.is_empty(), "{:?}", self.extent);
        known[self.random.usize(..known.len())]
    }

    fn changes(&mut self) {
        let (path, is_recursive) = (self.path(), self.random.bool());
        let mut target =
            format!("changes?path={path}&recursive={is_recursive}&oldest_first=true&diff=true");
        let mut wanted: Vec<PlainChange> = self.plain.changes.clone();
        wanted.retain(|change| {
            let is_of_path = change.path == path || is_recursive && is_below(&path, &change.path);
            is_of_path && self.extent.is_recorded(change.zxid)
        });
        if self.random.u8(..3) == 0 {
            let since = self.any_change().zxid;
            target += &format!("&since={since:#x}");
            wanted.retain(|change| change.zxid >= since);
        }
        if self.random.u8(..3) == 0 {
            let until = self.any_change().zxid;
            target += &format!("&until={until:#x}");
            wanted.retain(|change| change.zxid <= until);
        }
        if self.random.u8(..3) == 0 {
            let session = self.any_change().session;
            target += &format!("&session={session}");
            wanted.retain(|change| change.session == session);
        }
        if self.random.u8(..3) == 0 {
            target += "&op=create&op=setAcl";
            wanted.retain(|change| ["create", "setAcl"].contains(&change.operation));
        }
        target += &format!("&limit={}", self.random.u32(50..400));
        let found = self.pages(&target);
        let words: Vec<_> = found.iter().map(words_of).collect();
        assert_eq!(
            words,
            wanted.iter().map(plain_words).collect::<Vec<_>>(),
            "{target}"
        );
        for (found, wanted) in found.iter().zip(&wanted) {
            self.states(found, wanted);
        }
    }

    /// Checks the states before and after a change, as far as the member can know them.
    fn states(&self, found: &Value, wanted: &PlainChange) {
        if self.extent.is_known(wanted.zxid) {
            assert_eq!(znode_of(&found["after"]), wanted.after, "{wanted:?}");
        }
        let before = self.plain.tree(wanted.zxid - 1).get(&wanted.path).cloned();
        if found["is_before_unknown"] == true {
            assert!(!self.extent.is_known(wanted.zxid - 1), "{wanted:?}");
        } else if wanted.index == 0 {
            assert_eq!(znode_of(&found["before"]), before, "{wanted:?}");
        }
    }

    fn cat(&mut self) {
        let (path, at) = (self.path(), self.moment());
        let (status, found) = ask(self.member, &format!("cat?path={path}&at={at:#x}"));
        match self.plain.tree(at).get(&path) {
            Some(wanted) => {
                assert_eq!(status, 200, "{found}");
                let found = znode_of(&found["results"][0]);
                assert_eq!(found.as_ref(), Some(wanted), "{path} at {at:#x}");
            }
            None => assert_eq!(status, 404, "{path} at {at:#x}: {found}"),
        }
    }

    fn tree(&mut self) {
        let (path, at) = (self.path(), self.moment());
        let limit = self.random.u32(5..60);
        let found = self.pages(&format!("tree?path={path}&at={at:#x}&limit={limit}"));
        let found: Tree = found
            .iter()
            .filter_map(|one| Some((one["path"].as_str()?.to_owned(), znode_of(one)?)))
            .collect();
        let wanted = below(self.plain.tree(at), &path);
        assert_eq!(below(&found, &path), wanted, "{path} at {at:#x}");
        assert_eq!(found.len(), wanted.len());
    }

    fn diff(&mut self) {
        let (path, from, to) = (self.path(), self.moment(), self.moment());
        let found = self.pages(&format!(
            "diff?path={path}&from={from:#x}&to={to:#x}&limit=30"
        ));
        let found: BTreeMap<String, _> = found
            .iter()
            .map(|one| {
                let path = one["path"].as_str().expect("a path").to_owned();
                (path, (znode_of(&one["before"]), znode_of(&one["after"])))
            })
            .collect();
        let (before, after) = (self.plain.tree(from), self.plain.tree(to));
        let paths = before.keys().chain(after.keys());
        let wanted: BTreeMap<String, _> = paths
            .filter(|one| is_below(&path, one) && before.get(*one) != after.get(*one))
            .map(|one| {
                (
                    one.clone(),
                    (before.get(one).cloned(), after.get(one).cloned()),
                )
            })
            .collect();
        assert_eq!(found, wanted, "{path} from {from:#x} to {to:#x}");
    }

    /// Checks that `blame` names the last author, and omits the author only if it is unknown.
    fn blame(&mut self) {
        let path = self.path();
        let (status, found) = ask(self.member, &format!("blame?path={path}&limit=1000"));
        assert_eq!(status, 200, "{found}");
        let blame = &found["results"][0];
        let is_whole = self.extent.holes.is_empty();
        let of = |path: &str, operations: &[&str]| {
            let mut changes = self.plain.changes.iter().rev();
            changes.find(|c| {
                c.path == path && (operations.is_empty() || operations.contains(&c.operation))
            })
        };
        let check = |found: &Value, path: &str, operations: &[&str]| {
            let last = of(path, operations).filter(|last| last.zxid > self.extent.recorded_after);
            if found.is_null() {
                assert!(last.is_none() || !is_whole, "{path} {operations:?}");
            } else {
                assert_eq!(Some(words_of(found)), last.map(plain_words), "{path}");
            }
        };
        check(&blame["created"], &path, &["create"]);
        check(&blame["data"], &path, &["create", "set"]);
        check(&blame["acl"], &path, &["create", "setAcl"]);
        for child in blame["children"].as_array().expect("children") {
            let name = child["name"].as_str().expect("a name");
            check(&child["last"], &format!("{path}/{name}"), &[]);
        }
    }

    /// Checks that a moment in a hole is refused.
    fn lost_moments(&self) {
        for (after, _, again) in &self.extent.holes {
            for at in [after + 1, again - 1] {
                let (status, found) = ask(self.member, &format!("tree?path={TOP}&at={at:#x}"));
                assert_eq!(status, 410, "{at:#x}: {found}");
            }
        }
    }
}
