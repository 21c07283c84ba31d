//! Bytes that change on a disk.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use serde_json::json;

use super::{Facts, Nemesis, facts};
use crate::cluster::{Cluster, ClusterError};

/// Number of bytes that are changed in one file.
const BYTES: std::ops::RangeInclusive<usize> = 1..=8;

/// One member stops, an older file of it is corrupted, and it starts again if it can. The original
/// bytes are restored at the end, as from an operator's backup. Then a server that refused to start
/// can start.
///
/// A member with corrupt files does not vote until a leader has brought it up to date. If there
/// would be no quorum without it, as with two voters after a reconfiguration, nothing is corrupted:
/// this case needs an operator.
#[derive(Debug, Default)]
pub(super) struct Rot(Option<Rotten>);

#[derive(Debug)]
struct Rotten {
    id: u64,
    path: PathBuf,
    /// Positions, with the original bytes.
    before: Vec<(u64, u8)>,
}

impl Nemesis for Rot {
    fn begin(
        &mut self,
        cluster: &mut Cluster,
        rng: &mut Rng,
    ) -> Result<Option<Facts>, ClusterError> {
        let failed = |error: io::Error| {
            ClusterError::Change(format!("cannot change bytes of a file: {error}"))
        };
        let dirs: Vec<_> = cluster
            .ids()
            .into_iter()
            .map(|id| (id, cluster.data_dir(id)))
            .collect();
        let voters = voters_in_force(dirs.iter().map(|(_, dir)| dir.as_path())).map_err(failed)?;
        let voters = voters.unwrap_or_else(|| cluster.voters());
        let untrusted = dirs.iter().filter(|(_, dir)| dir.join(UNTRUSTED).exists());
        let untrusted: Vec<u64> = untrusted.map(|(id, _)| *id).collect();
        let mut candidates = cluster.up();
        candidates.retain(|id| leaves_a_quorum(&voters, &untrusted, *id));
        let Some(id) = rng.choice(candidates) else {
            return Ok(None);
        };
        let files = past(&cluster.data_dir(id).join("version-2")).map_err(failed)?;
        let Some(path) = rng.choice(files) else {
            return Ok(None);
        };
        cluster.kill_member(id);
        let before = flip(&path, rng);
        cluster.start_member(id);
        let before = before.map_err(failed)?;
        let event = facts([
            ("members", json!([id])),
            (
                "file",
                json!(path.file_name().map(|name| name.to_string_lossy())),
            ),
            (
                "positions",
                json!(before.iter().map(|(at, _)| at).collect::<Vec<_>>()),
            ),
        ]);
        self.0 = Some(Rotten { id, path, before });
        Ok(Some(event))
    }

    fn end(&mut self, cluster: &mut Cluster) -> Result<Facts, ClusterError> {
        let Some(Rotten { id, path, before }) = self.0.take() else {
            return Ok(Facts::new());
        };
        cluster.kill_member(id);
        // The server may have moved or deleted the file.
        let restored = restore(&path, &before).is_ok();
        cluster.start_member(id);
        Ok(facts([
            ("members", json!([id])),
            ("restored", json!(restored)),
        ]))
    }
}

/// File in the directory of a member without a vote.
const UNTRUSTED: &str = "version-2/zoarium.untrusted";

/// Returns whether enough voters have their data if this member also loses its own.
fn leaves_a_quorum(voters: &[u64], untrusted: &[u64], id: u64) -> bool {
    let whole = voters
        .iter()
        .filter(|voter| **voter != id && !untrusted.contains(voter));
    !voters.contains(&id) || 2 * whole.count() > voters.len()
}

/// Returns the voters of the latest list that a member has next to its data directory, or `None` if
/// no list was ever changed.
fn voters_in_force<'a>(data_dirs: impl Iterator<Item = &'a Path>) -> io::Result<Option<Vec<u64>>> {
    let mut latest: Option<(u64, PathBuf)> = None;
    for dir in data_dirs {
        let home = dir.parent().unwrap_or(dir);
        for entry in fs::read_dir(home)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let version = name.strip_prefix("zoo.cfg.dynamic.");
            let version = version.and_then(|version| u64::from_str_radix(version, 16).ok());
            if let Some(version) = version
                && latest.as_ref().is_none_or(|(last, _)| version > *last)
            {
                latest = Some((version, path));
            }
        }
    }
    let Some((_, path)) = latest else {
        return Ok(None);
    };
    let text = fs::read_to_string(path)?;
    let servers = text.lines().filter_map(|line| line.strip_prefix("server."));
    let voters = servers.filter(|server| !server.contains(":observer"));
    let ids = voters.filter_map(|server| server.split_once('=')?.0.parse().ok());
    Ok(Some(ids.collect()))
}

