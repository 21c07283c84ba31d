//! Access of the admin server to the running server.

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
    /// End of the readable log.
    pub(crate) log_end: Arc<LogEnd>,
    /// Ports of this server to which observers may be connected.
    pub(crate) links: Vec<LearnerLinks>,
}

impl Served {
    /// Returns the view of the server for commands.
    pub(super) fn view(&self) -> LiveAdminView {
        LiveAdminView::new(self)
    }
}
