//! Downloads of package managers, which `target/foreign` keeps between runs.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FlockOperation, flock};

use crate::command::{fetch, find_tool};
use crate::layout::{foreign_dir, source_dir};
use crate::skip::Missing;

/// Creates `target/foreign/<name>` once for the given `inputs` and returns its path.
///
/// `make` fills the empty directory. It runs again if an input file has changed, or if it failed
/// before. Other test processes wait meanwhile.
///
/// # Errors
/// [`Missing`] from `make`. It panics for errors of the tests themselves, such as a scenario that
/// does not compile.
pub fn prepare(
    name: &str,
    inputs: &[PathBuf],
    make: impl FnOnce(&Path) -> Result<(), Missing>,
) -> Result<PathBuf, Missing> {
    let base = foreign_dir();
    fs::create_dir_all(&base).expect("make target/foreign");
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(base.join(format!("{name}.lock")))
        .expect("open the lock file of a foreign project");
    flock(&lock, FlockOperation::LockExclusive).expect("lock a foreign project");

    let dir = base.join(name);
    let stamp = base.join(format!("{name}.stamp"));
    let wanted = stamp_of(inputs);
    if dir.is_dir() && fs::read(&stamp).is_ok_and(|made| made == wanted) {
        return Ok(dir);
    }
    fs::remove_file(&stamp).ok();
    if dir.exists() {
        fs::remove_dir_all(&dir).expect("clear the foreign project");
    }
    fs::create_dir_all(&dir).expect("make the directory of a foreign project");
    make(&dir)?;
    fs::write(&stamp, wanted).expect("write the stamp of a foreign project");
    Ok(dir)
}

/// Returns a separate Python with kazoo.
///
/// # Errors
/// If the machine lacks a requirement.
pub fn python_with_kazoo() -> Result<PathBuf, Missing> {
    python_with("kazoo", "requirements.txt")
}

/// Returns a separate Python with kazoo and support for Kerberos logins.
///
/// # Errors
/// If the machine lacks a requirement, such as the headers of Python and of Kerberos (Debian's
/// `python3-dev` and `libkrb5-dev`).
pub fn python_with_kerberos() -> Result<PathBuf, Missing> {
    python_with("kerberos", "kerberos.txt")
}

/// Returns a separate Python with protobuf and its compiler.
///
/// # Errors
/// If the machine lacks a requirement.
pub fn python_with_protobuf() -> Result<PathBuf, Missing> {
    python_with("protobuf", "protobuf.txt")
}

/// Returns a separate Python with this name and the packages of the requirements file.
fn python_with(name: &str, requirements: &str) -> Result<PathBuf, Missing> {
    let python = find_tool("python3")?;
    let requirements = source_dir("python").join(requirements);
    let dir = prepare(name, std::slice::from_ref(&requirements), |dir| {
        fetch(
            Command::new(&python)
                .args(["-m", "venv", "--clear"])
                .arg(dir),
        )?;
        let mut install = Command::new(dir.join("bin/python"));
        install
            .args(["-m", "pip", "install", "--quiet", "-r"])
            .arg(&requirements);
        fetch(&mut install)
    })?;
    Ok(dir.join("bin/python"))
}

/// Returns the names and complete contents of the inputs. They are small, and no change is missed.
fn stamp_of(inputs: &[PathBuf]) -> Vec<u8> {
    let mut stamp = Vec::new();
    for input in inputs {
        let content = fs::read(input)
            .unwrap_or_else(|error| panic!("{} is unreadable: {error}", input.display()));
        stamp.extend_from_slice(input.file_name().unwrap_or_default().as_encoded_bytes());
        stamp.push(b'\n');
        stamp.extend_from_slice(&content);
    }
    stamp
}
