//! zoo.cfg and the member lists beside it, on a simulated disk: the same files with the same bytes
//! as those of a server (`zoo.cfg`, `zoo.cfg.dynamic.<version>`, `zoo.cfg.dynamic.next`).

use std::io;
use std::path::{Path, PathBuf};

use config::RawConfig;
use config::properties::MAX_BYTES;
use replica::MemberFile;
use storage::{Disk, DiskFile};
use testkit::SimDisk;

const DIR: &str = "/conf";
const STATIC: &str = "/conf/zoo.cfg";

/// What zoo.cfg says; it is written first if there is none, with a dynamic file of this list.
pub(crate) fn begin(disk: &SimDisk, text: &str, list: &str) -> io::Result<RawConfig> {
    disk.create_dir_all(Path::new(DIR))?;
    let path = Path::new(STATIC);
    if disk.read_small(path, MAX_BYTES)?.is_none() {
        let dynamic = beside("dynamic");
        replace(disk, &dynamic, list.as_bytes())?;
        let text = format!("{text}dynamicConfigFile={}\n", dynamic.display());
        replace(disk, path, text.as_bytes())?;
    }
    let bytes = disk.read_small(path, MAX_BYTES)?.unwrap_or_default();
    RawConfig::parse(path, &bytes).map_err(io::Error::other)
}

/// Puts this list in the place of the one that zoo.cfg names.
pub(crate) fn introduce(disk: &SimDisk, list: &str) -> io::Result<()> {
    let dynamic = beside("dynamic");
    replace(disk, &dynamic, list.as_bytes())?;
    name_dynamic(disk, &dynamic, false)
}

/// A file that zoo.cfg names.
pub(crate) fn read(disk: &SimDisk, path: &Path) -> io::Result<Vec<u8>> {
    let bytes = disk.read_small(path, MAX_BYTES)?;
    bytes.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Makes what a replica wants durable, zoo.cfg before the proposal goes.
pub(crate) fn write(disk: &SimDisk, file: &MemberFile) -> io::Result<()> {
    let next = beside("dynamic.next");
    let removes_next = match file {
        MemberFile::LastSeen(Some(list)) => {
            replace(disk, &next, list.file_text(true).as_bytes())?;
            false
        }
        MemberFile::LastSeen(None) => true,
        MemberFile::Committed {
            list,
            has_client,
            removes_last_seen,
        } => {
            let dynamic = beside(&format!("dynamic.{}", list.version));
            replace(disk, &dynamic, list.file_text(false).as_bytes())?;
            name_dynamic(disk, &dynamic, *has_client)?;
            *removes_last_seen
        }
    };
    if removes_next && disk.read_small(&next, MAX_BYTES)?.is_some() {
        disk.remove(&next)?;
        disk.sync_dir(Path::new(DIR))?;
    }
    Ok(())
}

/// Makes zoo.cfg name this file.
fn name_dynamic(disk: &SimDisk, dynamic: &Path, has_client: bool) -> io::Result<()> {
    let path = Path::new(STATIC);
    let raw = RawConfig::parse(path, &read(disk, path)?).map_err(io::Error::other)?;
    let edited = raw.with_dynamic_file(&dynamic.display().to_string(), has_client);
    replace(disk, path, &edited)
}

fn beside(suffix: &str) -> PathBuf {
    PathBuf::from(format!("{STATIC}.{suffix}"))
}

fn replace(disk: &SimDisk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = PathBuf::from(format!("{}.tmp", path.display()));
    let file = disk.create(&temporary)?;
    file.write_all_at(0, bytes)?;
    file.sync_data()?;
    disk.rename(&temporary, path)?;
    disk.sync_dir(Path::new(DIR))
}
