//! Leader election, locks and other recipes, based on [`client::Client`].
//!
//! | task | recipe |
//! |---|---|
//! | lead for the life of a process | [`LeaderLatch`] |
//! | run a future while leading, then let others lead | [`LeaderSelector`] |
//! | elect among a few candidates, as fast as possible | [`UnfairElection`] |
//! | exclude others | [`Mutex`] |
//! | share a lock among readers | [`ReadWriteLock`] |
//! | admit at most n holders | [`Semaphore`] |
//! | acquire several locks as one | [`MultiLock`] |
//! | block all clients until the barrier opens | [`Barrier`] |
//! | start and finish a step together | [`DoubleBarrier`] |
//! | share a value or a counter | [`SharedValue`], [`Counter`] |
//! | distribute work among consumers | [`Queue`], [`PriorityQueue`] |
//! | follow a subtree | [`TreeCache`] |
//! | find services by name | [`ServiceDiscovery`] |
//! | be visible while alive | [`PersistentNode`], [`GroupMember`] |
//!
//! Directories and names are compatible with Apache Curator ([`Layout::Curator`]) and, for locks,
//! with kazoo ([`Layout::Kazoo`]). Programs in other languages can therefore join the same queues.
//!
//! Each recipe has an example that starts with a client like this:
//!
//! ```no_run
//! # async fn example() -> client::Result<()> {
//! use client::{Client, Options};
//!
//! let servers = "zk1:2181,zk2:2181,zk3:2181";
//! let client = Client::connect(Options::new(servers).with_renewal()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What they have in common
//! * Create the client with [`client::Options::with_renewal`]. After an expired session, a recipe
//!   then continues in the next session, as a new contender at the end of the queue. Without
//!   renewal, a recipe fails at the end of the session.
//! * [`client::Client::create_protected`] creates the contenders, so a lost answer does not leave
//!   orphans.
//! * A waiter watches only its predecessor. It uses getData, which does not leave a watch on a
//!   deleted znode.
//! * Every lock, lease and leadership has a [`Token`] that increases from holder to holder. Only a
//!   token protects a resource outside of ZooKeeper from a holder that was stopped for longer than
//!   its session timeout. The resource must refuse a token that is less than the greatest one it
//!   has seen.
//! * After a lost connection, nothing is held any more, immediately. The place in the queue remains
//!   while the session lives.
//! * Every future may be dropped. Dropping a wait or a guard removes the contender from the queue
//!   in the background.
//! * The caller sets time limits: `tokio::time::timeout(limit, mutex.acquire())`.
//!
//! Source: Apache Curator 5.9.0, kazoo 2.11.0, and ZooKeeper's page of recipes.

mod barrier;
mod cache;
mod discovery;
mod error;
mod item;
mod items;
mod latch;
mod multi;
mod mutex;
mod names;
mod node;
mod once;
mod place;
mod queue;
mod read_write;
mod selector;
mod semaphore;
mod session;
mod taken;
mod unfair;
mod value;
mod watched;

pub use barrier::{Barrier, DoubleBarrier, Inside};
pub use cache::{Node, TreeCache};
pub use discovery::{Instance, ServiceDiscovery};
pub use error::{Error, Result};
pub use latch::{LeaderLatch, Participant};
pub use multi::{MultiGuard, MultiLock};
pub use mutex::{LockGuard, Mutex};
pub use names::Layout;
pub use node::{GroupMember, Member, PersistentNode};
pub use place::{Doubt, Token};
pub use queue::{PriorityQueue, Queue};
pub use read_write::{ReadWriteLock, WriteGuard};
pub use selector::{LeaderSelector, Leadership};
pub use semaphore::{Lease, Semaphore};
pub use taken::Taken;
pub use unfair::UnfairElection;
pub use value::{Counter, SharedValue, Versioned, Width};
