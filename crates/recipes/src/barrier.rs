//! Barriers: one that somebody opens, and one that opens when enough have come.

use bytes::Bytes;
use client::{Client, Create, Watch};
use proto::ErrorCode;

use crate::error::Result;
use crate::names::Layout;
use crate::place::{Place, Queue, make_directory};
use crate::session::{check_path, connected, insist, may_pass};

/// A barrier that holds everybody up while its znode is there.
///
/// ```
/// # tests::documented(async |client| {
/// use recipes::Barrier;
///
/// let barrier = Barrier::new(&client, "/barriers/upgrade")?;
/// barrier.set().await?;
/// // Elsewhere everybody waits for as long as it is there.
/// let wait = barrier.wait();
/// // Until somebody removes it.
/// let remove = barrier.remove();
/// tokio::try_join!(wait, remove)?;
/// # Ok::<_, recipes::Error>(())
/// # });
/// ```
///
/// All who wait are told of the removal, and leave no watch behind.
///
/// Source: DistributedBarrier; kazoo's Barrier has the same znode.
#[derive(Debug, Clone)]
pub struct Barrier {
    client: Client,
    path: String,
}

impl Barrier {
    /// A barrier at `path`.
    ///
    /// # Errors
    /// If the path cannot be one.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        check_path(path)?;
        Ok(Self {
            client: client.clone(),
            path: path.to_owned(),
        })
    }

    /// Closes it; that it is closed already is fine.
    ///
    /// # Errors
    /// If a server refuses that.
    pub async fn set(&self) -> Result<()> {
        make(&self.client, &self.path).await
    }

    /// Opens it; that it is open already is fine.
    ///
    /// # Errors
    /// If a server refuses that.
    pub async fn remove(&self) -> Result<()> {
        delete(&self.client, &self.path).await
    }

    /// Waits until it is open, as the server of this client sees it: one that lags behind may not know yet that it was
    /// closed. Whoever was told so by another way calls [`Client::sync`] first.
    ///
    /// # Errors
    /// If the client is over, or a server refuses the read.
    pub async fn wait(&self) -> Result<()> {
        while until_changed(&self.client, &self.path).await? {}
        Ok(())
    }
}

/// A barrier that lets members in when there are enough of them, and out when all want to leave.
///
/// ```
/// # tests::documented(async |client| {
/// use recipes::DoubleBarrier;
///
/// let barrier = DoubleBarrier::new(&client, "/barriers/step-1", 3)?;
/// let step = async || {
///     let inside = barrier.enter().await?;
///     // All three compute.
///     inside.leave().await
/// };
/// // Each in a program of its own.
/// tokio::try_join!(step(), step(), step())?;
/// # Ok::<_, recipes::Error>(())
/// # });
/// ```
///
/// Every member must give the same number, and leave before it enters again. Dropping a wait takes
/// the member out.
///
/// Source: DistributedDoubleBarrier; kazoo's members may come in, too.
#[derive(Debug, Clone)]
pub struct DoubleBarrier {
    queue: Queue,
    members: usize,
}

impl DoubleBarrier {
    /// A barrier in the directory `path` for so many members.
    ///
    /// # Errors
    /// If the path cannot be one.
    pub fn new(client: &Client, path: &str, members: usize) -> Result<Self> {
        check_path(path)?;
        let queue = Queue {
            client: client.clone(),
            directory: path.to_owned(),
            layout: Layout::Curator,
            words: &[],
        };
        Ok(Self { queue, members })
    }

    fn ready(&self) -> String {
        format!("{}/{READY}", self.queue.directory)
    }

    /// Waits until there are enough members.
    ///
    /// # Errors
    /// If the client is over, or a server refuses what is asked.
    pub async fn enter(&self) -> Result<Inside> {
        let client = &self.queue.client;
        let kind = Create::ephemeral();
        let mut place = self.queue.join_as(MEMBER, &Bytes::new(), &kind).await?;
        loop {
            connected(client).await?;
            let (ready, watch) = match client.watch_exists(&self.ready()).await {
                Ok(answer) => answer,
                Err(error) if may_pass(client, &error) => continue,
                Err(error) => return Err(error.into()),
            };
            let members = self.list().await?;
            if !members.iter().any(|name| name == place.name()) {
                // Its session is over, or an operator deleted it.
                place = self.queue.join_as(MEMBER, &Bytes::new(), &kind).await?;
                continue;
            }
            if ready.is_none() && members.len() < self.members {
                changed(client, watch).await?;
                continue;
            }
            if ready.is_none() {
                make(client, &self.ready()).await?;
            }
            let barrier = self.clone();
            return Ok(Inside { barrier, place });
        }
    }

    /// The members in their order.
    async fn list(&self) -> Result<Vec<String>> {
        let mut names = self.queue.list().await?.unwrap_or_default();
        names.retain(|name| name != READY);
        names.sort();
        Ok(names)
    }
}

/// A member that is in. Dropping it takes it out without waiting for others.
#[derive(Debug)]
pub struct Inside {
    barrier: DoubleBarrier,
    place: Place,
}

impl Inside {
    /// Waits until all members want to leave, or are gone.
    ///
    /// The first of them, by name, stays until all others are gone, so that they have one znode to
    /// watch.
    ///
    /// # Errors
    /// If the client is over, or a server refuses what is asked.
    pub async fn leave(self) -> Result<()> {
        let Self { barrier, place } = self;
        let client = &barrier.queue.client;
        let own = place.name().to_owned();
        let mut place = Some(place);
        loop {
            let members = barrier.list().await?;
            let directory = &barrier.queue.directory;
            let other = match &members[..] {
                [] => break,
                [only] if *only == own => break,
                [first, .., last] if *first == own => last,
                [first, ..] => first,
            };
            if members.first() != Some(&own)
                && let Some(place) = place.take()
            {
                place.leave().await?;
            }
            until_changed(client, &format!("{directory}/{other}")).await?;
        }
        if let Some(place) = place {
            place.leave().await?;
        }
        delete(client, &barrier.ready()).await
    }
}

/// As Curator and kazoo have it.
const READY: &str = "ready";
const MEMBER: &str = "member";

/// Waits until a znode changes or goes; false at once if there is none. Leaves no watch on what is
/// gone.
async fn until_changed(client: &Client, path: &str) -> Result<bool> {
    loop {
        connected(client).await?;
        match client.watch_data(path).await {
            Ok((_, _, watch)) => {
                changed(client, watch).await?;
                return Ok(true);
            }
            Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(false),
            Err(error) if may_pass(client, &error) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

async fn changed(client: &Client, mut watch: Watch) -> Result<()> {
    match watch.changed().await {
        Ok(_) => Ok(()),
        Err(error) if may_pass(client, &error) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Makes a persistent znode, and the directories above it; that it is there is fine.
pub(crate) async fn make(client: &Client, path: &str) -> Result<()> {
    let kind = Create::persistent();
    loop {
        match insist(client, || client.create(path, "", &kind)).await {
            Ok(_) => return Ok(()),
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => return Ok(()),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => {
                if let Some((parent, _)) = path.rsplit_once('/') {
                    make_directory(client, parent).await?;
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

async fn delete(client: &Client, path: &str) -> Result<()> {
    match insist(client, || client.delete(path, -1)).await {
        Ok(()) => Ok(()),
        Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
