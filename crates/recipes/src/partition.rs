//! Division of a set among the members of a pool, in kazoo's layout.

use std::collections::BTreeSet;
use std::task::Poll;
use std::time::Duration;

use client::Client;

use crate::error::{Error, Result};
use crate::mutex::{LockGuard, Mutex};
use crate::names::Layout;
use crate::party::{Party, identifiers_in};
use crate::session::{check_path, child, connected};
use crate::watched::watch_ended;

/// Default time without a change of members, as in kazoo.
const QUIET_TIME: Duration = Duration::from_secs(30);

/// Member of a pool that divides a set. Each item of the set belongs to one member at a time.
///
/// ```
/// # tests::documented(async |client| {
/// use std::time::Duration;
///
/// use zoarium_recipes::SetPartitioner;
///
/// let partitioner = SetPartitioner::start(&client, "/shards", &["a", "b", "c"], "host-7")?;
/// # let partitioner = partitioner.with_quiet_time(Duration::from_millis(50));
/// let share = partitioner.share().await?;
/// assert_eq!(share.items(), ["a", "b", "c"]);
/// // Work on the items until the members change.
/// tokio::select! {
///     () = share.is_outdated() => {}
///     () = work(share.items()) => {}
/// }
/// share.release().await?;
/// # async fn work(_items: &[String]) {}
/// # Ok::<_, zoarium_recipes::Error>(())
/// # });
/// ```
///
/// The members must use the same set, and different identifiers. With n members in the order of
/// their identifiers, a member receives every n-th item, and holds a lock for each of its items.
/// After a change of the members, the set is divided again once the members have not changed for a
/// while. A member receives an item only after the previous owner has released the item.
///
/// Source: kazoo's SetPartitioner. Unlike kazoo's members, this member continues in the next
/// session.
#[derive(Debug)]
#[must_use = "dropping it leaves the pool"]
pub struct SetPartitioner {
    client: Client,
    party: Party,
    directory: String,
    items: BTreeSet<String>,
    identifier: String,
    quiet_time: Duration,
}

impl SetPartitioner {
    /// Joins the pool in the directory `path`. A background task does the work, so the call
    /// requires a tokio runtime.
    ///
    /// # Errors
    /// If the path is invalid, or an item or the identifier cannot be part of a znode's name.
    pub fn start(client: &Client, path: &str, items: &[&str], identifier: &str) -> Result<Self> {
        check_path(path)?;
        for item in items {
            child(path, item)?;
        }
        if items.is_empty() {
            return Err(Error::argument(path, "the set is empty"));
        }
        Ok(Self {
            client: client.clone(),
            party: Party::start_shallow(client, &format!("{path}/party"), identifier)?,
            directory: path.to_owned(),
            items: items.iter().map(|item| (*item).to_owned()).collect(),
            identifier: identifier.to_owned(),
            quiet_time: QUIET_TIME,
        })
    }

    /// Sets the time without a change of members after which the members divide the set.
    pub fn with_quiet_time(mut self, quiet_time: Duration) -> Self {
        self.quiet_time = quiet_time;
        self
    }

