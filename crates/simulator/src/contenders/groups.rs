//! Programs that maintain znodes for a living process, and programs that read such znodes.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use client::ErrorCode;
use recipes::{
    GroupMember, Instance, Party, PersistentNode, PersistentTtlNode, Result, ServiceDiscovery,
    ServiceProvider, SharedValue, Strategy, TreeCache,
};
use tokio::time::sleep;

use super::programs::{Contender, ProgramEvent};
use crate::invariants::recipes::{Identifiers, Recipe, Seen};

/// TTL of a znode. A running client writes to a child of the znode twice in this time.
const TTL: Duration = Duration::from_millis(1500);
/// Pause between two reads while a process waits for a condition.
const PAUSE: Duration = Duration::from_millis(20);
/// Number of round trips after which a cache must have read each change that preceded them.
const ROUND_TRIPS: usize = 200;

impl Contender<'_> {
    /// Returns the path of the znode that this process and its predecessors maintain.
    fn own_path(&self) -> String {
        format!(
            "{}/host-{}",
            self.program.recipe.path(),
            self.program.number
        )
    }

    /// Waits until a znode exists or, if `exists` is false, until it does not exist. Returns false
    /// if the run ends first.
    async fn until_exists(&self, path: &str, exists: bool) -> Result<bool> {
        let waiting = async {
            while self.client.exists(path).await?.is_some() != exists {
                sleep(PAUSE).await;
            }
            Ok(())
        };
        Ok(self.unless_ending(waiting).await?.is_some())
    }

    /// Returns the zxid that created a znode, if the znode exists.
    async fn created(&self, path: &str) -> Result<Option<i64>> {
        let stat = self.client.exists(path).await?;
        Ok(stat.map(|stat| stat.czxid))
    }

    /// Deletes a znode if it exists, as an operator may.
    async fn delete(&self, path: &str) -> Result<()> {
        match self.client.delete(path, -1).await {
            Err(error) if error.code() != Some(ErrorCode::NoNode) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Maintains a znode, and meanwhile writes or deletes it.
    pub(super) async fn persist(&mut self) -> Result<()> {
        let path = self.own_path();
        let mut data = Bytes::from(format!("{}-0", self.program.seed));
        let node = PersistentNode::start(self.client, &path, data.clone())?;
        for number in 1..=self.random.range(2, 6) {
            let session = self.begin().await?;
            if self.unless_ending(node.is_there()).await?.is_none() {
                break;
            }
            let (path, owner) = (path.clone(), Some(session));
            self.observe(
                session,
                Seen::Present {
                    path,
                    data: data.clone(),
                    owner,
                },
            );
            self.program.tell(ProgramEvent::Done);
            self.pause(0, 50).await;
            if self.random.percent(50) {
                data = Bytes::from(format!("{}-{number}", self.program.seed));
                node.set_data(data.clone());
            } else {
                self.delete(node.path()).await?;
                self.until_exists(node.path(), true).await?;
            }
        }
        node.close().await;
        Ok(())
    }

    /// Maintains a TTL znode, which a server deletes some time after the process stops maintaining
    /// it.
    pub(super) async fn persist_for_a_while(&mut self) -> Result<()> {
        let path = self.own_path();
        let data = Bytes::from(self.program.seed.to_string());
        let node = PersistentTtlNode::start(self.client, &path, TTL, data.clone())?;
        let session = self.begin().await?;
        if self.unless_ending(node.is_there()).await?.is_none() {
            return Ok(());
        }
        self.observe(
            session,
            Seen::Present {
                path: path.clone(),
                data,
                owner: None,
            },
        );
        self.program.tell(ProgramEvent::Done);
        let was_calm = self.program.is_calm();
        let mut state = self.client.state();
        state.borrow_and_update();
        sleep(TTL).await;
        let before = self.created(&path).await?;
        sleep(2 * TTL).await;
        let after = self.created(&path).await?;
        let is_connected = !state.has_changed().unwrap_or(true);
        if was_calm && is_connected && before != after {
            let text = format!("{path} was deleted although it is maintained");
            self.program.tell(ProgramEvent::Wrong(text));
        }
        self.program.tell(ProgramEvent::Done);
        node.close().await;
        // Servers with wrong clocks may keep the znode for longer.
        if self.program.is_calm() && self.until_exists(&path, false).await? {
            self.program.tell(ProgramEvent::Done);
        }
        Ok(())
    }

    /// Joins a group and lists its members.
    pub(super) async fn join_group(&mut self) -> Result<()> {
        let directory = Recipe::GroupMember.path().to_owned();
        let id = format!("host-{}", self.program.number);
        let member = GroupMember::start(self.client, &directory, &id, "")?;
        if self.unless_ending(member.is_there()).await?.is_none() {
            return Ok(());
        }
        for _ in 0..5 {
            let session = self.begin().await?;
            let members = member.members().await?.into_iter();
            // The list always contains this member, even after an operator has deleted its znode.
            let mut ids: Vec<String> = members.map(|member| member.id).collect();
            if !ids.contains(&id) {
                self.program
                    .tell(ProgramEvent::Wrong(format!("{ids:?} lack {id}")));
            }
            if self.client.exists(&self.own_path()).await?.is_none() {
                ids.retain(|other| *other != id);
            }
            let (directory, identifiers) = (directory.clone(), Identifiers::Names);
            self.observe(
                session,
                Seen::Members {
                    directory,
                    ids,
                    identifiers,
                },
            );
            self.program.tell(ProgramEvent::Done);
            self.pause(0, 50).await;
        }
        member.close().await;
        Ok(())
    }

    /// Joins a pool in one of kazoo's layouts, and lists its members.
    pub(super) async fn join_party(&mut self) -> Result<()> {
        let id = format!("host-{}", self.program.number);
        let (directory, identifiers, party) = if self.random.percent(50) {
            let party = Party::start(self.client, "/party", &id)?;
            ("/party", Identifiers::Data, party)
        } else {
            let party = Party::start_shallow(self.client, "/party-shallow", &id)?;
            ("/party-shallow", Identifiers::Endings, party)
        };
        if self.unless_ending(party.is_there()).await?.is_none() {
            return Ok(());
        }
        for _ in 0..5 {
            let session = self.begin().await?;
            let ids = party.members().await?;
            let directory = directory.to_owned();
            self.observe(
                session,
                Seen::Members {
                    directory,
                    ids,
                    identifiers,
                },
            );
            self.program.tell(ProgramEvent::Done);
            self.pause(0, 50).await;
        }
        party.close().await;
        Ok(())
    }

    /// Registers an instance, and chooses among the instances.
    pub(super) async fn provide(&mut self) -> Result<()> {
        let services = ServiceDiscovery::new(self.client, Recipe::ServiceProvider.path())?;
        let strategies = [Strategy::RoundRobin, Strategy::Random, Strategy::Sticky];
        let strategy = self.random.pick(&strategies).unwrap_or(Strategy::Random);
        let provider = ServiceProvider::start(&services, "job", strategy)?;
        self.items += 1;
        let id = format!("{}-{}", self.program.seed, self.items);
        let registered = services.register(&Instance::new("job", &id))?;
        let knows = |known: bool| {
            let (provider, id) = (&provider, &id);
            async move {
                let mut revisions = provider.revisions();
                while provider.instances().iter().any(|it| it.id == *id) != known {
                    if revisions.changed().await.is_err() {
                        std::future::pending::<()>().await;
                    }
                }
                Ok(())
            }
        };
        if self.unless_ending(knows(true)).await?.is_none() {
            return Ok(());
        }
        match provider.choose() {
            Some(chosen) => {
                provider.report_error(&chosen);
                provider.report_error(&chosen);
                if provider.choose().is_some_and(|next| next.id == chosen.id) {
                    let text = format!("{} is down, but chosen", chosen.id);
                    self.program.tell(ProgramEvent::Wrong(text));
                }
            }
            None => {
                let text = format!("no instance is chosen, although {id} is known");
                self.program.tell(ProgramEvent::Wrong(text));
            }
        }
        self.program.tell(ProgramEvent::Done);
        self.pause(0, 50).await;
        registered.close().await;
        if self.unless_ending(knows(false)).await?.is_some() {
            self.program.tell(ProgramEvent::Done);
        }
        provider.close().await;
        Ok(())
    }

    /// Writes znodes, and compares a cache with the tree.
    pub(super) async fn cache(&mut self) -> Result<()> {
        let root = Recipe::TreeCache.path();
        let cache = TreeCache::start(self.client, root)?;
        for _ in 0..10 {
            let path = format!("{root}/{}", self.random.below(40));
            if self.random.percent(70) {
                self.items += 1;
                let data = format!("{}-{}", self.program.seed, self.items);
                SharedValue::new(self.client, &path, Bytes::new())?
                    .set(data)
                    .await?;
            } else {
                self.delete(&path).await?;
            }
            if self.unless_ending(self.agrees(&cache)).await?.is_none() {
                break;
            }
            self.program.tell(ProgramEvent::Done);
            self.pause(0, 100).await;
        }
        cache.close().await;
        Ok(())
    }

    /// Checks that a cache knows everything that was committed when this function began. The events
    /// of these changes reach the cache before the replies to the reads of this function, and the
    /// cache then reads the changed znodes.
    async fn agrees(&self, cache: &TreeCache) -> Result<()> {
        let root = Recipe::TreeCache.path();
        cache.is_complete().await?;
        let mut state = self.client.state();
        state.borrow_and_update();
        self.client.sync(root).await?;
        let Some(stat) = self.client.exists(root).await? else {
            return Ok(());
        };
        let mut written = BTreeMap::new();
        for name in self.client.get_children(root).await? {
            let path = format!("{root}/{name}");
            if let Some(stat) = self.client.exists(&path).await? {
                written.insert(path, stat.mzxid);
            }
        }
        let mut stale = String::new();
        for _ in 0..ROUND_TRIPS {
            let Some(path) = stale_path(cache, root, stat.pzxid, &written) else {
                return Ok(());
            };
            // A znode that is missing in the cache may have been deleted meanwhile.
            match self.client.exists(&path).await? {
                Some(stat) => written.insert(path.clone(), stat.mzxid),
                None => written.remove(&path),
            };
            // After an interruption of the connection, the cache may read everything again.
            if state.has_changed().unwrap_or(true) {
                return Ok(());
            }
            stale = path;
        }
        let text = format!("the cache does not know the last change of {stale}");
        self.program.tell(ProgramEvent::Wrong(text));
        Ok(())
    }
}

/// Returns a path for which the cache is older than the tree, if any. `listed` is the zxid of the
/// last change of the list of children, and `written` contains the zxid of each znode's last write.
fn stale_path(
    cache: &TreeCache,
    root: &str,
    listed: i64,
    written: &BTreeMap<String, i64>,
) -> Option<String> {
    let is_older = |(path, mzxid): &(&String, &i64)| {
        let known = cache.get(path).map(|node| node.stat.mzxid);
        known.is_none_or(|known| known < **mzxid)
    };
    if let Some((path, _)) = written.iter().find(is_older) {
        return Some(path.clone());
    }
    let mut known = cache.paths().into_iter().filter(|path| path != root);
    known.find(|path| {
        let is_old = cache
            .get(path)
            .is_some_and(|node| node.stat.czxid <= listed);
        is_old && !written.contains_key(path)
    })
}
