//! Checks before a start, which report its errors without changing anything or opening a port.

use config::Config;
use storage::{DataDirs, EmptyDirectory, OpenOptions, ReadOnly, RealDisk, StorageError};

use super::tls::PortTls;
use crate::disk::recovery::has_other_voters;
use crate::error::StartError;

pub use crate::settings::{recovery_settings, tree_settings};

/// Checks the data directories for errors that make a start fail before it changes anything.
///
/// # Errors
/// If a directory is missing and may not be created, or if a link or a file prevents its creation.
pub fn check_directories(config: &Config) -> Result<(), StorageError> {
    let options = open_options(config);
    DataDirs::check(
        &ReadOnly(RealDisk),
        &config.data_dir,
        &config.data_log_dir,
        options,
    )
}

/// Checks the results of a survey for data that prevents a server from starting.
///
/// # Errors
/// If the data contains TTL znodes that the settings do not allow, or if a standalone server lacks
/// data that it should have.
pub fn check_data(
    config: &Config,
    unrecognised_ttls: u64,
    empty: Option<EmptyDirectory>,
) -> Result<(), StartError> {
    let unrecognised = usize::try_from(unrecognised_ttls).unwrap_or(usize::MAX);
    refuse(config, unrecognised, empty)
}

/// Checks that this server can start with directories that contain neither snapshots nor logs, and
/// returns whether the directories count as a new database. The directories need not exist yet.
///
/// # Errors
/// If the server should have data and cannot receive it from another member, or if a file cannot be
/// read.
pub fn check_empty(config: &Config) -> Result<EmptyDirectory, StartError> {
    check_marker(config)?;
    let dirs = DataDirs::unlocked(&config.data_dir, &config.data_log_dir);
    let disk = ReadOnly(RealDisk);
    let empty = EmptyDirectory::inspect(&disk, &dirs, config.storage.db_autocreate)?;
    refuse(config, 0, Some(empty))?;
    Ok(empty)
}

/// Checks that this server can start although its files may have been set aside.
///
/// # Errors
/// If the files were set aside and the server cannot receive its data from another member, or if
/// the marker cannot be looked up.
pub fn check_marker(config: &Config) -> Result<(), StorageError> {
    let dirs = DataDirs::unlocked(&config.data_dir, &config.data_log_dir);
    if storage::is_untrusted(&ReadOnly(RealDisk), &dirs)? && !has_other_voters(config) {
        let marker = storage::untrusted_marker(&dirs);
        return Err(StorageError::Untrusted { marker });
    }
    Ok(())
}

/// Checks that the audit log can be written.
///
/// # Errors
/// If the file cannot be opened or created.
pub fn check_audit(config: &Config) -> Result<(), StartError> {
    let Some(settings) = &config.audit else {
        return Ok(());
    };
    admin::audit::check_file(&settings.file).map_err(|source| StartError::Audit {
        file: settings.file.clone(),
        source,
    })
}

/// Returns whether the files of this server were set aside at an earlier start.
///
/// # Errors
/// If the marker cannot be looked up.
pub fn is_untrusted(config: &Config) -> Result<bool, StorageError> {
    let dirs = DataDirs::unlocked(&config.data_dir, &config.data_log_dir);
    storage::is_untrusted(&ReadOnly(RealDisk), &dirs)
}

/// Returns whether this server, if its data is corrupt, starts without the data and receives the
/// leader's data instead.
pub fn moves_corrupt_data_aside(config: &Config) -> bool {
    has_other_voters(config)
}

/// Loads the key and trust stores of all ports. Returns the settings that name this server's
/// certificates, each with the end of the certificate's validity in seconds since 1970.
///
/// # Errors
/// If a store cannot be used.
pub fn check_stores(config: &Config) -> Result<Vec<(&'static str, i64)>, StartError> {
    Ok(PortTls::load(config, None)?.certificate_ends())
}

/// Returns the options with which the data directories are opened.
pub(crate) fn open_options(config: &Config) -> OpenOptions {
    OpenOptions {
        autocreate: config.storage.datadir_autocreate,
    }
}

/// Checks for data that prevents a server from starting.
pub(crate) fn refuse(
    config: &Config,
    unrecognised_ttls: usize,
    empty: Option<EmptyDirectory>,
) -> Result<(), StartError> {
    refuse_unrecognised(unrecognised_ttls)?;
    if config.ensemble.is_none() {
        refuse_untrusted(config, empty)?;
    }
    Ok(())
}

/// Refuses TTL znodes that the settings do not allow. Java treats such znodes as ephemerals of dead
/// sessions. It deletes them immediately and leaves their children without a parent.
fn refuse_unrecognised(count: usize) -> Result<(), StartError> {
    match count {
        0 => Ok(()),
        count => Err(StartError::UnrecognisedTtls { count }),
    }
}

/// Refuses an empty data directory that should contain data. Java's standalone server continues,
/// with a snapshot of zxid -1 that no server can load.
fn refuse_untrusted(config: &Config, empty: Option<EmptyDirectory>) -> Result<(), StartError> {
    match empty {
        Some(EmptyDirectory::Untrusted) => Err(StartError::EmptyUntrusted {
            data_dir: config.data_dir.clone(),
            marker: config.data_log_dir.join("initialize"),
        }),
        Some(EmptyDirectory::Trusted) | None => Ok(()),
    }
}
