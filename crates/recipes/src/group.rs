//! Groups whose members are persistent nodes.

use bytes::Bytes;
use client::Client;

use crate::error::Result;
use crate::node::PersistentNode;
use crate::session::{check_path, child, children_of, data_of};

/// Member of a group, from its start until it is closed or dropped. It is a [`PersistentNode`]
/// below the directory of the group.
///
/// ```
/// # tests::documented(async |client| {
/// use zoarium_recipes::GroupMember;
///
/// let member = GroupMember::start(&client, "/groups/workers", "host-7", "10.0.0.7")?;
/// member.is_there().await?;
/// for other in member.members().await? {
///     assert_eq!(other.id, "host-7");
///     assert_eq!(other.payload, "10.0.0.7");
/// }
/// # Ok::<_, zoarium_recipes::Error>(())
/// # });
/// ```
///
/// Source: GroupMember. Every child of the directory is a member.
#[derive(Debug)]
#[must_use = "dropping it leaves the group"]
pub struct GroupMember {
    node: PersistentNode,
    directory: String,
    own: Member,
}

/// Member in the list of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Name of the member's znode.
    pub id: String,
    /// Data that the member has set.
    pub payload: Bytes,
}

impl GroupMember {
    /// Joins the group at `directory`. A background task does the work, so the call requires a
    /// tokio runtime.
    ///
    /// # Errors
    /// If the path or the id is invalid.
    pub fn start(
        client: &Client,
        directory: &str,
        id: &str,
        payload: impl Into<Bytes>,
    ) -> Result<Self> {
        check_path(directory)?;
        let payload = payload.into();
        let path = child(directory, id)?;
        Ok(Self {
            node: PersistentNode::start(client, &path, payload.clone())?,
            directory: directory.to_owned(),
            own: Member {
                id: id.to_owned(),
                payload,
            },
        })
    }

    /// Waits until other clients can see this member.
    ///
    /// # Errors
    /// See [`PersistentNode::is_there`].
    pub async fn is_there(&self) -> Result<()> {
        self.node.is_there().await
    }

    /// Returns the members, sorted by id. The list always includes this member.
    ///
    /// # Errors
    /// If a server refuses the read.
    pub async fn members(&self) -> Result<Vec<Member>> {
        let client = &self.node.client;
        let mut members = vec![self.own.clone()];
        for id in children_of(client, &self.directory).await? {
            if id == self.own.id {
                continue;
            }
            let path = format!("{}/{id}", self.directory);
            let data = data_of(client, &path).await?;
            members.extend(data.map(|payload| Member { id, payload }));
        }
        members.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(members)
    }

    /// Leaves the group.
    pub async fn close(self) {
        self.node.close().await;
    }
}
