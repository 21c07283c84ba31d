//! Answers as JSON: one object per line for commands, and the responses of the admin server.
//!
//! Zxids and sessions are strings of hex digits, because not every JSON parser supports 64-bit
//! numbers. Data is encoded in base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::moment::time_text;
use crate::query::{Blame, Difference};
use crate::reading::read::Extent;
use crate::record::{AclEntry, AclList, Change, Content, ExportedChange, Znode};
use crate::recording::filter::PathFilter;

/// Formats a change and the znode before and after it, as far as `result` contains them.
pub fn exported(result: &ExportedChange) -> Value {
    value(&ExportedView(result))
}

/// Formats many changes as the lines of a feed.
pub fn lines(results: &[ExportedChange]) -> Vec<u8> {
    let mut lines = Vec::new();
    for result in results {
        let written = serde_json::to_writer(&mut lines, &ExportedView(result));
        debug_assert!(
            written.is_ok(),
            "JSON with text keys can always be written to memory"
        );
        lines.push(b'\n');
    }
    lines
}

/// Formats a change without the znode before and after it.
fn without_states(found: &ExportedChange) -> Value {
    let view = |change| value(&ChangeView(change, found.is_origin_hidden));
    found.change.as_ref().map_or(Value::Null, view)
}

/// Formats a znode.
pub fn znode(path: &str, znode: &Znode) -> Value {
    value(&ZnodeView(path, znode))
}

fn value(view: &impl Serialize) -> Value {
    serde_json::to_value(view).unwrap_or_default()
}

/// Serializes a change and the znode before and after it.
struct ExportedView<'a>(&'a ExportedChange);

impl Serialize for ExportedView<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Some(change) = &self.0.change else {
            return to.serialize_none();
        };
        let state = |found| Option::map(found, |found| ZnodeView(&change.path, found));
        let mut map = to.serialize_map(None)?;
        ChangeView(change, self.0.is_origin_hidden).put(&mut map)?;
        map.serialize_entry("before", &state(self.0.before.as_ref()))?;
        map.serialize_entry("after", &state(self.0.after.as_ref()))?;
        map.serialize_entry("is_before_unknown", &self.0.is_before_unknown)?;
        map.end()
    }
}

/// A change, and whether its origin is hidden.
struct ChangeView<'a>(&'a Change, bool);

impl ChangeView<'_> {
    fn put<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let change = self.0;
        let position = change.position();
        map.serialize_entry("position", &DisplayString(position))?;
        map.serialize_entry("zxid", &Hex(change.zxid))?;
        map.serialize_entry("index", &change.index)?;
        map.serialize_entry("time_ms", &change.time_ms)?;
        map.serialize_entry("time", &time_text(change.time_ms))?;
        // The fields of a hidden origin are `null`, unlike the fields of a change by the server.
        let is_shown = !self.1;
        let session = is_shown.then_some(Hex(change.session));
        map.serialize_entry("session", &session)?;
        map.serialize_entry("cxid", &is_shown.then_some(change.cxid))?;
        map.serialize_entry("client", &is_shown.then_some(&change.client))?;
        map.serialize_entry("identities", &is_shown.then_some(&change.identities))?;
        map.serialize_entry("operation", change.operation().name())?;
        map.serialize_entry("path", &change.path)?;
        map.serialize_entry("kind", change.kind().as_str_name())?;
        map.serialize_entry("version", &change.version)?;
        map.serialize_entry("aversion", &change.aversion)?;
        map.serialize_entry("data", &change.data.as_ref().map(ContentView))?;
        map.serialize_entry("acl", &change.acl_list().map(AclView))
    }
}

impl Serialize for ChangeView<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        self.put(&mut map)?;
        map.end()
    }
}

/// A path and the state of its znode.
struct ZnodeView<'a>(&'a str, &'a Znode);

impl Serialize for ZnodeView<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self(path, znode) = self;
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("path", path)?;
        map.serialize_entry("czxid", &Hex(znode.czxid))?;
        map.serialize_entry("mzxid", &Hex(znode.mzxid))?;
        map.serialize_entry("ctime_ms", &znode.ctime_ms)?;
        map.serialize_entry("mtime_ms", &znode.mtime_ms)?;
        map.serialize_entry("version", &znode.version)?;
        map.serialize_entry("aversion", &znode.aversion)?;
        map.serialize_entry("owner", &Hex(znode.owner))?;
        map.serialize_entry("kind", znode.kind().as_str_name())?;
        map.serialize_entry("ttl_ms", &znode.ttl_ms)?;
        map.serialize_entry("data", &znode.data.as_ref().map(ContentView))?;
        map.serialize_entry("acl", &znode.acl_list().map(AclView))?;
        map.end()
    }
}