    /// Waits for this member's share. The share may be empty. Dropping the future releases the
    /// items that it has acquired so far.
    ///
    /// # Errors
    /// If the session has ended, or a server refuses a request.
    pub async fn share(&self) -> Result<Share<'_>> {
        loop {
            let members = self.stable_members().await?;
            let Some(items) = items_of_member(&self.items, &members, &self.identifier) else {
                continue;
            };
            let acquired = tokio::select! {
                biased;
                acquired = self.acquire(&items) => Some(acquired?),
                other = self.wait_for_other_members(&members) => other.map(|()| None)?,
            };
            if let Some(guards) = acquired {
                return Ok(Share {
                    of: self,
                    members,
                    items,
                    guards,
                });
            }
        }
    }

    async fn acquire(&self, items: &[String]) -> Result<Vec<LockGuard>> {
        let mut guards = Vec::new();
        for item in items {
            let path = format!("{}/locks/{item}", self.directory);
            let mutex = Mutex::new(&self.client, &path)?.with_layout(Layout::Kazoo);
            guards.push(mutex.acquire().await?);
        }
        Ok(guards)
    }

    /// Waits until the members have not changed for the quiet time, and returns them.
    async fn stable_members(&self) -> Result<Vec<String>> {
        loop {
            self.party.is_there().await?;
            let read = self.client.watch_children(&self.pool()).await;
            let members = match &read {
                Ok((names, ..)) => identifiers_in(names.iter().map(|name| &**name)),
                Err(_) => Vec::new(),
            };
            tokio::select! {
                biased;
                end = watch_ended(&self.client, read) => {
                    end?;
                }
                () = tokio::time::sleep(self.quiet_time) => return Ok(members),
            }
        }
    }

    /// Waits until the members have changed.
    async fn wait_for_other_members(&self, members: &[String]) -> Result<()> {
        loop {
            connected(&self.client).await?;
            let read = self.client.watch_children(&self.pool()).await;
            if let Ok((names, ..)) = &read
                && identifiers_in(names.iter().map(|name| &**name)) != members
            {
                return Ok(());
            }
            watch_ended(&self.client, read).await?;
        }
    }

    fn pool(&self) -> String {
        format!("{}/party", self.directory)
    }

    /// Leaves the pool.
    pub async fn close(self) {
        self.party.close().await;
    }
}

/// Returns the items of the member `own`, or `None` if `members` does not contain `own`.
fn items_of_member(items: &BTreeSet<String>, members: &[String], own: &str) -> Option<Vec<String>> {
    let first = members.iter().position(|member| member == own)?;
    let share = items.iter().skip(first).step_by(members.len());
    Some(share.cloned().collect())
}

/// Items of one member. Dropping the share releases the items in the background.
#[derive(Debug)]
#[must_use = "dropping it releases the items"]
pub struct Share<'a> {
    of: &'a SetPartitioner,
    members: Vec<String>,
    items: Vec<String>,
    guards: Vec<LockGuard>,
}

impl Share<'_> {
    /// Returns the items of this member.
    pub fn items(&self) -> &[String] {
        &self.items
    }

    /// Returns the guards of the items, in the order of the items.
    pub fn guards(&self) -> &[LockGuard] {
        &self.guards
    }

    /// Returns whether all items are certainly held. See [`LockGuard::is_certain`].
    pub fn is_certain(&self) -> bool {
        self.guards.iter().all(LockGuard::is_certain)
    }

    /// Waits until the members have changed, or until it is uncertain whether an item is held. Work
    /// on the items must then stop, and the share must be released.
    pub async fn is_outdated(&self) {
        let waits = self
            .guards
            .iter()
            .map(|guard| Box::pin(guard.wait_until_uncertain()));
        let mut waits: Vec<_> = waits.collect();
        let uncertain = std::future::poll_fn(|context| {
            let mut waits = waits.iter_mut();
            if waits.any(|wait| wait.as_mut().poll(context).is_ready()) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        tokio::select! {
            biased;
            () = uncertain => {}
            // An error, such as the end of the session, also makes the share outdated.
            _ = self.of.wait_for_other_members(&self.members) => {}
        }
    }

    /// Releases all items, even if one release fails.
    ///
    /// # Errors
    /// If a release fails. Returns the first error. See [`LockGuard::release`].
    pub async fn release(self) -> Result<()> {
        let mut released = Ok(());
        for guard in self.guards {
            released = released.and(guard.release().await.map(drop));
        }
        released
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_belongs_to_one_member() {
        let text = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let items: Vec<String> = text(&["c", "a", "b", "d", "e"]);
        let items = BTreeSet::from_iter(items);
        let members: Vec<String> = text(&["x", "y"]);
        assert_eq!(
            items_of_member(&items, &members, "x").unwrap(),
            ["a", "c", "e"]
        );
        assert_eq!(items_of_member(&items, &members, "y").unwrap(), ["b", "d"]);
        assert_eq!(items_of_member(&items, &members, "z"), None);
    }
}
