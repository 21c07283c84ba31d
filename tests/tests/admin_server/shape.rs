//! The compared properties of JSON: names, their order, and types.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A value without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shape {
    Null,
    Bool,
    Integer,
    Decimal,
    Text,
    Array(Vec<Shape>),
    Object(Vec<(String, Shape)>),
}

impl Shape {
    pub(crate) fn parse(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    pub(crate) fn object(&self) -> &[(String, Shape)] {
        match self {
            Self::Object(fields) => fields,
            other => panic!("no object: {other:?}"),
        }
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.object()
            .iter()
            .map(|(name, _)| name.as_str())
            .collect()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Shape> {
        let found = self.object().iter().find(|(field, _)| field == name);
        found.map(|(_, shape)| shape)
    }

    /// Panics unless this shape matches `expected`: the same names in the same order with the same
    /// types. `is_loose` returns whether the object at a path has names from the JVM, in its order.
    /// `is_map` returns whether its names are data (sessions, paths).
    pub(crate) fn check(&self, expected: &Self, path: &str) {
        match (self, expected) {
            (Self::Object(ours), Self::Object(theirs)) if is_map(path) => {
                if let (Some((_, ours)), Some((_, theirs))) = (ours.first(), theirs.first()) {
                    ours.check(theirs, path);
                }
                assert_eq!(ours.is_empty(), theirs.is_empty(), "{path}");
            }
            (Self::Object(_), Self::Object(theirs)) => {
                let (mut own, mut names) = (self.names(), expected.names());
                if is_loose(path) {
                    own.sort_unstable();
                    names.sort_unstable();
                }
                assert_eq!(own, names, "{path}");
                for (name, theirs) in theirs {
                    let ours = self.get(name).expect("the same names");
                    ours.check(theirs, &format!("{path}/{name}"));
                }
            }
            (Self::Array(ours), Self::Array(theirs)) => {
                let both = ours.first().zip(theirs.first());
                if let Some((ours, theirs)) = both {
                    ours.check(theirs, path);
                }
            }
            (ours, theirs) => assert_eq!(ours, theirs, "{path}"),
        }
    }
}

/// Returns whether the order of an object's names does not matter. Jackson takes it from the JVM:
/// the recorded standalone server, read-only server and members differ in it.
fn is_loose(path: &str) -> bool {
    path.ends_with("/server_stats") || path.ends_with("_address")
}

fn is_map(path: &str) -> bool {
    ["_session_ids", "_paths"]
        .iter()
        .any(|end| path.ends_with(end))
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShapeVisitor)
    }
}

struct ShapeVisitor;

impl<'de> Visitor<'de> for ShapeVisitor {
    type Value = Shape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Shape, E> {
        Ok(Shape::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Shape, E> {
        Ok(Shape::Bool)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Shape, E> {
        Ok(Shape::Integer)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Shape, E> {
        Ok(Shape::Integer)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Shape, E> {
        Ok(Shape::Decimal)
    }

    fn visit_str<E>(self, _: &str) -> Result<Shape, E> {
        Ok(Shape::Text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Shape, A::Error> {
        let mut shapes = Vec::new();
        while let Some(shape) = values.next_element()? {
            shapes.push(shape);
        }
        Ok(Shape::Array(shapes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Shape, A::Error> {
        let mut shapes = Vec::new();
        while let Some(field) = fields.next_entry()? {
            shapes.push(field);
        }
        Ok(Shape::Object(shapes))
    }
}
