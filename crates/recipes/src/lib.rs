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
//! | distribute work among consumers | [`Queue`], [`PriorityQueue`], [`DelayQueue`], [`IdQueue`], [`LockingQueue`] |
//! | distribute work that may get lost | [`SimpleQueue`] |
//! | divide a set among members | [`SetPartitioner`] |
//! | follow a subtree, a znode or its children | [`TreeCache`] |
//! | find services by name | [`ServiceDiscovery`], [`ServiceProvider`] |
//! | be visible while alive | [`PersistentNode`], [`GroupMember`], [`Party`] |
//! | stay visible for a TTL after the process ends | [`PersistentTtlNode`] |
//! | see the candidates of an election | [`Election`] |
//! | hold a right for a fixed time | [`NonBlockingLease`], [`MultiNonBlockingLease`] |
//!
//! Directories and names are compatible with Apache Curator ([`Layout::Curator`]) and, for locks,
//! with kazoo ([`Layout::Kazoo`]). Programs in other languages can therefore join the same queues.
//!
//! Each recipe has an example that starts with a client like this:
//!
//! ```no_run
//! # async fn example() -> zoarium_recipes::client::Result<()> {
//! use zoarium_recipes::client::{Client, Options};
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
//!   orphaned znodes.
//! * A waiter watches only its predecessor. It uses getData, which does not leave a watch on a
//!   deleted znode.
//! * Every lock, lease and leadership has a [`Token`] that increases from holder to holder. Only a
//!   token protects a resource outside of ZooKeeper from a holder that was stopped for longer than
//!   its session timeout. The resource must refuse a token that is less than the greatest token it
//!   has seen.
//! * While the connection is lost, it is uncertain whether a lock, lease or leadership is still
//!   held. The place in the queue remains while the session lives.
//! * Every future may be dropped. Dropping a wait or a guard removes the contender from the queue
//!   in the background.
//! * The caller sets time limits: `tokio::time::timeout(limit, mutex.acquire())`.
//!
//! Source: Apache Curator 5.9.0, kazoo 2.11.0, and ZooKeeper's page of recipes.

mod barrier;
mod cache;
mod counter;
mod discovery;
mod election;
mod error;
mod item;
mod items;
mod labelled;
mod latch;
mod lease;
mod multi;
mod mutex;
mod names;
mod node;
mod once;
mod partition;
mod party;
mod provider;
mod queue;
mod queue_entry;
mod read_write;
mod selector;
mod semaphore;
mod session;
mod simple_queue;
mod taken_items;
mod ttl_node;
mod unfair;
mod value;
mod wall_clock;
mod watched;

pub use barrier::{Barrier, DoubleBarrier, Inside};
pub use cache::{CacheEvent, CacheEvents, CacheScope, Node, TreeCache};
pub use counter::{Counter, Width};
pub use discovery::{Instance, ServiceDiscovery, ServiceType};
pub use election::{Election, Participant};
pub use error::{Error, Result};
pub use labelled::{DelayQueue, IdQueue, LockingQueue};
pub use latch::LeaderLatch;
pub use lease::{MultiNonBlockingLease, NonBlockingLease};
pub use multi::{MultiGuard, MultiLock};
pub use mutex::{LockGuard, Mutex};
pub use names::Layout;
pub use node::PersistentNode;
pub use partition::{SetPartitioner, Share};
pub use party::{GroupMember, Member, Party};
pub use provider::{DownPolicy, ServiceProvider, Strategy};
pub use queue::{PriorityQueue, Queue};
pub use queue_entry::{Token, UncertaintyCause};
pub use read_write::{ReadWriteLock, WriteGuard};
pub use selector::{LeaderSelector, Leadership};
pub use semaphore::{Lease, Leases, Semaphore};
pub use simple_queue::SimpleQueue;
pub use taken_items::TakenItems;
pub use ttl_node::PersistentTtlNode;
pub use unfair::UnfairElection;
pub use value::{SharedValue, Versioned};

/// Crates whose types occur in signatures.
pub use {bytes, client, serde_json, tokio};
