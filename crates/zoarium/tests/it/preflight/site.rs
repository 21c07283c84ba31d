//! An installation for a test: a zoo.cfg, a data directory of Apache ZooKeeper, and separate
//! addresses.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{output_of, stderr, stdout};

/// Number of sites of this process so far.
static SITES: AtomicU32 = AtomicU32::new(0);

/// Findings that depend on the machine, and not on the prepared files.
const OF_MACHINE: &[&str] = &["clock", "limit-files", "limit-memory"];

/// An installation.
pub(crate) struct Site {
    home: TempDir,
    network: String,
}

/// Output of preflight on a site.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) verdict: String,
    /// Severity, id, file without the site's directory, and line.
    pub(crate) findings: Vec<(String, String, String, Option<u64>)>,
    pub(crate) json: Value,
}

impl Site {
    pub(crate) fn new() -> Self {
        let number = SITES.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        // Each site has a separate part of the loopback network, so that it can use the usual
        // ports.
        let network = format!("127.{}.{}", 10 + number % 200, process % 250 + 1);
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("conf")).unwrap();
        Self { home, network }
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Returns a path in the site.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.path("conf/zoo.cfg")
    }

    /// Replaces `HOME` with the site's directory, and `NET` with the beginning of its addresses.
    pub(crate) fn filled(&self, text: &str) -> String {
        let home = self.home.path().display().to_string();
        text.replace("HOME", &home).replace("NET", &self.network)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, self.filled(text)).unwrap();
    }

    /// Writes a zoo.cfg of a standalone server with these additional lines.
    pub(crate) fn alone(&self, lines: &str) {
        self.write("conf/zoo.cfg", &format!("{ALONE}{lines}"));
    }

    /// Writes a zoo.cfg with these additional lines, and the `myid` of the first of three members.
    pub(crate) fn member(&self, lines: &str) {
        self.write("conf/zoo.cfg", &format!("{MEMBER}{lines}"));
        self.write("data/myid", "1\n");
    }

    /// Copies a recorded directory, because the recordings may be read-only.
    pub(crate) fn copy(&self, from: &Path, name: &str) {
        let to = self.path(name);
        fs::create_dir_all(&to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let (path, file) = (entry.as_ref().unwrap().path(), entry.unwrap().file_name());
            let below = format!("{name}/{}", file.to_str().unwrap());
            if path.is_dir() {
                self.copy(&path, &below);
            } else {
                fs::write(self.path(&below), fs::read(&path).unwrap()).unwrap();
            }
        }
    }

    /// Changes one byte of a file.
    pub(crate) fn flip(&self, name: &str, offset: usize) {
        let mut bytes = fs::read(self.path(name)).unwrap();
        bytes[offset] ^= 0xff;
        fs::write(self.path(name), bytes).unwrap();
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zoarium"));
        command
            .args(words)
            .stdin(Stdio::null())
            .current_dir(self.home.path());
        for name in [
            "SERVER_JVMFLAGS",
            "JVMFLAGS",
            "ZOO_DATADIR_AUTOCREATE_DISABLE",
        ] {
            command.env_remove(name);
        }
        command
    }

    /// Runs `zoarium` with these words.
    pub(crate) fn run(&self, words: &[&str]) -> Output {
        output_of(&mut self.command(words))
    }

    /// Runs `zoarium preflight` on the zoo.cfg, with these additional options.
    pub(crate) fn preflight(&self, options: &[&str]) -> Said {
        let config = self.config();
        let before = self.contents();
        let words = [
            &["preflight", config.to_str().unwrap(), "--output", "json"],
            options,
        ]
        .concat();
        let output = self.run(&words);
        assert_eq!(stderr(&output), "");
        assert!(before == self.contents(), "something was changed on disk");
        Said::of(&output, self.home.path())
    }

    /// Returns all files with their times and bytes.
    pub(crate) fn contents(&self) -> BTreeMap<PathBuf, (std::time::SystemTime, Vec<u8>)> {
        let mut all = BTreeMap::new();
        let mut dirs = vec![self.home.path().to_owned()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(&dir).into_iter().flatten() {
                let path = entry.unwrap().path();
                let Ok(metadata) = path.metadata() else {
                    continue;
                };
                if metadata.is_dir() {
                    all.insert(path.clone(), (metadata.modified().unwrap(), Vec::new()));
                    dirs.push(path);
                } else if metadata.is_file() && metadata.len() < 1 << 20 {
                    let bytes = fs::read(&path).unwrap_or_default();
                    all.insert(path, (metadata.modified().unwrap(), bytes));
                }
            }
        }
        all
    }
}

impl Said {
    pub(crate) fn of(output: &Output, home: &Path) -> Self {
        let text = stdout(output);
        let json: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let home = format!("{}/", home.display());
        let findings = json["findings"].as_array().unwrap().iter().map(|finding| {
            let text = |name: &str| finding[name].as_str().unwrap_or_default().to_owned();
            let file = text("file").replace(&home, "");
            (text("severity"), text("id"), file, finding["line"].as_u64())
        });
        let findings = findings.filter(|(_, id, _, _)| !OF_MACHINE.contains(&id.as_str()));
        Self {
            code: output.status.code(),
            verdict: json["verdict"].as_str().unwrap().to_owned(),
            findings: findings.collect(),
            json,
        }
    }

    /// Returns the findings of a severity, as `id file:line`.
    pub(crate) fn told(&self, wanted: &str) -> Vec<String> {
        let of_it = self
            .findings
            .iter()
            .filter(|(severity, ..)| severity == wanted);
        let shown = of_it.map(|(_, id, file, line)| match line {
            Some(line) => format!("{id} {file}:{line}"),
            None => format!("{id} {file}").trim_end().to_owned(),
        });
        shown.collect()
    }
}

const ALONE: &str =
    "dataDir=HOME/data\nclientPort=2181\nclientPortAddress=NET.1\nadmin.serverAddress=NET.1\n";

const MEMBER: &str = "dataDir=HOME/data\nclientPort=2181\nclientPortAddress=NET.1\nadmin.serverAddress=NET.1\n\
                      initLimit=10\nsyncLimit=5\nserver.1=NET.1:2888:3888\nserver.2=NET.2:2888:3888\n\
                      server.3=NET.3:2888:3888\n";
