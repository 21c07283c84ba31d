//! JAAS files, which contain credentials for incoming and outgoing logins.
//!
//! ```text
//! Server {
//!   org.apache.zookeeper.server.auth.DigestLoginModule required
//!   user_bob="secret"       // a comment; /* another */
//!   user_eve="\"quoted\"";
//! };
//! ```
//!
//! Source: the JDK's sun.security.provider.ConfigFile, java.io.StreamTokenizer and
//! PropertyExpander. This parser accepts the same files, with one exception. It refuses quoted text
//! that does not end on its line. The JDK silently ignores the rest of such a line.

mod scanner;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use proto::Secret;

use super::system_properties::SystemProperties;
use crate::error::ConfigError;
use crate::report::origin::Origin;
use scanner::{Fault, Scanner, Token};

/// Sections of a JAAS file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JaasFile {
    path: PathBuf,
    sections: Vec<Section>,
}

/// Named section of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Name of the section.
    pub name: String,
    /// First line of the section.
    pub line: u32,
    /// Login modules in the order of the file.
    pub modules: Vec<Module>,
}

/// Login module with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// Java class of the module.
    pub class: String,
    /// Line of the class.
    pub line: u32,
    /// Options. The last value of a repeated option takes effect. Each value may be a password.
    pub options: BTreeMap<String, Secret>,
}

/// Flags that are permitted between a class and its options. This server checks them but ignores
/// their meaning.
const FLAGS: [&str; 4] = ["required", "requisite", "sufficient", "optional"];

impl JaasFile {
    /// Parses the text of the file. `${name}` in a value refers to a system property.
    ///
    /// # Errors
    /// If the text is invalid. The error contains the first fault with its line. It quotes only
    /// names from the file, because other text may be a password.
    pub fn parse(
        path: &Path,
        text: &[u8],
        properties: &SystemProperties,
    ) -> Result<Self, ConfigError> {
        let text = String::from_utf8_lossy(text);
        let mut parser = Parser {
            scanner: Scanner::new(&text),
            properties,
        };
        let sections = parser.sections().map_err(|(line, fault)| {
            let origin = Origin::line_of(path, line);
            ConfigError::new(fault.to_string())
                .with_id(crate::report::finding::JAAS)
                .at(Some(&origin))
        })?;
        Ok(Self {
            path: path.to_owned(),
            sections,
        })
    }

    /// Returns the section with this name, unless it is empty.
    pub fn section(&self, name: &str) -> Option<&Section> {
        let mut sections = self.sections.iter();
        sections.find(|section| section.name == name && !section.modules.is_empty())
    }

    /// Returns the names of all sections, for error messages.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.sections.iter().map(|section| section.name.as_str())
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Returns the path in the flag `java.security.auth.login.config`, without Java's second `=` (which
/// excludes all other files) and without the scheme of a `file:` URL.
pub fn path_of(written: &str) -> PathBuf {
    let path = written.strip_prefix('=').unwrap_or(written);
    let path = path
        .strip_prefix("file://")
        .or(path.strip_prefix("file:"))
        .unwrap_or(path);
    Path::new(path).to_owned()
}

struct Parser<'a> {
    scanner: Scanner<'a>,
    properties: &'a SystemProperties,
}

type FaultyLine = (u32, Fault);

impl Parser<'_> {
    fn sections(&mut self) -> Result<Vec<Section>, FaultyLine> {
        let mut sections: Vec<Section> = Vec::new();
        loop {
            let (line, token) = self.scanner.next()?;
            let name = match token {
                Token::End => return Ok(sections),
                Token::Text(name) => name,
                found @ Token::Mark(_) => {
                    return Err((line, Fault::expected("the name of a section", &found)));
                }
            };
            if sections.iter().any(|section| section.name == name) {
                return Err((line, Fault::Twice(name)));
            }
            self.mark('{')?;
            let modules = self.modules()?;
            self.mark(';')?;
            sections.push(Section {
                name,
                line,
                modules,
            });
        }
    }

    /// Reads the modules up to and including the closing brace.
    fn modules(&mut self) -> Result<Vec<Module>, FaultyLine> {
        let mut modules = Vec::new();
        loop {
            let (line, token) = self.scanner.next()?;
            let class = match token {
                Token::Mark('}') => return Ok(modules),
                Token::Text(class) => class,
                found => {
                    return Err((line, Fault::expected("the class of a login module", &found)));
                }
            };
            let (at, flag) = self.scanner.next()?;
            match flag {
                Token::Text(flag)
                    if FLAGS.iter().any(|known| known.eq_ignore_ascii_case(&flag)) => {}
                found => return Err((at, Fault::Flag(found.describe()))),
            }
            let options = self.options()?;
            modules.push(Module {
                class,
                line,
                options,
            });
        }
    }

    /// Reads the options up to and including the semicolon.
    fn options(&mut self) -> Result<BTreeMap<String, Secret>, FaultyLine> {
        let mut options = BTreeMap::new();
        loop {
            let (line, token) = self.scanner.next()?;
            let key = match token {
                Token::Mark(';') => return Ok(options),
                Token::Text(key) => key,
                found => {
                    let fault =
                        Fault::expected("the name of an option, or ; after the last one", &found);
                    return Err((line, fault));
                }
            };
            self.mark('=')?;
            let (line, value) = self.scanner.next()?;
            let Token::Text(value) = value else {
                return Err((line, Fault::expected("the value of the option", &value)));
            };
            let value = expand(&value, self.properties).map_err(|fault| (line, fault))?;
            options.insert(key, Secret::new(value));
        }
    }

    fn mark(&mut self, mark: char) -> Result<(), FaultyLine> {
        match self.scanner.next()? {
            (_, Token::Mark(found)) if found == mark => Ok(()),
            (line, found) => Err((line, Fault::expected(&format!("{mark:?}"), &found))),
        }
    }
}

/// Replaces references to system properties. Source: PropertyExpander.expand.
fn expand(value: &str, properties: &SystemProperties) -> Result<String, Fault> {
    let mut expanded = String::with_capacity(value.len());
    let mut rest = value;
    while let Some((before, behind)) = rest.split_once("${") {
        expanded.push_str(before);
        // Text in double braces stays unchanged, for another expander.
        let is_double = behind.starts_with('{');
        let end = if is_double { "}}" } else { "}" };
        let Some((name, after)) = behind.split_once(end) else {
            expanded.extend(["${", behind]);
            return Ok(expanded);
        };
        rest = after;
        if is_double {
            expanded.extend(["${", name, end]);
            continue;
        }
        match (name, properties.get(name)) {
            ("/", _) => expanded.push('/'),
            (_, Some(property)) => expanded.push_str(property),
            (_, None) => return Err(Fault::Property(name.to_owned())),
        }
    }
    expanded.push_str(rest);
    Ok(expanded)
}

impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.class)
    }
}

#[cfg(test)]
mod tests;
