//! Options of writes: kinds of znodes to create, and required versions.

use std::time::Duration;

use bytes::Bytes;
use jute::Str;
use proto::request::{CreateRequest, WriteRequest, flags};
use proto::{Acl, OpCode, multi};

/// Kind and ACL of a znode to create.
///
/// ```
/// use std::time::Duration;
/// use zoarium_client::Create;
///
/// let lock = Create::ephemeral().sequential();
/// let cache = Create::ttl(Duration::from_secs(60));
/// assert_ne!(lock, cache);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "it only describes a znode, and `Client::create` creates the znode"]
pub struct Create {
    pub(crate) flags: i32,
    pub(crate) ttl_ms: i64,
    pub(crate) acl: Vec<Acl>,
    pub(crate) with_stat: bool,
}

/// Flags of a sequential container, a kind that ZooKeeper does not support.
pub(crate) const CONTAINER_SEQUENTIAL: i32 = -1;

/// Returns whether the server appends a number to the path.
pub(crate) fn is_sequential(flags: i32) -> bool {
    matches!(
        flags,
        flags::PERSISTENT_SEQUENTIAL | flags::EPHEMERAL_SEQUENTIAL | flags::TTL_SEQUENTIAL
    )
}

impl Create {
    fn new(flags: i32) -> Self {
        Self {
            flags,
            ttl_ms: -1,
            acl: vec![Acl::open()],
            with_stat: false,
        }
    }

    /// Describes a persistent znode.
    pub fn persistent() -> Self {
        Self::new(flags::PERSISTENT)
    }

    /// Describes an ephemeral znode, which is deleted at the end of the session.
    pub fn ephemeral() -> Self {
        Self::new(flags::EPHEMERAL)
    }

    /// Describes a container, which the server deletes after its last child is deleted.
    pub fn container() -> Self {
        Self::new(flags::CONTAINER)
    }

    /// Describes a znode that the server deletes if it has no children and was not modified for
    /// `ttl`. The server refuses a TTL below a millisecond or above 34 years.
    pub fn ttl(ttl: Duration) -> Self {
        Self {
            ttl_ms: i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX),
            ..Self::new(flags::TTL)
        }
    }

    /// Makes the server append a ten-digit number to the path.
    ///
    /// Containers cannot be sequential: the creation fails with
    /// [`Error::SequentialContainer`](crate::Error::SequentialContainer) before it is sent.
    pub fn sequential(mut self) -> Self {
        self.flags = match self.flags {
            flags::PERSISTENT => flags::PERSISTENT_SEQUENTIAL,
            flags::EPHEMERAL => flags::EPHEMERAL_SEQUENTIAL,
            flags::TTL => flags::TTL_SEQUENTIAL,
            flags::CONTAINER => CONTAINER_SEQUENTIAL,
            other => other,
        };
        self
    }

    /// Sets the ACL. The default grants all permissions to `world:anyone`.
    pub fn with_acl(mut self, acl: Vec<Acl>) -> Self {
        self.acl = acl;
        self
    }

    /// Requests the Stat in the reply by sending create2 instead of create (3.5 and later).
    pub fn with_stat(mut self) -> Self {
        self.with_stat = true;
        self
    }

    pub(crate) fn is_ephemeral(&self) -> bool {
        matches!(self.flags, flags::EPHEMERAL | flags::EPHEMERAL_SEQUENTIAL)
    }

    /// Returns the opcode. Containers and TTL znodes have their own opcodes, whose replies always
    /// contain the Stat.
    pub(crate) fn op(&self) -> OpCode {
        match self.flags {
            flags::CONTAINER | CONTAINER_SEQUENTIAL => OpCode::CreateContainer,
            flags::TTL | flags::TTL_SEQUENTIAL => OpCode::CreateTtl,
            _ if self.with_stat => OpCode::Create2,
            _ => OpCode::Create,
        }
    }

    pub(crate) fn record(&self, path: Option<Str>, data: Option<Bytes>) -> CreateRequest {
        CreateRequest {
            path,
            data,
            acl: multi::request_acl(self.acl.iter().cloned()),
            flags: self.flags,
        }
    }

    pub(crate) fn request(&self, path: &str, data: Option<Bytes>) -> WriteRequest {
        WriteRequest::Create {
            op: self.op(),
            request: self.record(Some(path.into()), data),
            ttl: self.ttl_ms,
        }
    }
}

/// Version that a write requires. If the znode has another version, the write fails with
/// [`ErrorCode::BadVersion`](crate::ErrorCode::BadVersion).
///
/// ```no_run
/// # use zoarium_client::{Client, Version};
/// # async fn example(client: &Client) -> zoarium_client::Result<()> {
/// let (_, stat) = client.get_data("/config").await?;
/// client.set_data("/config", "new", stat.version).await?;
/// client.delete("/config", Version::Any).await
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// Every version matches.
    Any,
    /// Only this version matches, usually the version of an earlier [`Stat`](crate::Stat).
    Exactly(i32),
}

/// Number that matches every version in a request. Source: DataTree, ZooKeeper.setData.
const ANY: i32 = -1;

impl Version {
    pub(crate) fn number(self) -> i32 {
        match self {
            Self::Any => ANY,
            Self::Exactly(version) => version,
        }
    }
}

impl From<i32> for Version {
    /// Converts the version of a Stat. The number -1 means every version, as in the protocol.
    fn from(number: i32) -> Self {
        match number {
            ANY => Self::Any,
            version => Self::Exactly(version),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_the_number_of_the_protocol() {
        assert_eq!(Version::Any.number(), -1);
        assert_eq!(Version::from(-1), Version::Any);
        for number in [0, 7, i32::MAX, i32::MIN] {
            assert_eq!(Version::from(number), Version::Exactly(number));
            assert_eq!(Version::from(number).number(), number);
        }
    }

    #[test]
    fn a_ttl_is_sent_in_milliseconds() {
        assert_eq!(Create::ttl(Duration::from_secs(60)).ttl_ms, 60_000);
        assert_eq!(Create::ttl(Duration::MAX).ttl_ms, i64::MAX);
    }
}
