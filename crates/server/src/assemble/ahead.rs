//! What a start would meet, asked ahead of it: nothing is changed, and no port is opened.

use std::sync::Arc;

use config::Config;
use recovery::Survey;
use storage::{DataDirs, ReadOnly, RealDisk, StorageError};

use super::tls::PortTls;
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
