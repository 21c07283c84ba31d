//! Copies of the recorded directories, and servers that open them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::{Config, NoSurroundings, RawConfig, SystemProperties};
use serde_json::Value;
use storage::{DataDirs, StorageError};
use tempfile::TempDir;
use zoarium_server::{RecoveredTree, Server, StartError, recover_tree};

/// Reading must not change the data, as in the recordings: container and TTL znodes are not deleted
/// meanwhile.
const FLAGS: &str = "znode.container.checkIntervalMs=86400000";

/// Returns all recordings, if they are available.
pub(crate) fn vectors() -> Option<Vector> {
    let dir = testkit::recordings::find("vectors/storage")?;
    let expected = Value::Null;
    Some(Vector { dir, expected })
}

/// Returns a recorded vector by name.
pub(crate) fn vector(name: &str) -> Option<Vector> {
    let dir = vectors()?.dir.join(name);
    let text = fs::read_to_string(dir.join("expected.json")).unwrap();
    let expected = serde_json::from_str(&text).unwrap();
    Some(Vector { dir, expected })
}

pub(crate) struct Vector {
    pub(crate) dir: PathBuf,
    pub(crate) expected: Value,
}

impl Vector {
    /// Returns a copy of `<vector>/<sub>` that a server may open.
    pub(crate) fn copy(&self, sub: &str) -> Directory {
        let directory = Directory::empty();
        copy_into(&self.dir.join(sub), directory.data());
        directory
    }
}

/// A data directory of one test.
pub(crate) struct Directory {
    home: TempDir,
    lines: String,
}

impl Directory {
    pub(crate) fn empty() -> Self {
        Self {
            home: tempfile::tempdir().unwrap(),
            lines: "extendedTypesEnabled=true\n".to_owned(),
        }
    }

    pub(crate) fn data(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.data().join("version-2").join(name)
    }

    /// Returns the sorted files of `version-2`.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.data().join("version-2")).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Replaces the settings with these lines of zoo.cfg.
    pub(crate) fn with(mut self, lines: &str) -> Self {
        lines.clone_into(&mut self.lines);
        self
    }

    pub(crate) fn config(&self) -> Config {
        let data = self.data().display();
        let text = format!(
            "dataDir={data}\nadmin.enableServer=false\npreAllocSize=64\n{}",
            self.lines
        );
        let raw = RawConfig::parse(Path::new("zoo.cfg"), text.as_bytes()).unwrap();
        let mut flags = SystemProperties::new();
        flags.define("the test", FLAGS);
        Config::parse(raw, flags, &mut NoSurroundings).unwrap()
    }

    /// Recovers the tree with which a server would start.
    pub(crate) fn recover(&self) -> Result<RecoveredTree, StorageError> {
        let config = self.config();
        let dirs = DataDirs::unlocked(&config.data_dir, &config.data_log_dir);
        recover_tree(&config, &dirs)
    }

    /// Starts a server here and stops it. After this, the server has written the snapshot of its
    /// start.
    pub(crate) fn serve(&self) -> Result<zoarium_server::Started, StartError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let server = Server::start(Arc::new(self.config())).await?;
            let started = server.started().clone();
            server.stop().await;
            Ok(started)
        })
    }
}

pub(crate) fn copy_into(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_into(&entry.path(), &target);
        } else {
            // Not fs::copy, because the recordings may be read-only.
            fs::write(target, fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}

/// Parses a number in the form `"0x..."` or decimal.
pub(crate) fn number(value: &Value) -> i64 {
    match value {
        Value::String(text) => hex(text),
        other => other.as_i64().unwrap(),
    }
}

/// Parses a number in the form `0x...`.
pub(crate) fn hex(text: &str) -> i64 {
    let digits = text.strip_prefix("0x").unwrap();
    u64::from_str_radix(digits, 16).unwrap().cast_signed()
}

/// Parses bytes in hexadecimal.
pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks_exact(2);
    digits
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}
