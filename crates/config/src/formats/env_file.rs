//! Shell files `java.env` and `zookeeper-env.sh`, located next to zoo.cfg. They set the flags of a
//! JVM.
//!
//! `zkServer.sh` sources the files. This module does not execute anything. It reads assignments
//! with quotes and with previously assigned variables. It reports every other line, so that an
//! operator can check it.
//!
//! Source: zkEnv.sh, which sources `zookeeper-env.sh` and then `java.env`.

use std::collections::BTreeMap;
use std::path::Path;

use super::system_properties::SystemProperties;
use crate::report::origin::Origin;

/// Names of the files, in the order in which they are sourced.
pub const FILES: [&str; 2] = ["zookeeper-env.sh", "java.env"];

/// Variables with `-D` flags. The flags of `JVMFLAGS` take precedence.
pub const FLAG_VARIABLES: [&str; 2] = ["SERVER_JVMFLAGS", "JVMFLAGS"];

/// Size in bytes above which a file is refused.
pub const BYTES_MAX: usize = 1 << 20;

/// Size limit of a value in bytes. Assignments such as `A=$A$A` let a value grow exponentially.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// Part of a value, and the place where it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    text: String,
    origin: Origin,
}

/// Shell variables. Some contain passwords, so `Debug` shows only their names.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables {
    values: BTreeMap<String, Vec<Piece>>,
}

impl std::fmt::Debug for Variables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

impl Variables {
    /// Sets a variable from the environment.
    pub fn set(&mut self, name: &str, value: &str) {
        let piece = Piece {
            text: value.to_owned(),
            origin: Origin::Flags(name.to_owned()),
        };
        self.values.insert(name.to_owned(), vec![piece]);
    }

    /// Applies the assignments of a file. Returns the numbers of lines that contain anything else,
    /// except comments.
    pub fn source(&mut self, path: &Path, text: &[u8]) -> Vec<u32> {
        let text = String::from_utf8_lossy(text);
        let mut strange = Vec::new();
        let mut lines = text.lines().zip(1..);
        while let Some((line, number)) = lines.next() {
            let mut logical = line.to_owned();
            // A line with an open quote or a backslash at its end continues on the next line.
            while is_open(&logical) {
                let Some((next, _)) = lines.next() else { break };
                if !strip_continuation(&mut logical) {
                    logical.push(' ');
                }
                logical.push_str(next);
            }
            if self
                .take(&logical, &Origin::line_of(path, number))
                .is_none()
            {
                strange.push(number);
            }
        }
        strange
    }

    /// Returns the value of a variable.
    pub fn get(&self, name: &str) -> Option<String> {
        let pieces = self.values.get(name)?;
        Some(pieces.iter().map(|piece| piece.text.as_str()).collect())
    }

    /// Returns the place where the last part of a variable was written.
    pub fn origin(&self, name: &str) -> Option<&Origin> {
        Some(&self.values.get(name)?.last()?.origin)
    }

    /// Returns the JVM flags in [`FLAG_VARIABLES`], each with the place where it was written.
    pub fn flags(&self) -> Vec<(Origin, String)> {
        let mut flags = Vec::new();
        for pieces in FLAG_VARIABLES
            .iter()
            .filter_map(|name| self.values.get(*name))
        {
            let mut word: Option<(Origin, String)> = None;
            for piece in pieces {
                for character in piece.text.chars() {
                    match (character.is_ascii_whitespace(), &mut word) {
                        (true, _) => flags.extend(word.take()),
                        (false, Some((_, text))) => text.push(character),
                        (false, None) => word = Some((piece.origin.clone(), character.into())),
                    }
                }
            }
            flags.extend(word);
        }
        flags
    }

    /// Returns the flags as system properties of a server.
    pub fn system_properties(&self) -> SystemProperties {
        let mut properties = SystemProperties::new();
        for (origin, flag) in self.flags() {
            properties.add_flags(&origin.to_string(), &flag);
        }
        properties
    }

