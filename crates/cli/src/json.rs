//! What the commands that read print with `--output json`: an object a line.
//!
//! Zxids and session ids are texts in hexadecimal, as in a Stat that is printed: as numbers they are too
//! large for many readers of JSON.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proto::{Acl, Stat};
use serde_json::{Value, json};

/// A line. Control characters that JSON lets pass are escaped: a terminal would follow them.
pub(crate) fn line(value: &Value) -> String {
    let text = value.to_string();
    if !text.contains(is_escaped) {
        return text;
    }
    let mut plain = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        // Outside of texts there are none.
        match is_escaped(c) {
            true => {
                let _ = write!(plain, "\\u{:04x}", u32::from(c));
            }
            false => plain.push(c),
        }
    }
    plain
}

/// Control characters, and those that YAML does not allow in texts.
fn is_escaped(c: char) -> bool {
    c.is_control() || matches!(c, '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Data with its `encoding`: `utf-8` for text, `base64` for all else or if that is wanted, null for
/// null.
pub(crate) fn data(data: Option<&[u8]>, wants_base64: bool) -> (Value, Value) {
    let Some(data) = data else {
        return (Value::Null, Value::Null);
    };
    match std::str::from_utf8(data) {
        Ok(text) if !wants_base64 => (json!(text), json!("utf-8")),
        _ => (json!(STANDARD.encode(data)), json!("base64")),
    }
}

/// The fields of a Stat, by the names that are printed.
pub(crate) fn stat(stat: &Stat) -> Value {
    json!({
        "cZxid": format!("0x{:x}", stat.czxid),
        "ctime": stat.ctime,
        "mZxid": format!("0x{:x}", stat.mzxid),
        "mtime": stat.mtime,
        "pZxid": format!("0x{:x}", stat.pzxid),
        "cversion": stat.cversion,
        "dataVersion": stat.version,
        "aclVersion": stat.aversion,
        "ephemeralOwner": format!("0x{:x}", stat.ephemeral_owner),
        "dataLength": stat.data_length,
        "numChildren": stat.num_children,
    })
}

/// An ACL as `export` writes it.
pub(crate) fn acl(acl: &[Acl]) -> Value {
    let entry =
        |acl: &Acl| json!({ "perms": acl.perms, "scheme": &*acl.id.scheme, "id": &*acl.id.id });
    acl.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_cannot_drive_the_terminal_and_is_still_what_it_was() {
        let value = json!({ "path": "/a\u{9b}2J\u{7f}\n" });
        let line = line(&value);
        assert!(!line.contains(char::is_control), "{line:?}");
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), value);
    }

    #[test]
    fn data_says_how_it_is_written() {
        assert_eq!(data(None, true), (Value::Null, Value::Null));
        assert_eq!(data(Some(b"a"), false), (json!("a"), json!("utf-8")));
        assert_eq!(data(Some(b"a"), true), (json!("YQ=="), json!("base64")));
        assert_eq!(data(Some(&[0xff]), false), (json!("/w=="), json!("base64")));
    }
}
