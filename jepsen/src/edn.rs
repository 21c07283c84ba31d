//! Histories in Jepsen's format, for Knossos and Elle.
//!
//! ```text
//! {:index 0, :time 1203, :type :invoke, :process 3, :f :cas, :value ["r1" [4 17]]}
//! {:index 5, :time 2000, :type :info, :process :nemesis, :f :kill, :value {"members" [2]}}
//! ```
//!
//! Each line is one map. The value of an event with a key is the pair of key and value, as Jepsen's
//! independent keys have. JSON's null becomes nil, and its texts stay texts.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde_json::Value;

use crate::history::{self, Event, Kind, Process};

/// Writes a history file in this format into another file.
///
/// # Errors
/// If the first file cannot be read, or the second cannot be written.
pub fn convert(history: &Path, to: &Path) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(to)?);
    for event in history::read(history)? {
        write_event(&event?, &mut out)?;
    }
    out.flush()
}

/// Writes one event and the end of its line.
///
/// # Errors
/// If it cannot be written.
pub fn write_event(event: &Event, out: &mut impl Write) -> io::Result<()> {
    let kind = match event.kind {
        Kind::Invoke => "invoke",
        Kind::Ok => "ok",
        Kind::Fail => "fail",
        Kind::Info => "info",
    };
    let mut text = format!(
        "{{:index {}, :time {}, :type :{kind}, :process ",
        event.index, event.time_ns
    );
    match event.process {
        Process::Client(process) => text.push_str(&process.to_string()),
        Process::Other(_) => text.push_str(":nemesis"),
    }
    text.push_str(", :f ");
    put_name(&event.f, &mut text);
    text.push_str(", :value ");
    match &event.key {
        None => put(&event.value, &mut text),
        Some(key) => {
            text.push('[');
            put_text(key, &mut text);
            text.push(' ');
            put(&event.value, &mut text);
            text.push(']');
        }
    }
    if let Some(error) = &event.error {
        text.push_str(", :error ");
        put_text(error, &mut text);
    }
    text.push_str("}\n");
    out.write_all(text.as_bytes())
}

/// Writes a keyword, or a text if the name cannot be a keyword.
fn put_name(name: &str, text: &mut String) {
    let is_letter = |c: char| c.is_ascii_alphabetic();
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_+*!?.".contains(c);
    if name.starts_with(is_letter) && name.chars().all(is_part) {
        text.push(':');
        text.push_str(name);
    } else {
        put_text(name, text);
    }
}

fn put(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("nil"),
        Value::Bool(_) | Value::Number(_) => text.push_str(&value.to_string()),
        Value::String(value) => put_text(value, text),
        Value::Array(values) => {
            text.push('[');
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    text.push(' ');
                }
                put(value, text);
            }
            text.push(']');
        }
        Value::Object(entries) => {
            text.push('{');
            for (at, (key, value)) in entries.iter().enumerate() {
                if at > 0 {
                    text.push_str(", ");
                }
                put_text(key, text);
                text.push(' ');
                put(value, text);
            }
            text.push('}');
        }
    }
}

fn put_text(value: &str, text: &mut String) {
    text.push('"');
    for c in value.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            c if c.is_control() => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Name;
    use serde_json::json;

    fn line(process: Process, f: &str, key: Option<&str>, value: Value) -> String {
        let event = Event {
            index: 7,
            time_ns: 1203,
            process,
            kind: Kind::Info,
            f: f.into(),
            key: key.map(str::to_owned),
            value,
            error: Some("lost: \"it\"\n\u{1}".into()),
        };
        let mut out = Vec::new();
        write_event(&event, &mut out).expect("written");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn an_event_is_a_map_in_a_line() {
        assert_eq!(
            line(Process::Client(3), "cas", Some("r1"), json!([4, null])),
            "{:index 7, :time 1203, :type :info, :process 3, :f :cas, :value [\"r1\" [4 nil]], \
             :error \"lost: \\\"it\\\"\\n\\u0001\"}\n"
        );
    }

    #[test]
    fn the_nemesis_and_odd_names_have_their_forms() {
        let nemesis = Process::Other(Name::Nemesis);
        let text = line(nemesis, "kill it", None, json!({"a": true, "b": 1.5}));
        assert!(text.contains(":process :nemesis, :f \"kill it\""), "{text}");
        assert!(text.contains(":value {\"a\" true, \"b\" 1.5}"), "{text}");
    }
}