    /// Applies a line. Returns `None` if it contains more than assignments.
    fn take(&mut self, line: &str, origin: &Origin) -> Option<()> {
        let mut rest = line.trim_start();
        rest = rest.strip_prefix("export ").unwrap_or(rest);
        loop {
            rest = rest.trim_start_matches([' ', '\t', ';', '\r']);
            if rest.is_empty() || rest.starts_with('#') {
                return Some(());
            }
            let end = rest.find(|c: char| !is_of_name(c)).unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
                return None;
            }
            let Some(value) = after.strip_prefix('=') else {
                // `export NAME` of a variable that was assigned before.
                let is_exported = line.trim_start().starts_with("export ");
                let is_whole = after.trim_start_matches([' ', '\t', ';']).is_empty();
                return (is_exported && is_whole).then_some(());
            };
            let (pieces, left) = self.word(value, origin)?;
            self.values.insert(name.to_owned(), pieces);
            rest = left;
        }
    }

    /// Reads a word with quotes and variables, and returns it with the text after it. Returns
    /// `None` if the word contains a command or an open quote, or becomes too long.
    fn word<'a>(&self, text: &'a str, origin: &Origin) -> Option<(Vec<Piece>, &'a str)> {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut literal = String::new();
        let mut quote: Option<char> = None;
        let mut rest = text;
        while let Some((character, after)) = split_first(rest) {
            match (quote, character) {
                (Some(open), _) if character == open => quote = None,
                (Some('\''), _) => literal.push(character),
                (None, '\'' | '"') => quote = Some(character),
                (None, ' ' | '\t' | ';' | '\r') => break,
                (None, '&' | '|' | '<' | '>' | '(' | ')') | (_, '`') => return None,
                (_, '\\') => {
                    let (next, after) = split_first(after)?;
                    literal.push(next);
                    rest = after;
                    continue;
                }
                (_, '$') => {
                    let (found, left) = self.variable(after, origin)?;
                    flush(&mut literal, &mut pieces, origin);
                    pieces.extend(found);
                    let length: usize = pieces.iter().map(|piece| piece.text.len()).sum();
                    if length > VALUE_BYTES_MAX {
                        return None;
                    }
                    rest = left;
                    continue;
                }
                _ => literal.push(character),
            }
            rest = after;
        }
        flush(&mut literal, &mut pieces, origin);
        quote.is_none().then_some((pieces, rest))
    }

    /// Reads the text after a `$`: `NAME`, `{NAME}` or `{NAME:-text}`.
    fn variable<'a>(&self, text: &'a str, origin: &Origin) -> Option<(Vec<Piece>, &'a str)> {
        let (name, default, rest) = match text.strip_prefix('{') {
            Some(inside) => {
                let (inside, rest) = inside.split_once('}')?;
                match inside.split_once(":-") {
                    Some((name, default)) => (name, default, rest),
                    None => (inside, "", rest),
                }
            }
            None => {
                let end = text.find(|c: char| !is_of_name(c)).unwrap_or(text.len());
                let (name, rest) = text.split_at(end);
                (name, "", rest)
            }
        };
        if name.is_empty() || !name.chars().all(is_of_name) || default.contains(['$', '`']) {
            return None;
        }
        let known = self.values.get(name).filter(|pieces| {
            let is_empty = pieces.iter().all(|piece| piece.text.is_empty());
            !is_empty
        });
        let pieces = known.cloned().unwrap_or_else(|| {
            let mut pieces = Vec::new();
            flush(&mut default.to_owned(), &mut pieces, origin);
            pieces
        });
        Some((pieces, rest))
    }
}

fn split_first(text: &str) -> Option<(char, &str)> {
    let mut characters = text.chars();
    Some((characters.next()?, characters.as_str()))
}

fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

fn flush(literal: &mut String, pieces: &mut Vec<Piece>, origin: &Origin) {
    if !literal.is_empty() {
        pieces.push(Piece {
            text: std::mem::take(literal),
            origin: origin.clone(),
        });
    }
}

