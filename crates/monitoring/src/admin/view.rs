//! What the admin server needs to know besides what four-letter words do.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use parking_lot::RwLock;
use proto::{Id, Sid, Zxid};
use tree::Tree;

use crate::slow::SlowRequests;
use crate::usage::{ClientInfo, Sums};
use crate::view::View;

/// The server as admin commands see it.
pub trait AdminView: View {
    /// The snapshot that was written last; `None` before the first.
    fn last_snapshot(&self) -> Option<LastSnapshot>;

    /// The text of the configuration file; `None` of a member of an ensemble.
    fn initial_configuration(&self) -> Option<String>;

    /// All properties, passwords not included.
    fn system_properties(&self) -> BTreeMap<String, String>;

    /// The observers that this server serves.
    fn observers(&self) -> Vec<ObserverInfo>;

    /// Forgets what was counted of them.
    fn reset_observers(&self);

    /// The identities that these credentials prove; none if they prove nothing.
    fn identities(&self, scheme: &str, data: Option<&[u8]>, address: &str) -> Vec<Id>;

    /// Those of who has shown a certificate with this subject, which is trusted.
    fn identities_of_subject(&self, subject: &str) -> Vec<Id>;

    /// Whether the ACL of `/` names one of these with all permissions, or one is a super user.
    fn is_administrator(&self, identities: &[Id]) -> bool {
        self.tree().read().is_administrator(identities)
    }

    /// Whether the ACL of `/` grants everybody all permissions, which makes nobody an administrator.
    fn is_open_to_world(&self) -> bool {
        self.tree().read().may_do_anything(&[])
    }

    /// The tree, with the ACLs that callers are judged by.
    fn tree(&self) -> &RwLock<Tree>;

    /// Connections with a session, and what belongs to them.
    fn clients(&self) -> Vec<ClientInfo>;

    /// What connections had asked for that have ended.
    fn departed(&self) -> Sums;

    /// The newest requests that took long.
    fn slow_requests(&self) -> &SlowRequests;
}

/// A snapshot on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastSnapshot {
    /// The transaction that it is named after.
    pub zxid: Zxid,
    /// When it was written or loaded, seconds since 1970.
    pub at_s: i64,
}

/// An observer that is connected to this server. Source: LearnerHandler.getLearnerHandlerInfo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObserverInfo {
    /// Its end of the connection.
    pub peer: SocketAddr,
    /// Its id.
    pub sid: Sid,
    /// When it connected, wall-clock ms.
    pub established_ms: i64,
    /// Packets that wait to be written to it.
    pub queued_packets: u64,
    /// Their bytes.
    pub queued_bytes: u64,
    /// Packets from it.
    pub packets_received: u64,
    /// Packets to it.
    pub packets_sent: u64,
    /// Requests that it has passed on.
    pub requests: u64,
    /// The last transaction that was sent to it.
    pub last_zxid: Zxid,
}
