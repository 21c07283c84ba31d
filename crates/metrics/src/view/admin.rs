//! View of the server for the admin server, in addition to the view for four-letter words.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use parking_lot::RwLock;
use proto::{Id, Sid, Zxid};
use tree::Tree;

use super::View;
use super::usage::{ClientInfo, UsageSums};
use crate::requests::slow::SlowRequests;

/// View of the server for admin commands.
pub trait AdminView: View {
    /// Returns the last snapshot that was written or loaded, or `None` before the first one.
    fn last_snapshot(&self) -> Option<LastSnapshot>;

    /// Returns the text of the configuration file without its secrets, or `None` on a member of an
    /// ensemble.
    fn initial_configuration(&self) -> Option<String>;

    /// Returns all properties. The values of secrets are hidden.
    fn system_properties(&self) -> BTreeMap<String, String>;

    /// Returns the observers that this server serves.
    fn observers(&self) -> Vec<ObserverInfo>;

    /// Resets the counters of the observers.
    fn reset_observers(&self);

    /// Returns the identities that these credentials prove. The list is empty for invalid
    /// credentials.
    fn identities(&self, scheme: &str, data: Option<&[u8]>, address: &str) -> Vec<Id>;

    /// Returns the identities of a client that has a trusted certificate with this subject.
    fn identities_of_subject(&self, subject: &str) -> Vec<Id>;

    /// Returns whether one identity is a super user, or whether the entries for these identities in
    /// the ACL of `/` together grant all permissions.
    fn is_administrator(&self, identities: &[Id]) -> bool {
        self.tree().read().is_administrator(identities)
    }

    /// Returns whether the ACL of `/` grants all permissions to everybody. Such an ACL does not
    /// make anyone an administrator.
    fn is_open_to_world(&self) -> bool {
        self.tree().read().has_all_permissions(&[])
    }

    /// Returns the tree, which contains the ACLs for authorization.
    fn tree(&self) -> &RwLock<Tree>;

    /// Returns the connections that have a session, and their resources.
    fn clients(&self) -> Vec<ClientInfo>;

    /// Returns the usage of ended connections.
    fn closed_usage(&self) -> UsageSums;

    /// Returns the newest slow requests.
    fn slow_requests(&self) -> &SlowRequests;
}

/// A snapshot on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastSnapshot {
    /// Zxid in the name of the snapshot.
    pub zxid: Zxid,
    /// Time at which the snapshot was written, in seconds since 1970. A loaded snapshot has the
    /// modification time of its file.
    pub at_s: i64,
}

/// An observer that is connected to this server. Source: LearnerHandler.getLearnerHandlerInfo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObserverInfo {
    /// Address of the observer.
    pub peer: SocketAddr,
    /// Id of the observer.
    pub sid: Sid,
    /// Time at which it connected, by the wall clock, ms.
    pub established_ms: i64,
    /// Number of packets that wait to be sent to the observer.
    pub queued_packets: u64,
    /// Total size of these packets, bytes.
    pub queued_bytes: u64,
    /// Number of packets from the observer.
    pub packets_received: u64,
    /// Number of packets to the observer.
    pub packets_sent: u64,
    /// Number of requests that the observer has forwarded.
    pub requests: u64,
    /// Zxid of the last transaction that was sent to the observer.
    pub last_zxid: Zxid,
}
