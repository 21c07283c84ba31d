//! Output of reading commands with `--output json`: one object per line.
//!
//! Zxids and session ids are hexadecimal strings, as in a printed Stat. As numbers, they would be
//! too large for many JSON parsers.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proto::{Acl, Stat};
use serde_json::{Value, json};

/// Formats a value on one line. Escapes control characters that JSON permits, because a terminal
/// would execute them.
pub(crate) fn line(value: &Value) -> String {
    let text = value.to_string();
    if !text.contains(is_escaped) {
        return text;
    }
    let mut plain = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        // These characters occur only in strings.
        if is_escaped(c) {
            let _ = write!(plain, "\\u{:04x}", u32::from(c));
        } else {
            plain.push(c);
        }
    }
    plain
}

/// Returns whether the character is a control character, or is not allowed in YAML strings.
fn is_escaped(c: char) -> bool {
    c.is_control() || matches!(c, '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Returns data with its `encoding`: `utf-8` for text, `base64` for other data or on request, and
/// null for null data.
pub(crate) fn data(data: Option<&[u8]>, wants_base64: bool) -> (Value, Value) {
    let Some(data) = data else {
        return (Value::Null, Value::Null);
    };
    match std::str::from_utf8(data) {
        Ok(text) if !wants_base64 => (json!(text), json!("utf-8")),
        _ => (json!(STANDARD.encode(data)), json!("base64")),
    }
}

/// Returns the fields of a Stat under their printed names.
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

/// Returns an ACL in the format of `export`.
pub(crate) fn acl(acl: &[Acl]) -> Value {
    let entry =
        |acl: &Acl| json!({ "perms": acl.perms, "scheme": &*acl.id.scheme, "id": &*acl.id.id });
    acl.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_cannot_send_terminal_commands_and_round_trips() {
        let value = json!({ "path": "/a\u{9b}2J\u{7f}\n" });
        let line = line(&value);
        assert!(!line.contains(char::is_control), "{line:?}");
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), value);
    }

    #[test]
    fn data_names_its_encoding() {
        assert_eq!(data(None, true), (Value::Null, Value::Null));
        assert_eq!(data(Some(b"a"), false), (json!("a"), json!("utf-8")));
        assert_eq!(data(Some(b"a"), true), (json!("YQ=="), json!("base64")));
        assert_eq!(data(Some(&[0xff]), false), (json!("/w=="), json!("base64")));
    }
}
