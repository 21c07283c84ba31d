//! Modes of the files and directories that servers and tools write.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Files that tests write before a server starts.
const BY_TESTS: [&str; 2] = ["myid", "zoo.cfg"];

/// Panics if other users may read anything below the directory, or the group may write to it. The
/// directory itself may belong to the test.
pub fn assert_modes(dir: &Path) {
    let mut seen = 0;
    check(dir, &mut seen);
    assert!(seen > 0, "{} is empty", dir.display());
}

fn check(dir: &Path, seen: &mut usize) {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    for entry in entries {
        let entry = entry.expect("an entry");
        let (path, metadata) = (entry.path(), entry.metadata().expect("its metadata"));
        if BY_TESTS.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        *seen += 1;
        let allowed = if metadata.is_dir() { 0o750 } else { 0o640 };
        let mode = metadata.permissions().mode() & 0o777;
        assert_eq!(mode & !allowed, 0, "{} has mode {mode:o}", path.display());
        if metadata.is_dir() {
            check(&path, seen);
        }
    }
}
