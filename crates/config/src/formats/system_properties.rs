//! System properties: `-Dname=value` flags, and the settings of the file that become properties.

use std::collections::BTreeMap;
use std::fmt;

use crate::report::origin::Origin;

/// Named values, as `-D` flags set them for a JVM.
///
/// A later definition replaces an earlier one. Values may be passwords, so `Debug` shows only
/// names.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SystemProperties {
    values: BTreeMap<String, Property>,
    ignored: Vec<(String, String)>,
}

/// Value of a property, and its origin.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Property {
    pub(crate) value: String,
    pub(crate) origin: Option<Origin>,
}

impl SystemProperties {
    /// Creates an empty set of properties.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one `name=value`, the part of a flag after `-D`. Without `=`, the value is empty.
    ///
    /// `source` describes the origin, such as `the command line`.
    pub fn define(&mut self, source: &str, definition: &str) {
        let (name, value) = definition.split_once('=').unwrap_or((definition, ""));
        if name.is_empty() {
            self.ignored
                .push((source.to_owned(), format!("-D{definition}")));
        } else {
            self.set(name, value, Some(Origin::Flags(source.to_owned())));
        }
    }

    /// Adds the `-D` flags among the JVM flags of a variable such as `SERVER_JVMFLAGS`.
    ///
    /// Blanks separate words, and quotes are ordinary characters, because zkServer.sh passes the
    /// variable to the shell unquoted. The script puts `SERVER_JVMFLAGS` before `JVMFLAGS`. Call
    /// this function in the same order, because a later flag takes precedence. Flags other than
    /// `-D` are recorded. A loaded configuration contains one notice about them for each `source`.
    pub fn add_flags(&mut self, source: &str, flags: &str) {
        for word in flags.split_ascii_whitespace() {
            match word.strip_prefix("-D") {
                Some(definition) => self.define(source, definition),
                None => self.ignored.push((source.to_owned(), word.to_owned())),
            }
        }
    }

    /// Returns the value of a property, by its full name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values
            .get(name)
            .map(|property| property.value.as_str())
    }

    /// Returns all names and values, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values
            .iter()
            .map(|(name, property)| (name.as_str(), property.value.as_str()))
    }

    pub(crate) fn set(&mut self, name: &str, value: &str, origin: Option<Origin>) {
        self.values.insert(
            name.to_owned(),
            Property {
                value: value.to_owned(),
                origin,
            },
        );
    }

    pub(crate) fn remove(&mut self, name: &str) -> bool {
        self.values.remove(name).is_some()
    }

    pub(crate) fn property(&self, name: &str) -> Option<&Property> {
        self.values.get(name)
    }

    pub(crate) fn properties(&self) -> impl Iterator<Item = (&str, &Property)> {
        self.values
            .iter()
            .map(|(name, property)| (name.as_str(), property))
    }

    /// Returns the flags that are not definitions, grouped by their origin.
    pub(crate) fn ignored_flags(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut by_source: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (source, flag) in &self.ignored {
            by_source.entry(source).or_default().push(flag);
        }
        by_source
    }
}

impl fmt::Debug for SystemProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_extracted_from_jvm_flags() {
        let mut properties = SystemProperties::new();
        properties.add_flags(
            "SERVER_JVMFLAGS",
            "-Xmx1g  -Dzookeeper.snapCount=5\t-Djute.maxbuffer=9",
        );
        properties.add_flags("JVMFLAGS", "-Dzookeeper.snapCount=7 -Dempty -cp a:b -D=x");
        let all: Vec<_> = properties.iter().collect();
        assert_eq!(
            all,
            [
                ("empty", ""),
                ("jute.maxbuffer", "9"),
                ("zookeeper.snapCount", "7")
            ]
        );
        let ignored = properties.ignored_flags();
        assert_eq!(ignored["SERVER_JVMFLAGS"], ["-Xmx1g"]);
        assert_eq!(ignored["JVMFLAGS"], ["-cp", "a:b", "-D=x"]);
    }

    #[test]
    fn debug_shows_no_values() {
        let mut properties = SystemProperties::new();
        properties.define(
            "the command line",
            "zookeeper.ssl.keyStore.password=hunter2",
        );
        let debug = format!("{properties:?}");
        assert!(
            debug.contains("keyStore") && !debug.contains("hunter2"),
            "{debug}"
        );
    }
}