struct ContentView<'a>(&'a Content);

impl Serialize for ContentView<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(2))?;
        map.serialize_entry("size", &self.0.size)?;
        match self.0.bytes() {
            Some(bytes) => map.serialize_entry("base64", &BASE64.encode(bytes))?,
            None => map.serialize_entry("omitted", &true)?,
        }
        map.end()
    }
}

struct AclView(AclList);

impl Serialize for AclView {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.entries.iter().map(AclEntryView))
    }
}

struct AclEntryView<'a>(&'a AclEntry);

impl Serialize for AclEntryView<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(3))?;
        map.serialize_entry("perms", &self.0.perms)?;
        map.serialize_entry("scheme", &self.0.scheme)?;
        map.serialize_entry("id", &self.0.id)?;
        map.end()
    }
}

/// A zxid or a session, formatted like [`hex`].
struct Hex(i64);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{:#x}", self.0))
    }
}

struct DisplayString<T>(T);

impl<T: std::fmt::Display> Serialize for DisplayString<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

/// Formats the last changes to a znode.
pub fn blame(blame: &Blame) -> Value {
    let change =
        |found: &Option<ExportedChange>| found.as_ref().map_or(Value::Null, without_states);
    let children = blame.children.iter().map(
        |child| json!({ "name": child.name, "exists": child.exists, "last": change(&child.last) }),
    );
    json!({
        "created": change(&blame.created),
        "data": change(&blame.data),
        "acl": change(&blame.acl),
        "deleted": change(&blame.deleted),
        "children": children.collect::<Vec<_>>(),
    })
}

/// Formats a znode that differs between two moments.
pub fn difference(one: &Difference) -> Value {
    json!({
        "path": one.path,
        "kind": one.kind.name(),
        "before": state(&one.path, one.before.as_ref()),
        "after": state(&one.path, one.after.as_ref()),
    })
}

/// Formats the recorded range of the history, its holes, and the filter for its paths.
pub fn extent(extent: &Extent, filter: &PathFilter) -> Value {
    let holes = extent.holes.iter().map(|hole| {
        json!({
            "after": hex(hole.after.0),
            "recorded_after": hex(hole.recorded_after.0),
            "known_from": hex(hole.known_from.0),
        })
    });
    json!({
        "recorded_after": hex(extent.recorded_after.0),
        "known_from": hex(extent.known_from.0),
        "head": hex(extent.head.0),
        "holes": holes.collect::<Vec<_>>(),
        "include": filter.include(),
        "exclude": filter.exclude(),
    })
}

/// Formats a zxid or a session.
pub fn hex(number: i64) -> String {
    format!("{number:#x}")
}

fn state(path: &str, found: Option<&Znode>) -> Value {
    found.map_or(Value::Null, |found| znode(path, found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Operation;

    #[test]
    fn a_feed_line_equals_the_object_of_an_answer() {
        let acl = AclList {
            entries: vec![AclEntry {
                perms: 31,
                scheme: "digest".to_owned(),
                id: "ann:***".to_owned(),
            }],
        };
        let content = |bytes: Vec<u8>| Content {
            size: bytes.len() as u64,
            inline: Some(bytes.into()),
            ..Content::default()
        };
        let change = Change {
            zxid: 0x1a,
            index: 3,
            session: -1,
            operation: Operation::SetData.into(),
            path: "/a\"\n\u{e9}".to_owned(),
            identities: vec!["digest:ann".to_owned()],
            data: Some(content(b"hi".to_vec())),
            acl: Some(content(prost::Message::encode_to_vec(&acl))),
            ..Change::default()
        };
        let omitted = Content {
            size: 9,
            is_omitted: true,
            ..Content::default()
        };
        let before = Znode {
            owner: 7,
            data: Some(omitted),
            ..Znode::default()
        };
        let result = ExportedChange {
            before: Some(before),
            change: Some(change),
            ..ExportedChange::default()
        };
        let value = exported(&result);
        assert_eq!(value["position"], "0x1a.3");
        assert_eq!(value["session"], "0xffffffffffffffff");
        assert_eq!(value["path"], "/a\"\n\u{e9}");
        assert_eq!(value["data"], json!({ "size": 2, "base64": "aGk=" }));
        assert_eq!(value["acl"][0]["id"], "ann:***");
        assert_eq!(
            value["before"]["data"],
            json!({ "size": 9, "omitted": true })
        );
        assert_eq!(value["after"], Value::Null);
        let both = lines(&[result.clone(), result]);
        let both: Vec<&[u8]> = both.split_inclusive(|byte| *byte == b'\n').collect();
        assert_eq!(both.len(), 2);
        for line in both {
            let found: Value = serde_json::from_slice(line).unwrap();
            assert_eq!(found, value);
        }
    }
}
