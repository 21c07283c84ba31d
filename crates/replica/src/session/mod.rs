//! Sessions without their sockets: ids, passwords, timeouts, owners, expiry.
//!
//! A session outlives connections. A client proves its ownership with the session's [`password()`],
//! every request touches the session, and one server (the standalone one, or the leader) decides
//! from the touches when the session is over. That server also records the holder of the session's
//! connection, so that a request over the old connection is refused after the session has moved.
//!
//! ```text
//!            add                    set_closing | expire               remove
//!  (none) --------->  live  ---------------------------->  closing  ----------> (none)
//!                      |  ^                                   |
//!                      touch                   touch, check: refused, SessionExpired
//! ```
//!
//! A session leaves `closing` only when its closeSession transaction has been applied. Until then
//! it cannot become live again, and cannot expire a second time.
//!
//! The types of this module are plain values. Time is an argument (milliseconds of a monotonic
//! clock), and nothing sleeps or is shared.
//!
//! ```
//! use proto::SessionId;
//! use zoarium_replica::session::{Role, SessionTracker};
//!
//! let mut sessions = SessionTracker::new(2000, Role::Standalone);
//! let id = SessionId(0x1_0000);
//! sessions.add(id, 4000, 100);
//! assert_eq!(sessions.next_deadline(), Some(6000));
//! assert!(sessions.touch(id, 4000, 2500));
//! assert_eq!(sessions.expire(6000), []);
//! assert_eq!(sessions.expire(8000), [id]);
//! assert!(!sessions.touch(id, 4000, 8001));
//! ```
//!
//! Source: SessionTrackerImpl, LeaderSessionTracker, LearnerSessionTracker, ZooKeeperServer.

mod buckets;
mod ended;
pub(crate) mod expiry;
pub(crate) mod handshake;
mod ids;
pub(crate) mod local;
mod password;
mod table;
mod timeout;
mod tracker;

pub use ids::SessionIds;
pub use password::{PASSWORD_BYTES, PasswordRule, Passwords, password};
pub use table::{Expired, LearnerSessions, Sessions};
pub use timeout::negotiate;
pub use tracker::{Owner, Role, Session, SessionScope, SessionTracker};
