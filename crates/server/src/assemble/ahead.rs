//! What a start would meet, asked ahead of it: nothing is changed, and no port is opened.

use std::sync::Arc;

use config::Config;
use recovery::Survey;
use storage::{DataDirs, Empty, OpenOptions, ReadOnly, RealDisk, StorageError};

use super::tls::PortTls;
use crate::audit::check_file;
use crate::disk::recovery::has_other_voters;
use crate::error::StartError;
use crate::settings::{recovery_settings, tree_settings};

/// Reads the data directory as a start does. With `makes_tree` the tree is put together in memory, too.
///
/// # Errors
/// What would keep the server from starting, or cost a member its vote: see [`sets_damage_aside`].
pub fn survey(config: &Config, makes_tree: bool) -> Result<Survey, StorageError> {
    let dirs = DataDirs::unlocked(&config.data_dir, &config.data_log_dir);
    let (disk, tree) = (ReadOnly(RealDisk), Arc::new(tree_settings(config)));
    let marker = storage::untrusted_marker(&dirs);
    if storage::is_untrusted(&disk, &dirs)? && !has_other_voters(config) {
        return Err(StorageError::Untrusted { marker });
    }
    recovery::survey(&disk, &dirs, &recovery_settings(config), tree, makes_tree)
}

/// Refuses the data directories that a start refuses before it changes anything.
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

/// Refuses the data with which a server does not start.
///
/// # Errors
/// If the data has TTL znodes that the settings do not allow, or if a standalone server has no data and should have.
pub fn check_data(config: &Config, survey: &Survey) -> Result<(), StartError> {
    let unrecognised = usize::try_from(survey.unrecognised_ttls).unwrap_or(usize::MAX);
    refuse(config, unrecognised, survey.recovered.empty)
}

/// Refuses directories without snapshots and logs, if this server does not start with them. They may not exist yet.
///
/// # Errors
/// If the server should have data and has no other member to get it from, or if a file cannot be read.
pub fn check_empty(config: &Config) -> Result<Empty, StartError> {
    let dirs = DataDirs::unlocked(&config.data_dir, &config.data_log_dir);
    let disk = ReadOnly(RealDisk);
    if storage::is_untrusted(&disk, &dirs)? && !has_other_voters(config) {
        let marker = storage::untrusted_marker(&dirs);
        return Err(StorageError::Untrusted { marker }.into());
    }
    let empty = Empty::look(&disk, &dirs, config.storage.db_autocreate)?;
    refuse(config, 0, Some(empty))?;
    Ok(empty)
}

/// Refuses an audit log that cannot be written.
///
/// # Errors
/// If the file cannot be opened or created.
pub fn check_audit(config: &Config) -> Result<(), StartError> {
    let Some(settings) = &config.audit else {
        return Ok(());
    };
    check_file(&settings.file).map_err(|source| StartError::Audit {
        file: settings.file.clone(),
        source,
    })
}

/// Whether the files of this server were set aside at an earlier start.
///
/// # Errors
/// If the marker cannot be looked up.
pub fn is_untrusted(config: &Config) -> Result<bool, StorageError> {
    let dirs = DataDirs::unlocked(&config.data_dir, &config.data_log_dir);
    storage::is_untrusted(&ReadOnly(RealDisk), &dirs)
}

/// Whether this server starts without what is damaged, and has its leader's data instead.
pub fn sets_damage_aside(config: &Config) -> bool {
    has_other_voters(config)
}

/// Loads the key and trust stores of all ports. Gives the settings that name own certificates, and when these end, in
/// seconds since 1970.
///
/// # Errors
/// If one cannot be used.
pub fn check_stores(config: &Config) -> Result<Vec<(&'static str, i64)>, StartError> {
    Ok(PortTls::load(config, None)?.certificate_ends())
}

/// How the data directories are opened.
pub(crate) fn open_options(config: &Config) -> OpenOptions {
    OpenOptions {
        autocreate: config.storage.datadir_autocreate,
    }
}

/// Refuses data with which a server does not start.
pub(crate) fn refuse(
    config: &Config,
    unrecognised_ttls: usize,
    empty: Option<Empty>,
) -> Result<(), StartError> {
    refuse_unrecognised(unrecognised_ttls)?;
    if config.ensemble.is_none() {
        refuse_untrusted(config, empty)?;
    }
    Ok(())
}

/// Java takes such znodes for ephemerals of sessions that are gone: it deletes them at once and
/// leaves their children without a parent.
fn refuse_unrecognised(count: usize) -> Result<(), StartError> {
    match count {
        0 => Ok(()),
        count => Err(StartError::UnrecognisedTtls { count }),
    }
}

/// Java's standalone server goes on, with a snapshot of zxid -1 that no server can load.
fn refuse_untrusted(config: &Config, empty: Option<Empty>) -> Result<(), StartError> {
    match empty {
        Some(Empty::Untrusted) => Err(StartError::EmptyUntrusted {
            data_dir: config.data_dir.clone(),
            marker: config.data_log_dir.join("initialize"),
        }),
        Some(Empty::Trusted) | None => Ok(()),
    }
}
