//! Clients that requested transactions, for the members that did not serve these clients.

use std::collections::BTreeSet;

use proto::Zxid;

use crate::error::{HistoryError, Result};
use crate::reading::read::Reader;
use crate::reading::view::HistoryView;
use crate::reading::viewer::{Viewer, ViewerPermissions};
use crate::record::Change;

/// Client that requested a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownOrigin {
    /// Zxid of the transaction.
    pub zxid: Zxid,
    /// Address of the client.
    pub client: String,
    /// Identities of the client.
    pub identities: Vec<String>,
}

/// A page of clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origins {
    /// Clients of those transactions whose clients are known.
    pub results: Vec<KnownOrigin>,
    /// First transaction that was not looked up; `None` if all were.
    pub next: Option<Zxid>,
}

impl Reader {
    /// Returns the clients of those transactions for which this history contains the client and the
    /// viewer may see a change.
    ///
    /// # Errors
    /// [`HistoryError::OriginHidden`] if the viewer may not see clients. Other errors if files
    /// cannot be read.
    pub fn origins(&self, zxids: &BTreeSet<Zxid>, viewer: &Viewer<'_>) -> Result<Origins> {
        if !viewer.may_see_origins() {
            return Err(HistoryError::OriginHidden);
        }
        let (history_view, permissions) = (self.history_view(), ViewerPermissions::new(viewer));
        let mut found = Origins {
            results: Vec::new(),
            next: None,
        };
        for (number, zxid) in zxids.iter().enumerate() {
            // A page looks up at least one transaction.
            if number > 0 && history_view.is_spent()? {
                found.next = Some(*zxid);
                break;
            }
            found
                .results
                .extend(history_view.origin(*zxid, &permissions)?);
        }
        Ok(found)
    }
}

impl HistoryView {
    fn origin(
        &self,
        zxid: Zxid,
        permissions: &ViewerPermissions<'_>,
    ) -> Result<Option<KnownOrigin>> {
        if zxid > self.head || zxid <= self.extent().recorded_after {
            return Ok(None);
        }
        for block in self.blocks_of(zxid) {
            let (changes, segment) = match self.block(block) {
                // The block has been dropped meanwhile.
                Err(error) if error.is_unknown_moment() => continue,
                other => other?,
            };
            let is_known = |change: &&Change| change.zxid == zxid.0 && !change.client.is_empty();
            for change in changes.iter().filter(is_known) {
                let change = self.with_contents(change, segment.as_ref())?;
                let exported = self.exported(change, false, permissions)?;
                if let Some(change) = exported.and_then(|exported| exported.change) {
                    return Ok(Some(KnownOrigin {
                        zxid,
                        client: change.client,
                        identities: change.identities,
                    }));
                }
            }
        }
        Ok(None)
    }
}
