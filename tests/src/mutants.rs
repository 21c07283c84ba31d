//! Deliberate bugs in the shipped code. Each is a patch in `crates/simulator/mutants`.
//!
//! A copy of the sources contains the patches of all mutants as switches, and is built once. The
//! variable [`SWITCH`] of a process chooses its mutant.

mod patch;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

pub use patch::Mutant;
use serde_json::Value;

use crate::command::run;
use crate::layout::{profile_dir, workspace_root};
use crate::zoarium::{BUILD_LIMIT, cargo};
use patch::with_switches;

/// Variable that names the mutant of a process of the copy. Without it, the process has none.
pub const SWITCH: &str = "ZOARIUM_SWITCH";

/// Folder of the patches.
const PATCHES: &str = "crates/simulator/mutants";

/// Module with the switch, in the folder of the patches.
const MODULE: &str = "mutant.rs";

/// Manifest of the workspace.
const MANIFEST: &str = "Cargo.toml";

/// Returns all mutants, ordered by name.
///
/// # Errors
/// If a patch cannot be read.
pub fn mutants() -> Result<Vec<Mutant>, String> {
    let dir = workspace_root().join(PATCHES);
    let mut mutants = Vec::new();
    for entry in fs::read_dir(&dir).map_err(at(&dir))? {
        let path = entry.map_err(at(&dir))?.path();
        if path.extension().is_some_and(|it| it == "patch") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let text = fs::read_to_string(&path).map_err(at(&path))?;
            let mutant = Mutant::parse(&name, &text);
            mutants.push(mutant.map_err(|why| format!("{}: {why}", path.display()))?);
        }
    }
    mutants.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(mutants)
}

/// Returns the files that the patches change, with the switches of all mutants, and the module with
/// the switch in each crate that needs it.
///
/// # Errors
/// If a patch does not fit the sources.
pub fn switched_sources(mutants: &[Mutant]) -> Result<BTreeMap<String, String>, String> {
    let root = workspace_root();
    let read = |file: &str| fs::read_to_string(root.join(file)).map_err(at(Path::new(file)));
    let hunks = mutants.iter().flat_map(|mutant| &mutant.hunks);
    let mut files: BTreeSet<String> = hunks.map(|hunk| hunk.file.clone()).collect();
    let crates: BTreeSet<String> = files
        .iter()
        .filter_map(|file| Some(file.split_once("/src/")?.0.to_owned()))
        .collect();
    files.extend(crates.iter().map(|name| format!("{name}/src/lib.rs")));
    let mut switched = BTreeMap::new();
    for file in files {
        let text = with_switches(&read(&file)?, &file, mutants).map_err(|why| {
            format!("{why}\nRenew the patch: {PATCHES}/README.md describes the commands.")
        })?;
        switched.insert(file, text);
    }
    for name in crates {
        let library = switched.entry(format!("{name}/src/lib.rs")).or_default();
        library.push_str("\nmod mutant;\n");
        let module = read(&format!("{PATCHES}/{MODULE}"))?;
        switched.insert(format!("{name}/src/{MODULE}"), module);
    }
    Ok(switched)
}

/// Suffix of the version of the copy's crates. It distinguishes their files in the build directory
/// from the files of the workspace.
const VERSION_SUFFIX: &str = "+mutants";

/// The copy of the sources, in the target directory.
#[derive(Debug)]
pub struct SwitchedCopy {
    sources: PathBuf,
    /// Directory of the copy's executables.
    target: PathBuf,
    /// Directory with all intermediate files, of the workspace and of the copy. Both use the same
    /// crates from registries, which are therefore built only once. Cargo before 1.91 ignores this
    /// directory, and builds these crates again.
    build: PathBuf,
}

/// Programs of the copy that catch mutants.
#[derive(Debug)]
pub struct Catchers {
    /// The simulator.
    pub simulator: PathBuf,
    /// Executables of the other tests.
    pub tests: Vec<PathBuf>,
}

