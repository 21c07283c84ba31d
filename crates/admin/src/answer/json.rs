//! JSON in the layout of Java's answers: keys in insertion order, ` : ` after a key, arrays on one
//! line. Source: Jackson's DefaultPrettyPrinter.

use std::fmt::Write;

use metrics::{Decimal, Number};

/// JSON value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    /// JSON `null`.
    Null,
    /// Boolean.
    Bool(bool),
    /// Number.
    Number(Number),
    /// String.
    Text(String),
    /// Array: values in order.
    Array(Vec<Json>),
    /// Object: values by name.
    Object(Object),
}

/// JSON object. Its values are in insertion order.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Object(Vec<(String, Json)>);

impl Object {
    /// Creates an empty object.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Appends a value and returns the object.
    #[must_use]
    pub(crate) fn with(mut self, key: impl Into<String>, value: impl Into<Json>) -> Self {
        self.put(key, value);
        self
    }

    /// Appends a value.
    pub(crate) fn put(&mut self, key: impl Into<String>, value: impl Into<Json>) {
        self.0.push((key.into(), value.into()));
    }

    /// Returns the value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Json> {
        let found = self.0.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value)
    }

    pub(super) fn into_fields(self) -> impl Iterator<Item = (String, Json)> {
        self.0.into_iter()
    }

    /// Formats the object as text.
    pub(crate) fn print(&self) -> String {
        let mut out = String::new();
        self.write(1, &mut out);
        out
    }

    fn write(&self, depth: usize, out: &mut String) {
        out.push('{');
        for (index, (key, value)) in self.0.iter().enumerate() {
            out.push_str(if index == 0 { "\n" } else { ",\n" });
            out.extend(std::iter::repeat_n("  ", depth));
            quote(key, out);
            out.push_str(" : ");
            value.write(depth, out);
        }
        if self.0.is_empty() {
            out.push(' ');
        } else {
            out.push('\n');
            out.extend(std::iter::repeat_n("  ", depth - 1));
        }
        out.push('}');
    }
}

impl<K: Into<String>, V: Into<Json>> FromIterator<(K, V)> for Object {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(values: I) -> Self {
        let values = values.into_iter();
        Self(
            values
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
        )
    }
}

impl Json {
    /// Writes the value. `depth` is the depth of the object that contains it.
    pub(super) fn write(&self, depth: usize, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            // Writing to a `String` cannot fail.
            Self::Number(number) => {
                let _ = write!(out, "{number}");
            }
            Self::Text(text) => quote(text, out),
            Self::Array(values) => {
                out.push('[');
                for (index, value) in values.iter().enumerate() {
                    out.push_str(if index == 0 { " " } else { ", " });
                    value.write(depth, out);
                }
                out.push_str(" ]");
            }
            Self::Object(object) => object.write(depth + 1, out),
        }
    }
}

/// Writes a quoted string. Escapes control characters, because the name of a znode may contain
/// them.
pub(super) fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

impl From<Number> for Json {
    fn from(number: Number) -> Self {
        Self::Number(number)
    }
}

macro_rules! from_numbers {
    ($($kind:ty),+) => {
        $(impl From<$kind> for Json {
            fn from(number: $kind) -> Self {
                Self::Number(number.into())
            }
        })+
    };
}

from_numbers!(i64, u64, f64, Decimal);

impl From<i32> for Json {
    fn from(number: i32) -> Self {
        Self::Number(i64::from(number).into())
    }
}

impl From<u16> for Json {
    fn from(number: u16) -> Self {
        Self::Number(i64::from(number).into())
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Object> for Json {
    fn from(object: Object) -> Self {
        Self::Object(object)
    }
}

impl<V: Into<Json>> From<Vec<V>> for Json {
    fn from(values: Vec<V>) -> Self {
        Self::Array(values.into_iter().map(Into::into).collect())
    }
}

impl<V: Into<Json>> From<Option<V>> for Json {
    fn from(value: Option<V>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_that_of_recorded_answers() {
        let connection = Object::new()
            .with("remote_socket_address", "127.0.0.1:48800")
            .with("interest_ops", 1i64);
        let answer = Object::new()
            .with("connections", vec![connection])
            .with("secure_connections", Vec::<Json>::new())
            .with("sets", Object::new().with("7", vec![1i64, 2]))
            .with("none", Object::new())
            .with("error", Json::Null);
        assert_eq!(
            answer.print(),
            "{\n  \"connections\" : [ {\n    \"remote_socket_address\" : \"127.0.0.1:48800\",\n    \
             \"interest_ops\" : 1\n  } ],\n  \"secure_connections\" : [ ],\n  \"sets\" : {\n    \
             \"7\" : [ 1, 2 ]\n  },\n  \"none\" : { },\n  \"error\" : null\n}"
        );
    }

    #[test]
    fn hostile_text_stays_text() {
        let object = Object::new().with("a\"\u{1b}[2J\n", "\u{0}\u{7f}<script>\\");
        assert_eq!(
            object.print(),
            "{\n  \"a\\\"\\u001B[2J\\n\" : \"\\u0000\\u007F<script>\\\\\"\n}"
        );
    }
}
