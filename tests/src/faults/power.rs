//! The effect of a power failure: the loss of unsynced writes.
//!
//! Before each write, `faults.c` records the replaced data in a file named `<device>-<inode>`:
//!
//! ```text
//! offset u64 | size of the file before u64 | length u64 | so many bytes that were at the offset
//! ```
//!
//! in the byte order of the machine. A successful sync of the file clears its records.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Length of the header before the replaced data.
const HEADER: usize = 24;

/// One recorded write.
struct Note<'a> {
    offset: u64,
    size_before: u64,
    bytes: &'a [u8],
}

pub(super) fn drop_unsynced(
    notes: &Path,
    dir: &Path,
    mut kept: impl FnMut(usize) -> usize,
) -> io::Result<u64> {
    let mut files = BTreeMap::new();
    find_files(dir, &mut files)?;
    let mut dropped = 0;
    for entry in fs::read_dir(notes)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // A file that was deleted since then has nothing to lose.
        if let Some(path) = files.get(&name) {
            let noted = fs::read(entry.path())?;
            let writes = parse(&noted);
            let from = kept(writes.len()).min(writes.len());
            dropped += take_back(path, writes.get(from..).unwrap_or_default())?;
        }
        fs::remove_file(entry.path())?;
    }
    Ok(dropped)
}

/// Finds the regular files by the names of their records.
fn find_files(dir: &Path, files: &mut BTreeMap<String, PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let about = entry.metadata()?;
        if about.is_dir() {
            find_files(&entry.path(), files)?;
        } else if about.is_file() {
            files.insert(format!("{}-{}", about.dev(), about.ino()), entry.path());
        }
    }
    Ok(())
}

/// Parses the records of a file. An incomplete last record belongs to a write that never began.
fn parse(mut noted: &[u8]) -> Vec<Note<'_>> {
    let mut notes = Vec::new();
    while let Some((header, rest)) = noted.split_at_checked(HEADER) {
        let number = |at: usize| {
            let bytes = header
                .get(at..at + 8)
                .and_then(|bytes| bytes.try_into().ok());
            u64::from_ne_bytes(bytes.unwrap_or_default())
        };
        let length = usize::try_from(number(16)).unwrap_or(usize::MAX);
        let Some((bytes, rest)) = rest.split_at_checked(length) else {
            break;
        };
        notes.push(Note {
            offset: number(0),
            size_before: number(8),
            bytes,
        });
        noted = rest;
    }
    notes
}

/// Reverts writes, the last one first.
fn take_back(path: &Path, writes: &[Note<'_>]) -> io::Result<u64> {
    let file = File::options().write(true).open(path)?;
    let mut dropped = 0;
    for write in writes.iter().rev() {
        let size = file.metadata()?.len();
        dropped += size.saturating_sub(write.size_before) + write.bytes.len() as u64;
        file.set_len(write.size_before)?;
        file.write_all_at(write.bytes, write.offset)?;
    }
    Ok(dropped)
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use crate::{Faults, find_tool, or_skip, run};

    const LIMIT: Duration = Duration::from_secs(60);

    /// Returns the contents of a file after shell commands wrote to it and the power failed.
    fn left_of(faults: &Faults, script: &str, kept: usize) -> String {
        let dir = tempfile::tempdir().expect("make a directory");
        std::fs::create_dir(dir.path().join("version-2")).expect("make a directory");
        faults.note_unsynced(7);
        // The library is loaded only into the second shell.
        let outer = format!("{}\nexec sh -c \"$0\"", faults.commands(7));
        let mut command = Command::new(find_tool("sh").expect("a shell"));
        command.current_dir(dir.path()).args(["-c", &outer, script]);
        run(&mut command, LIMIT).expect("run the script");
        let dropped = faults.drop_unsynced(7, dir.path(), |_| kept);
        dropped.expect("take back");
        std::fs::read_to_string(dir.path().join("version-2/log")).expect("read")
    }

    #[test]
    fn a_power_cut_loses_only_unsynced_data() {
        let Some(faults) = or_skip("power cuts", Faults::new()) else {
            return;
        };
        let first = "printf first | dd of=version-2/log conv=fsync 2>/dev/null";
        let overwrite = "printf FI | dd of=version-2/log conv=notrunc 2>/dev/null";
        let append = "printf ' second' >> version-2/log";
        let sync = "printf '!' | dd of=version-2/log oflag=append conv=notrunc,fsync 2>/dev/null";
        let all = format!("{first}; {append}; {overwrite}");
        assert_eq!(left_of(&faults, first, 0), "first");
        assert_eq!(left_of(&faults, &all, 0), "first");
        // The append survives, but the overwrite after it does not.
        assert_eq!(left_of(&faults, &all, 1), "first second");
        assert_eq!(left_of(&faults, &all, 9), "FIrst second");
        assert_eq!(
            left_of(&faults, &format!("{all}; {sync}"), 0),
            "FIrst second!"
        );
        // The file was truncated and rewritten without a sync.
        let cut = "printf new > version-2/log";
        assert_eq!(left_of(&faults, &format!("{first}; {cut}"), 0), "");
        // The disk reports a sync without executing it.
        faults.fake_syncs(7, "/version-2/");
        assert_eq!(left_of(&faults, first, 0), "");
    }
}
