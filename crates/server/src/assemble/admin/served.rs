//! The server that the admin server is asked about.

use std::sync::Arc;

use recovery::LogEnd;
use storage::DataDirs;

use super::super::core::CoreHandle;
use super::view::LiveAdminView;
use crate::client::clients::Clients;
use crate::disk::SnapshotRequests;
use crate::quorum::peer::LearnerLinks;

/// A server whose data is loaded.
pub(crate) struct Served {
    pub(crate) clients: Arc<Clients>,
    pub(crate) snapshots: SnapshotRequests,
    pub(crate) core: CoreHandle,
    pub(crate) dirs: DataDirs,
    /// How far the log can be read.
    pub(crate) log_end: Arc<LogEnd>,
    /// Ways by which observers may be connected to this server.
    pub(crate) links: Vec<LearnerLinks>,
}

impl Served {
    /// The server as commands see it.
    pub(super) fn view(&self) -> LiveAdminView {
        LiveAdminView::new(self)
    }
}