/// Returns whether a line continues on the next line.
fn is_open(line: &str) -> bool {
    if line.trim_start().starts_with('#') {
        return false;
    }
    let mut quote: Option<char> = None;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (None | Some('"'), '\\') => {
                let Some(_) = characters.next() else {
                    return true;
                };
            }
            (Some(open), _) if open == character => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None, '#') => return false,
            _ => {}
        }
    }
    quote.is_some()
}

/// Removes an unescaped backslash at the end. Returns whether there was one.
fn strip_continuation(line: &mut String) -> bool {
    let backslashes = line.chars().rev().take_while(|c| *c == '\\').count();
    if backslashes % 2 == 1 {
        line.pop();
        return true;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sourced(text: &str) -> (Variables, Vec<u32>) {
        let mut variables = Variables::default();
        let strange = variables.source(Path::new("java.env"), text.as_bytes());
        (variables, strange)
    }

    fn flags(text: &str) -> Vec<String> {
        let (variables, strange) = sourced(text);
        assert!(strange.is_empty(), "{strange:?}");
        let shown = |(origin, flag)| format!("{origin} {flag}");
        variables.flags().into_iter().map(shown).collect()
    }

    #[test]
    fn assignments_are_read_with_quotes_and_earlier_variables() {
        let text = "# heap\nexport JVMFLAGS=\"-Xmx2g -Da=1\"\nOTHER='-Db=$x'\n\
                    JVMFLAGS=\"$JVMFLAGS ${OTHER} -Dc=3\" # all\n";
        assert_eq!(
            flags(text),
            [
                "java.env:2 -Xmx2g",
                "java.env:2 -Da=1",
                "java.env:3 -Db=$x",
                "java.env:4 -Dc=3"
            ]
        );
    }

    #[test]
    fn values_may_span_lines() {
        let text = "JVMFLAGS=\"-Da=1 \\\n  -Db=2\n-Dc=3\"\nSERVER_JVMFLAGS=-Xms1g\\ -Dd=4\n";
        assert_eq!(
            flags(text),
            [
                "java.env:4 -Xms1g",
                "java.env:4 -Dd=4",
                "java.env:1 -Da=1",
                "java.env:1 -Db=2",
                "java.env:1 -Dc=3"
            ]
        );
    }

    #[test]
    fn the_environment_comes_first() {
        let mut variables = Variables::default();
        variables.set("JVMFLAGS", "-Da=1");
        let text = b"export JVMFLAGS=\"${JVMFLAGS} -Db=${NONE:-2}\"";
        assert!(variables.source(Path::new("e"), text).is_empty());
        let flags = variables.flags();
        let shown: Vec<_> = flags.iter().map(|(o, f)| format!("{o} {f}")).collect();
        assert_eq!(shown, ["JVMFLAGS -Da=1", "e:1 -Db=2"]);
        assert_eq!(variables.system_properties().get("b"), Some("2"));
    }

    #[test]
    fn shell_commands_are_reported_and_not_executed() {
        let text =
            "if [ -f x ]; then\nJVMFLAGS=$(cat x)\nA=1\nB=`date`\nfi\nA=2 && C=3\nexport A\n";
        let (variables, strange) = sourced(text);
        assert_eq!(strange, [1, 2, 4, 5, 6]);
        assert_eq!(variables.get("A").as_deref(), Some("2"));
        assert_eq!(
            (variables.get("JVMFLAGS"), variables.get("B")),
            (None, None)
        );
    }

    #[test]
    fn no_text_causes_a_panic_or_unbounded_growth() {
        for text in [
            "\"",
            "A=\"",
            "A=\\",
            "A=${",
            "A=$",
            "=",
            "\u{fffd}=1",
            "A='\n\n",
        ] {
            sourced(text);
        }
        let doubled = format!("A=xxxxxxxx\n{}", "A=$A$A\n".repeat(60));
        let (variables, strange) = sourced(&doubled);
        assert!(!strange.is_empty());
        assert!(variables.get("A").unwrap().len() <= VALUE_BYTES_MAX);
    }
}
