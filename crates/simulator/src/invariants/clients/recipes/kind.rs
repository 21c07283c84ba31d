//! The recipes that contenders run.

/// Recipe that contenders run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recipe {
    /// Exclusive lock.
    Mutex,
    /// Lock that readers share.
    ReadWriteLock,
    /// Semaphore with two leases.
    Semaphore,
    /// Election in which the leader stays.
    LeaderLatch,
    /// Election in which leaders take turns.
    LeaderSelector,
    /// Election on one znode.
    UnfairElection,
    /// Queue whose items go to any free consumer.
    Queue,
    /// Two locks that are acquired together.
    MultiLock,
    /// Lock that is held until another process asks for it.
    Revoker,
    /// Election with observers.
    Election,
    /// Set that contenders divide among themselves.
    SetPartitioner,
    /// Barrier that one process opens.
    Barrier,
    /// Barrier that two processes enter and leave together.
    DoubleBarrier,
    /// Counter that is also changed as a shared value.
    Counter,
    /// Leases for one holder and for two holders.
    Lease,
    /// Queue with priorities.
    PriorityQueue,
    /// Queue with due times.
    DelayQueue,
    /// Queue with ids.
    IdQueue,
    /// Queue in kazoo's layout.
    LockingQueue,
    /// Queue that deletes an item before its consumer processes it.
    SimpleQueue,
    /// Copy of a subtree.
    TreeCache,
    /// Registration of a service's instances, and choice among them.
    ServiceProvider,
    /// Znode that is created again after each deletion.
    PersistentNode,
    /// Znode that outlives its session for a while.
    PersistentTtlNode,
    /// Group of named members.
    GroupMember,
    /// Pools in kazoo's two layouts.
    Party,
}

impl Recipe {
    /// Recipes of which a seed draws two.
    pub const DRAWN: [Self; 7] = [
        Self::Mutex,
        Self::ReadWriteLock,
        Self::Semaphore,
        Self::LeaderLatch,
        Self::LeaderSelector,
        Self::UnfairElection,
        Self::Queue,
    ];

    /// Recipes that are never drawn, so that the drawn recipes of each seed stay the same. Each of
    /// them has separate runs.
    pub const ALONE: [Self; 19] = [
        Self::MultiLock,
        Self::Revoker,
        Self::Election,
        Self::SetPartitioner,
        Self::Barrier,
        Self::DoubleBarrier,
        Self::Counter,
        Self::Lease,
        Self::PriorityQueue,
        Self::DelayQueue,
        Self::IdQueue,
        Self::LockingQueue,
        Self::SimpleQueue,
        Self::TreeCache,
        Self::ServiceProvider,
        Self::PersistentNode,
        Self::PersistentTtlNode,
        Self::GroupMember,
        Self::Party,
    ];

    /// Returns all recipes.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::DRAWN.into_iter().chain(Self::ALONE)
    }

    /// Returns the directory or the znode of the recipe.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Mutex => "/mutex",
            Self::ReadWriteLock => "/read-write",
            Self::Semaphore => "/semaphore",
            Self::LeaderLatch => "/latch",
            Self::LeaderSelector => "/selector",
            Self::UnfairElection => "/unfair/leader",
            Self::Queue => "/queue",
            Self::MultiLock => "/multi",
            Self::Revoker => "/asked",
            Self::Election => "/election",
            Self::SetPartitioner => "/set",
            Self::Barrier => "/barrier",
            Self::DoubleBarrier => "/double",
            Self::Counter => "/counter",
            Self::Lease => "/leases",
            Self::PriorityQueue => "/priorities",
            Self::DelayQueue => "/delays",
            Self::IdQueue => "/ids",
            Self::LockingQueue => "/locking",
            Self::SimpleQueue => "/simple",
            Self::TreeCache => "/cache",
            Self::ServiceProvider => "/services",
            Self::PersistentNode => "/nodes",
            Self::PersistentTtlNode => "/ttl",
            Self::GroupMember => "/group",
            Self::Party => "/party",
        }
    }

    /// Returns the directories of the items and of their locks, if the recipe is a queue.
    pub(super) fn items(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Queue => Some(("/queue", "/queue-locks")),
            Self::PriorityQueue => Some(("/priorities", "/priorities-locks")),
            Self::DelayQueue => Some(("/delays", "/delays-locks")),
            Self::IdQueue => Some(("/ids", "/ids-locks")),
            Self::LockingQueue => Some(("/locking/entries", "/locking/taken")),
            Self::SimpleQueue => Some(("/simple", "/simple-locks")),
            _ => None,
        }
    }
}