impl SwitchedCopy {
    /// Brings the copy up to date, at most once in each process. Files without changes stay, so that
    /// cargo builds only crates with changes.
    ///
    /// # Errors
    /// If a patch does not fit, or if the copy cannot be written.
    pub fn get() -> Result<&'static Self, String> {
        static COPY: OnceLock<Result<SwitchedCopy, String>> = OnceLock::new();
        let copy = COPY.get_or_init(|| {
            let profile = profile_dir();
            let build = profile.parent().unwrap_or(&profile).to_path_buf();
            let target = build.join("mutants");
            let copy = Self {
                sources: target.join("sources"),
                target,
                build,
            };
            copy.write().map(|()| copy)
        });
        copy.as_ref().map_err(Clone::clone)
    }

    fn write(&self) -> Result<(), String> {
        let root = workspace_root();
        let mut listing = Command::new("git");
        listing
            .current_dir(&root)
            .args(["ls-files", "-z", "--cached", "--others"])
            .arg("--exclude-standard");
        let listed = listing.output().map_err(at(&root))?;
        if !listed.status.success() {
            return Err(String::from_utf8_lossy(&listed.stderr).into_owned());
        }
        let listed = String::from_utf8(listed.stdout).map_err(|error| error.to_string())?;
        let mut switched = switched_sources(&mutants()?)?;
        let manifest = fs::read_to_string(root.join(MANIFEST)).map_err(at(&root))?;
        let manifest = with_version_suffix(&manifest).ok_or("the workspace has no version")?;
        switched.insert(MANIFEST.to_owned(), manifest);
        let mut wanted = BTreeSet::new();
        for file in listed.split_terminator('\0') {
            let path = root.join(file);
            // A file that was deleted and not committed is still listed.
            if path.is_file() {
                let text = switched.remove(file).map(String::into_bytes);
                let text = text.map_or_else(|| fs::read(&path), Ok);
                self.put(file, &text.map_err(at(&path))?)?;
                wanted.insert(self.sources.join(file));
            }
        }
        for (file, text) in switched {
            self.put(&file, text.as_bytes())?;
            wanted.insert(self.sources.join(file));
        }
        remove_others(&self.sources, &wanted).map_err(at(&self.sources))
    }

    fn put(&self, file: &str, text: &[u8]) -> Result<(), String> {
        let path = self.sources.join(file);
        if fs::read(&path).is_ok_and(|before| before == text) {
            return Ok(());
        }
        let dir = path.parent().unwrap_or(&path);
        fs::create_dir_all(dir).map_err(at(dir))?;
        fs::write(&path, text).map_err(at(&path))
    }

    /// Returns cargo in the copy, with the dev profile. Integer overflows are detected, as in other
    /// tests.
    fn cargo(&self, subcommand: &str) -> Command {
        let mut command = cargo(&self.sources);
        command
            .env("CARGO_BUILD_BUILD_DIR", &self.build)
            .args([subcommand, "--quiet", "--workspace", "--target-dir"])
            .arg(&self.target);
        command
    }

    /// Builds the tests that catch mutants, and the simulator, which one of the tests runs. The
    /// command selects the whole workspace, because the features of crates from registries depend on
    /// all selected packages.
    ///
    /// # Errors
    /// If they do not build.
    pub fn catchers(&self) -> Result<Catchers, String> {
        let mut command = self.cargo("test");
        command.args(["--no-run", "--message-format", "json-render-diagnostics"]);
        for test in ["schedule", "interleavings", "stable_trace"] {
            command.args(["--test", test]);
        }
        let printed = run(&mut command, BUILD_LIMIT)?;
        Ok(Catchers {
            simulator: self.target.join("debug/simulator"),
            tests: printed.lines().filter_map(test_executable).collect(),
        })
    }

    /// Builds the simulator with the release profile, for long searches, and returns its path. A
    /// panic is a finding, and so is an overflow.
    ///
    /// # Errors
    /// If it does not build.
    pub fn release_simulator(&self) -> Result<PathBuf, String> {
        let mut command = self.cargo("build");
        command
            .env("CARGO_PROFILE_RELEASE_PANIC", "unwind")
            .env("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "true")
            .args(["--release", "--bin", "simulator"]);
        run(&mut command, BUILD_LIMIT)?;
        Ok(self.target.join("release/simulator"))
    }

    /// Builds the server with the features of [`catchers`](Self::catchers), and returns its path.
    ///
    /// # Errors
    /// If it does not build.
    pub fn zoarium(&self) -> Result<PathBuf, String> {
        let mut command = self.cargo("build");
        command.args(["--bin", "zoarium", "--example", "hand_over"]);
        run(&mut command, BUILD_LIMIT)?;
        Ok(self.target.join("debug/zoarium"))
    }
}

/// Returns the executable that a message of cargo announces, if it is a test.
fn test_executable(message: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    let kinds = message["target"]["kind"].as_array()?;
    let executable = message["executable"].as_str()?;
    kinds.contains(&"test".into()).then(|| executable.into())
}

/// Returns the manifest of the workspace with a version that ends with [`VERSION_SUFFIX`].
fn with_version_suffix(manifest: &str) -> Option<String> {
    let (before, after) = manifest.split_once("[workspace.package]\nversion = \"")?;
    let (version, after) = after.split_once('"')?;
    Some(format!(
        "{before}[workspace.package]\nversion = \"{version}{VERSION_SUFFIX}\"{after}"
    ))
}

/// Removes all files that are not wanted, and empty folders: a folder in `crates` would count as a
/// crate.
fn remove_others(dir: &Path, wanted: &BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, wanted)?;
            if fs::read_dir(&path)?.next().is_none() {
                fs::remove_dir(&path)?;
            }
        } else if !wanted.contains(&path) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn at(path: &Path) -> impl Fn(io::Error) -> String {
    let path = path.display().to_string();
    move |error| format!("{path}: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_crate_leaves_no_folder_in_the_copy() {
        let copy = tempfile::tempdir().expect("a directory");
        let file = |name: &str| copy.path().join(name);
        for name in ["kept/src/lib.rs", "kept/src/old.rs", "removed/src/lib.rs"] {
            let path = file(name);
            fs::create_dir_all(path.with_file_name("")).expect("a folder");
            fs::write(path, "").expect("a file");
        }
        let wanted = BTreeSet::from([file("kept/src/lib.rs")]);
        remove_others(copy.path(), &wanted).expect("remove");
        assert!(file("kept/src/lib.rs").exists());
        assert!(!file("kept/src/old.rs").exists());
        assert!(!file("removed").exists());
    }
}
