//! Oracle (`oraclePath`), the tie-breaker of a two-voter ensemble: a file that an administrator's
//! tool writes.
//!
//! Source: QuorumOracleMaj.askOracle.

#![allow(clippy::disallowed_methods, reason = "reads in `blocking::run`")]

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::limits::ORACLE_WAIT;

/// File of the oracle.
#[derive(Debug)]
pub(crate) struct OracleFile {
    path: PathBuf,
    /// Read that was still pending when the last query timed out, because the disk hangs.
    reading: Option<JoinHandle<bool>>,
}

impl OracleFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            reading: None,
        }
    }

    /// Returns whether the oracle permits this server to continue alone. An unreadable file does
    /// not permit it.
    pub(crate) async fn query(&mut self) -> bool {
        let path = self.path.clone();
        let reading = self
            .reading
            .get_or_insert_with(|| blocking::run(move || starts_with_one(path)));
        let Ok(ended) = timeout(ORACLE_WAIT, reading).await else {
            return false;
        };
        self.reading = None;
        ended.unwrap_or(false)
    }
}

fn starts_with_one(path: PathBuf) -> bool {
    blocking::mark("read the file of the oracle");
    let mut first = [0];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut first));
    read.is_ok() && first == *b"1"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_one_at_the_start_grants() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("oracle");
        let mut oracle = OracleFile::new(path.clone());
        assert!(!oracle.query().await, "there is no file");
        for (text, grants) in [
            ("1", true),
            ("0", false),
            ("", false),
            ("1\n", true),
            (" 1", false),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(oracle.query().await, grants, "{text:?}");
        }
    }
}