/// Returns the logs and snapshots, except the newest of each. Their loss would lose acknowledged
/// transactions.
fn past(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for prefix in ["log.", "snapshot."] {
        let mut files = Vec::new();
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let number = name.strip_prefix(prefix);
            let zxid = number.and_then(|number| u64::from_str_radix(number, 16).ok());
            files.extend(zxid.map(|zxid| (zxid, path.clone())));
        }
        files.sort_unstable();
        files.pop();
        found.extend(files.into_iter().map(|(_, path)| path));
    }
    Ok(found)
}

fn flip(path: &Path, rng: &mut Rng) -> io::Result<Vec<(u64, u8)>> {
    let bytes = fs::read(path)?;
    // After its last record, a log is padded.
    let used = bytes
        .iter()
        .rposition(|&byte| byte != 0)
        .map_or(0, |last| last + 1);
    let file = File::options().write(true).open(path)?;
    let mut before = Vec::new();
    for _ in 0..rng.usize(BYTES).min(used) {
        let at = rng.usize(..used);
        if before.iter().any(|&(other, _)| other == at as u64) {
            continue;
        }
        before.push((at as u64, bytes[at]));
        file.write_all_at(&[bytes[at] ^ rng.u8(1..)], at as u64)?;
    }
    Ok(before)
}

fn restore(path: &Path, before: &[(u64, u8)]) -> io::Result<()> {
    let file = File::options().write(true).open(path)?;
    for &(at, byte) in before {
        file.write_all_at(&[byte], at)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quorum_keeps_its_data() {
        assert!(leaves_a_quorum(&[1, 2, 3], &[], 2));
        assert!(!leaves_a_quorum(&[1, 2, 3], &[1], 2));
        assert!(!leaves_a_quorum(&[1, 3], &[], 3));
        // It does not vote.
        assert!(leaves_a_quorum(&[1, 3], &[], 2));
        let dir = tempfile::tempdir().expect("directory");
        let data = dir.path().join("data");
        let voters = || voters_in_force([data.as_path()].into_iter()).expect("lists");
        assert_eq!(voters(), None);
        let write = |version: &str, text: &str| {
            let name = format!("zoo.cfg.dynamic.{version}");
            fs::write(dir.path().join(name), text).expect("write");
        };
        write(
            "9",
            "server.1=a:2:3:participant;4\nserver.2=b:2:3:participant;4\n",
        );
        write("next", "server.7=a:2:3;4\n");
        assert_eq!(voters(), Some(vec![1, 2]));
        write(
            "1f",
            "server.1=a:2:3:participant;4\nserver.2=b:2:3:observer;4\nserver.3=c:2:3;4\n",
        );
        assert_eq!(voters(), Some(vec![1, 3]));
    }

    #[test]
    fn bytes_of_old_files_change_and_come_back() {
        let dir = tempfile::tempdir().expect("directory");
        for name in ["log.1", "log.9", "log.1f", "snapshot.a", "currentEpoch"] {
            fs::write(dir.path().join(name), b"something\0\0\0\0").expect("write");
        }
        let mut files = past(dir.path()).expect("list");
        files.sort();
        assert_eq!(files, [dir.path().join("log.1"), dir.path().join("log.9")]);
        let before = flip(&files[0], &mut Rng::with_seed(3)).expect("flip");
        let rotten = fs::read(&files[0]).expect("read");
        assert_ne!(rotten, b"something\0\0\0\0");
        assert_eq!(rotten[9..], [0, 0, 0, 0], "what is filled up says nothing");
        restore(&files[0], &before).expect("restore");
        assert_eq!(fs::read(&files[0]).expect("read"), b"something\0\0\0\0");
    }
}
