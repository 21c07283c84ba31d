//! Flags of a start: from the environment, from the shell files next to zoo.cfg, and from the
//! command line.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use config::env_file::{self, Variables};
use config::finding::{Finding, Severity};
use config::{Origin, SystemProperties};

use crate::finding;

/// Environment variable with which `zkServer.sh` disables the creation of directories.
const AUTOCREATE_DISABLE: &str = "ZOO_DATADIR_AUTOCREATE_DISABLE";

/// Flags with their origins.
#[derive(Debug)]
pub struct Flags {
    /// System properties that the flags set.
    pub properties: SystemProperties,
    /// Findings about the shell files.
    pub findings: Vec<Finding>,
    /// Places of the flags, so that a finding can name the file and the line.
    places: Vec<Origin>,
}

/// Returns the flags for a start on `config`. `definitions` are the `name=value` arguments of `-D`.
pub fn gather(
    config: &Path,
    definitions: &[String],
    environment: &dyn Fn(&str) -> Option<String>,
) -> Flags {
    let mut variables = Variables::default();
    for name in env_file::FLAG_VARIABLES
        .into_iter()
        .chain([AUTOCREATE_DISABLE])
    {
        if let Some(value) = environment(name) {
            variables.set(name, &value);
        }
    }
    let mut findings = Vec::new();
    let dir = config.parent().unwrap_or(Path::new(""));
    for name in env_file::FILES {
        let path = dir.join(name);
        match read(&path) {
            Ok(Some(text)) => {
                let strange = variables.source(&path, &text);
                findings.extend(strange.into_iter().map(|line| command(&path, line)));
            }
            Ok(None) => {}
            Err(error) => findings.push(
                Finding::new(
                    finding::ENV_FILE,
                    Severity::Warning,
                    format!("the file cannot be read: {error}"),
                )
                .at(Some(Origin::file(&path)))
                .way_out(
                    "make the file readable for the user that starts the server: zkServer.sh reads flags from it",
                ),
            ),
        }
    }
    let places: Vec<Origin> = variables
        .flags()
        .into_iter()
        .map(|(origin, _)| origin)
        .collect();
    if let Some(place) = places
        .iter()
        .find(|place| matches!(place, Origin::File { .. }))
    {
        let problem = "conf/zkServer.sh uses the flags in this file; `zoarium server` does not \
                       read it";
        findings
            .push(Finding::new(finding::ENV_FILE, Severity::Note, problem).at(Some(place.clone())));
    }
    let mut properties = variables.system_properties();
    if variables
        .get(AUTOCREATE_DISABLE)
        .is_some_and(|value| !value.is_empty())
    {
        let origin = variables
            .origin(AUTOCREATE_DISABLE)
            .map_or(String::new(), Origin::to_string);
        properties.define(&origin, "zookeeper.datadir.autocreate=false");
    }
    for definition in definitions {
        properties.define("the command line", definition);
    }
    Flags {
        properties,
        findings,
        places,
    }
}

impl Flags {
    /// Adds the file and line to a finding about a flag from a file.
    pub fn placed(&self, mut finding: Finding) -> Finding {
        if let Some(Origin::Flags(source)) = &finding.origin {
            let place = self
                .places
                .iter()
                .find(|place| place.to_string() == *source);
            finding.origin = place.cloned().or(finding.origin);
        }
        finding
    }
}

fn command(path: &Path, line: u32) -> Finding {
    let problem = "the line contains a command that preflight does not run, so flags that the command sets are unknown";
    Finding::new(finding::ENV_LINE, Severity::Warning, problem)
        .at(Some(Origin::line_of(path, line)))
        .way_out(
            "check the command, and pass the flags that it sets to preflight with -Dname=value",
        )
}

/// Reads a regular file. Returns `None` if the file does not exist.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match path.metadata() {
        Ok(metadata) if !metadata.is_file() => {
            return Err(io::Error::other("the path does not name a file"));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let mut text = Vec::new();
    let limit = env_file::BYTES_MAX as u64;
    File::open(path)?.take(limit + 1).read_to_end(&mut text)?;
    if text.len() > env_file::BYTES_MAX {
        Err(io::Error::other(format!("it has more than {limit} bytes")))
    } else {
        Ok(Some(text))
    }
}
