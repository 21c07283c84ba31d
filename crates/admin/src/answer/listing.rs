//! Answers that are written part by part, because their size depends on the resources of clients.

use std::collections::VecDeque;
use std::fmt;

use metrics::view::AdminView;

use super::json::{Json, Object, quote};

/// Size in bytes after which a part ends.
const PART_BYTES: usize = 64 << 10;

/// Answer that is written part by part. Its JSON has the layout of [`Object::print`].
#[derive(Debug)]
pub(crate) struct Listing {
    fields: VecDeque<(String, Field)>,
    position: Position,
}

/// Function that returns the next groups of values, each with its key, or `None` after the last.
/// Successive groups with the same key form one group. An array consists of groups with an empty
/// key.
type Groups = dyn FnMut(&dyn AdminView) -> Option<Vec<(String, Vec<Json>)>> + Send;

enum Field {
    Value(Json),
    Map(Box<Groups>),
    Array(Box<Groups>),
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => value.fmt(f),
            Self::Map(_) => f.write_str("Map"),
            Self::Array(_) => f.write_str("Array"),
        }
    }
}

/// Position of the writer.
#[derive(Debug, Default)]
struct Position {
    has_field: bool,
    /// Whether the first of the remaining fields has been started.
    is_in_field: bool,
    /// Key of the current group.
    key: Option<String>,
    has_value: bool,
    is_complete: bool,
}

impl Listing {
    /// Creates a listing that starts with the fields of an object.
    pub(crate) fn new(fields: Object) -> Self {
        let fields = fields.into_fields();
        Self {
            fields: fields
                .map(|(key, value)| (key, Field::Value(value)))
                .collect(),
            position: Position::default(),
        }
    }

    /// Appends a value.
    #[must_use]
    pub(crate) fn with(self, key: &str, value: impl Into<Json>) -> Self {
        self.and(key, Field::Value(value.into()))
    }

    /// Appends an object with an array for each key.
    #[must_use]
    pub(crate) fn with_map(
        self,
        key: &str,
        groups: impl FnMut(&dyn AdminView) -> Option<Vec<(String, Vec<Json>)>> + Send + 'static,
    ) -> Self {
        self.and(key, Field::Map(Box::new(groups)))
    }

    /// Appends an array.
    #[must_use]
    pub(crate) fn with_array(
        self,
        key: &str,
        mut values: impl FnMut(&dyn AdminView) -> Option<Vec<Json>> + Send + 'static,
    ) -> Self {
        let group = move |view: &dyn AdminView| Some(vec![(String::new(), values(view)?)]);
        self.and(key, Field::Array(Box::new(group)))
    }

    fn and(mut self, key: &str, field: Field) -> Self {
        self.fields.push_back((key.to_owned(), field));
        self
    }

    /// Returns the next part of the JSON text, or `None` after the last part.
    pub(crate) fn next_part(&mut self, view: &dyn AdminView) -> Option<String> {
        if self.position.is_complete {
            return None;
        }
        let mut out = String::new();
        while out.len() < PART_BYTES && !self.position.is_complete {
            self.write_more(view, &mut out);
        }
        Some(out)
    }

    /// Returns whether the last part has been written.
    pub(crate) fn is_complete(&self) -> bool {
        self.position.is_complete
    }

    fn write_more(&mut self, view: &dyn AdminView, out: &mut String) {
        let position = &mut self.position;
        let Some((key, field)) = self.fields.front_mut() else {
            out.push_str(if position.has_field { "\n}" } else { "{ }" });
            position.is_complete = true;
            return;
        };
        if !position.is_in_field {
            out.push_str(if position.has_field { ",\n  " } else { "{\n  " });
            quote(key, out);
            out.push_str(" : ");
            out.push_str(match field {
                Field::Value(_) => "",
                Field::Map(_) => "{",
                Field::Array(_) => "[",
            });
            position.has_field = true;
            position.is_in_field = true;
        }
        let groups = match field {
            Field::Value(value) => {
                value.write(1, out);
                None
            }
            Field::Map(groups) => match groups(view) {
                None => {
                    out.push_str(if position.key.is_some() {
                        " ]\n  }"
                    } else {
                        " }"
                    });
                    None
                }
                groups => groups,
            },
            Field::Array(groups) => match groups(view) {
                None => {
                    out.push_str(" ]");
                    None
                }
                groups => {
                    // The bracket of the array is already open.
                    position.key.get_or_insert_default();
                    groups
                }
            },
        };
        match groups {
            Some(groups) => groups
                .into_iter()
                .for_each(|(key, values)| position.write_group(key, &values, out)),
            None => {
                self.fields.pop_front();
                position.is_in_field = false;
                position.key = None;
                position.has_value = false;
            }
        }
    }
}

impl Position {
    fn write_group(&mut self, key: String, values: &[Json], out: &mut String) {
        if self.key.as_ref() != Some(&key) {
            out.push_str(if self.key.is_some() {
                " ],\n    "
            } else {
                "\n    "
            });
            quote(&key, out);
            out.push_str(" : [");
            self.key = Some(key);
            self.has_value = false;
        }
        for value in values {
            out.push_str(if self.has_value { ", " } else { " " });
            // An object in an array has the depth of the array.
            value.write(1, out);
            self.has_value = true;
        }
    }
}
