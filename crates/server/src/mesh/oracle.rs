//! The tie-breaker of an ensemble of two: a file that an administrator's own tool writes.
//!
//! Source: ensemble-protocol.md 3 (QuorumOracleMaj.askOracle).

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use election::Oracle;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::limits::ORACLE_WAIT;

/// The file, and whether it is asked at all.
#[derive(Debug)]
pub(crate) struct OracleFile {
    path: PathBuf,
    is_needed: bool,
    /// A read that has not come back: the file is on a disk that hangs.
    reading: Option<JoinHandle<bool>>,
}

impl OracleFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            is_needed: true,
            reading: None,
        }
    }

    /// Whether it is asked from now on.
    pub(super) fn set_needed(&mut self, is_needed: bool) {
        self.is_needed = is_needed;
    }

    /// What it says now. A file that cannot be read grants nothing.
    pub(crate) async fn ask(&mut self) -> Oracle {
        let is_needed = self.is_needed;
        let grants = is_needed && self.read().await;
        Oracle { is_needed, grants }
    }

    async fn read(&mut self) -> bool {
        let path = self.path.clone();
        let reading = self
            .reading
            .get_or_insert_with(|| tokio::task::spawn_blocking(move || starts_with_one(path)));
        let Ok(ended) = timeout(ORACLE_WAIT, reading).await else {
            return false;
        };
        self.reading = None;
        ended.unwrap_or(false)
    }
}

fn starts_with_one(path: PathBuf) -> bool {
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
        assert!(!oracle.ask().await.grants, "there is no file");
        for (text, grants) in [
            ("1", true),
            ("0", false),
            ("", false),
            ("1\n", true),
            (" 1", false),
        ] {
            std::fs::write(&path, text).unwrap();
            let is_needed = true;
            assert_eq!(oracle.ask().await, Oracle { is_needed, grants }, "{text:?}");
        }
        std::fs::write(&path, "1").unwrap();
        oracle.set_needed(false);
        let said = oracle.ask().await;
        assert_eq!((said.is_needed, said.grants), (false, false));
    }
}
