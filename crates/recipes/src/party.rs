//! Groups of members, in kazoo's and Curator's layouts.

use bytes::Bytes;
use client::Client;

use crate::error::Result;
use crate::node::PersistentNode;
use crate::session::{check_path, child, children_of, data_of};

/// Suffix of the names of members whose identifier is the data.
const WORD: &str = "__party__";

/// Member of a pool, from its start until it is closed or dropped. It is a [`PersistentNode`] below
/// the directory of the pool.
///
/// ```
/// # tests::documented(async |client| {
/// use zoarium_recipes::Party;
///
/// let member = Party::start(&client, "/parties/workers", "host-7")?;
/// member.is_there().await?;
/// assert_eq!(member.members().await?, ["host-7"]);
/// # Ok::<_, zoarium_recipes::Error>(())
/// # });
/// ```
///
/// | | `start` | `start_shallow` |
/// |---|---|---|
/// | identifier | data of the znode | part of its name |
/// | requests of `members` | getChildren, getData for each member | getChildren |
///
/// Source: kazoo's Party and ShallowParty. Unlike kazoo's members, this member joins again in the
/// next session.
#[derive(Debug)]
#[must_use = "dropping it leaves the pool"]
pub struct Party {
    client: Client,
    node: PersistentNode,
    directory: String,
    is_shallow: bool,
}

impl Party {
    /// Joins the pool in `directory`. A background task does the work, so the call requires a tokio
    /// runtime.
    ///
    /// # Errors
    /// If the path is invalid.
    pub fn start(client: &Client, directory: &str, identifier: &str) -> Result<Self> {
        let data = Bytes::copy_from_slice(identifier.as_bytes());
        Self::start_as(client, directory, WORD, data, false)
    }

    /// Works like [`start`](Self::start), for a pool in which the identifier is part of the znode's
    /// name.
    ///
    /// ```
    /// # tests::documented(async |client| {
    /// use zoarium_recipes::Party;
    ///
    /// let member = Party::start_shallow(&client, "/parties/readers", "host-7")?;
    /// member.is_there().await?;
    /// assert_eq!(member.members().await?, ["host-7"]);
    /// # Ok::<_, zoarium_recipes::Error>(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// If the path is invalid, or the identifier cannot be part of a name.
    pub fn start_shallow(client: &Client, directory: &str, identifier: &str) -> Result<Self> {
        let data = Bytes::copy_from_slice(identifier.as_bytes());
        Self::start_as(client, directory, &format!("-{identifier}"), data, true)
    }

    fn start_as(
        client: &Client,
        directory: &str,
        ending: &str,
        data: Bytes,
        is_shallow: bool,
    ) -> Result<Self> {
        check_path(directory)?;
        let hex = client.random_uuid().replace('-', "");
        let path = child(directory, &format!("{hex}{ending}"))?;
        Ok(Self {
            client: client.clone(),
            node: PersistentNode::start(client, &path, data)?,
            directory: directory.to_owned(),
            is_shallow,
        })
    }

    /// Waits until other clients can see this member.
    ///
    /// # Errors
    /// See [`PersistentNode::is_there`].
    pub async fn is_there(&self) -> Result<()> {
        self.node.is_there().await
    }

    /// Returns the sorted identifiers of the members.
    ///
    /// # Errors
    /// If a server refuses the read.
    pub async fn members(&self) -> Result<Vec<String>> {
        let names = children_of(&self.client, &self.directory).await?;
        if self.is_shallow {
            return Ok(identifiers_in(names.iter().map(String::as_str)));
        }
        let mut members = Vec::new();
        for name in names.iter().filter(|name| name.contains(WORD)) {
            let data = data_of(&self.client, &format!("{}/{name}", self.directory)).await?;
            members.extend(data.map(|data| String::from_utf8_lossy(&data).into_owned()));
        }
        members.sort();
        Ok(members)
    }

    /// Leaves the pool.
    pub async fn close(self) {
        self.node.close().await;
    }
}

/// Returns the sorted identifiers in the names of members.
pub(crate) fn identifiers_in<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let identifier = |name: &'a str| name.split_once('-').map_or(name, |(_, id)| id).to_owned();
    let mut found: Vec<_> = names.into_iter().map(identifier).collect();
    found.sort();
    found
}

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
