//! Leader election, locks and friends, on [`client::Client`].
//!
//! | to | take |
//! |---|---|
//! | know who leads, over the life of a process | [`LeaderLatch`] |
//! | run something while leading, then let others | [`LeaderSelector`] |
//! | elect among a few, as quickly as may be | [`UnfairElection`] |
//! | exclude others | [`Mutex`] |
//! | let readers share | [`ReadWriteLock`] |
//! | let at most n in | [`Semaphore`] |
//! | take several locks as one | [`MultiLock`] |
//! | hold everybody up until a word | [`Barrier`] |
//! | begin and end a step together | [`DoubleBarrier`] |
//! | share a value, or count | [`SharedValue`], [`Counter`] |
//! | hand work to whoever is free | [`Queue`], [`PriorityQueue`] |
//! | follow a subtree | [`TreeCache`] |
//! | find services by name | [`ServiceDiscovery`] |
//! | be seen while alive | [`PersistentNode`], [`GroupMember`] |
//!
//! Their directories and names are those of Apache Curator ([`Layout::Curator`]), for locks also
//! those of kazoo ([`Layout::Kazoo`]), so that programs in other languages can stand in the same
//! queue.
//!
//! Each has an example, which begins with a client such as this one:
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
//! * Give the client [`client::Options::with_renewal`]: after an expired session a recipe goes on
//!   with the next one, as a new contender at the end of the queue. Without it a recipe fails when
//!   the session is over.
//! * A contender is made by [`client::Client::create_protected`]: a lost answer leaves no orphan.
//! * A waiter watches its predecessor and nothing else, with getData, which leaves no watch on what
//!   is gone.
//! * Whatever grants gives a [`Token`], which grows from holder to holder. Only a token protects
//!   something outside of ZooKeeper from a holder that was stopped for longer than its session
//!   lasts: let the resource refuse a token that is less than the greatest it has seen.
//! * A lost connection means that nothing is held *at once*; the place in the queue is kept as long
//!   as the session lives.
//! * Every future may be dropped. Dropping a wait, or a guard, takes the contender out of the queue
//!   behind the scenes.
//! * Time limits are the caller's: `tokio::time::timeout(limit, mutex.acquire())`.
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
