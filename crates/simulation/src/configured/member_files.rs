//! zoo.cfg and its member lists on a simulated disk. The files have the same names and contents as
//! on a real server (`zoo.cfg`, `zoo.cfg.dynamic.<version>`, `zoo.cfg.dynamic.next`).

use std::io;
use std::path::{Path, PathBuf};

use config::RawConfig;
use config::properties::MAX_BYTES;
use replica::MemberFile;
use replica::members::MemberFiles;
use storage::{Disk, DiskFile};
use testkit::SimDisk;

const DIR: &str = "/conf";
const STATIC: &str = "/conf/zoo.cfg";

/// Reads zoo.cfg. If it is missing, first writes it, together with a dynamic file that contains
/// this list.
pub(crate) fn begin(disk: &SimDisk, text: &str, list: &str) -> io::Result<RawConfig> {
    disk.create_dir_all(Path::new(DIR))?;
    let path = Path::new(STATIC);
    if disk.read_small(path, MAX_BYTES)?.is_none() {
        let dynamic = beside(".dynamic");
        replace(disk, &dynamic, list.as_bytes())?;
        let text = format!("{text}dynamicConfigFile={}\n", dynamic.display());
        replace(disk, path, text.as_bytes())?;
    }
    let bytes = disk.read_small(path, MAX_BYTES)?.unwrap_or_default();
    RawConfig::parse(path, &bytes).map_err(io::Error::other)
}

/// Writes this list to the dynamic file, and makes zoo.cfg refer to that file.
///
/// # Errors
///
/// If the disk fails, or if zoo.cfg is missing or invalid.
pub fn introduce(disk: &SimDisk, list: &str) -> io::Result<()> {
    replace(disk, &beside(".dynamic"), list.as_bytes())?;
    ConfigFiles(disk).name_dynamic(".dynamic", false)
}

/// Reads zoo.cfg or a file to which it refers. Fails if the file is missing.
pub(crate) fn read(disk: &SimDisk, path: &Path) -> io::Result<Vec<u8>> {
    let bytes = disk.read_small(path, MAX_BYTES)?;
    bytes.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Makes a replica's member file durable.
pub(crate) fn write(disk: &SimDisk, file: &MemberFile) -> io::Result<()> {
    file.write(&mut ConfigFiles(disk))
}

/// Files in the directory of zoo.cfg.
struct ConfigFiles<'a>(&'a SimDisk);

impl MemberFiles for ConfigFiles<'_> {
    type Error = io::Error;

    fn replace(&mut self, suffix: &str, text: &str) -> io::Result<()> {
        replace(self.0, &beside(suffix), text.as_bytes())
    }

    fn remove(&mut self, suffix: &str) -> io::Result<()> {
        let path = beside(suffix);
        if self.0.read_small(&path, MAX_BYTES)?.is_some() {
            self.0.remove(&path)?;
            self.0.sync_dir(Path::new(DIR))?;
        }
        Ok(())
    }

    fn name_dynamic(&mut self, suffix: &str, has_client: bool) -> io::Result<()> {
        let (disk, path) = (self.0, Path::new(STATIC));
        let raw = RawConfig::parse(path, &read(disk, path)?).map_err(io::Error::other)?;
        let dynamic = beside(suffix);
        let edited = raw.with_dynamic_file(&dynamic.display().to_string(), has_client);
        replace(disk, path, &edited)
    }
}

/// Returns the path of the member list that was proposed last.
pub fn proposed_list() -> PathBuf {
    beside(".dynamic.next")
}

/// Returns the path of the member list to which zoo.cfg refers. Returns `None` if zoo.cfg is
/// missing or does not refer to a list.
///
/// # Errors
///
/// If the disk fails.
pub fn named_list(disk: &SimDisk) -> io::Result<Option<PathBuf>> {
    let bytes = disk.read_small(Path::new(STATIC), MAX_BYTES)?;
    let text = bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let mut lines = text.iter().flat_map(|text| text.lines());
    let named = lines.find_map(|line| line.strip_prefix("dynamicConfigFile="));
    Ok(named.map(PathBuf::from))
}

fn beside(suffix: &str) -> PathBuf {
    PathBuf::from(format!("{STATIC}{suffix}"))
}

fn replace(disk: &SimDisk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = PathBuf::from(format!("{}.tmp", path.display()));
    let file = disk.create(&temporary)?;
    file.write_all_at(0, bytes)?;
    file.sync_data()?;
    disk.rename(&temporary, path)?;
    disk.sync_dir(Path::new(DIR))
}
