//! Replacement of the history thread for builds without the feature `history`. A configuration with
//! a change history is refused earlier.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use admin::served::Readers;
use config::ChangeHistory;
use jute::Limits;
use proto::txn::TxnRecord;
use proto::{Id, Zxid};
use recovery::LogEnd;
use storage::{DataDirs, RealDisk};

/// A feed, which cannot be constructed.
pub(crate) enum Feed {}

impl Feed {
    /// Adds a transaction.
    pub(crate) fn applied(&mut self, _: &TxnRecord, _: Option<(SocketAddr, Arc<[Id]>)>) {
        match *self {}
    }

    /// Records committed transactions.
    pub(crate) fn committed(&self, _: Zxid) {
        match *self {}
    }

    /// Sends the collected transactions.
    pub(crate) fn released(&mut self) {
        match *self {}
    }
}

/// The member's files, which are not read.
pub(crate) struct Sources;

impl Sources {
    pub(crate) fn new(_: Arc<RealDisk>, _: DataDirs, _: Limits) -> Self {
        Self
    }
}

/// The reason why the history thread cannot start.
#[derive(Debug, thiserror::Error)]
#[error("this build does not contain it (feature `history`)")]
pub(crate) struct NotBuiltIn;

/// Always fails.
pub(crate) fn start(
    _: &ChangeHistory,
    _: Sources,
    _: Arc<LogEnd>,
    _: Readers,
) -> Result<(Feed, JoinHandle<()>), NotBuiltIn> {
    Err(NotBuiltIn)
}
