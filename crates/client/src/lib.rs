//! Async ZooKeeper client in two layers.
//!
//! * [`Client`] is the handle for applications. It has a method for every operation, allows any
//!   number of calls in flight, sends pings, and provides a handle for every watch. When a
//!   connection is lost, it continues the session on another connection.
//! * [`RawConnection`] is a socket after the handshake, with a buffer in each direction. The caller
//!   encodes any number of requests and receives replies as slices. The connection does not
//!   allocate memory for each request and does not start a task. One write sends all waiting
//!   requests, and one read receives all available data.
//!
//! Both support TLS (feature `tls`, `tls::ClientStores`), and log in with SASL (feature `sasl`,
//! `Login`) on each connection before the first request.
//!
//! ```no_run
//! use zoarium_client::{Client, Create, Options};
//!
//! # async fn example() -> zoarium_client::Result<()> {
//! let client = Client::connect(Options::new("zk1:2181,zk2:2181,zk3:2181/app")).await?;
//! client.create("/greeting", "hello", &Create::persistent()).await?;
//! let (data, stat, mut watch) = client.watch_data("/greeting").await?;
//! assert_eq!((data.as_deref(), stat.version), (Some(&b"hello"[..]), 0));
//! client.set_data("/greeting", "good bye", stat.version).await?;
//! println!("{:?}", watch.changed().await?.kind);
//! client.close().await
//! # }
//! ```
//!
//! The crate re-exports all types of its signatures, and the crates that define them:
//!
//! ```no_run
//! use zoarium_client::{Acl, Client, Create, SessionId, Stat, perms};
//!
//! # async fn example(client: &Client) -> zoarium_client::Result<()> {
//! let readers = Acl::new(perms::READ, "world", "anyone");
//! let create = Create::persistent().with_acl(vec![readers]);
//! let (path, stat): (zoarium_client::Str, Stat) = client.create2("/notice", "closed", &create).await?;
//! let session: SessionId = client.session_id();
//! println!("{path} was created by {session} in {}", zoarium_client::Zxid(stat.czxid));
//! # Ok(())
//! # }
//! ```
//!
//! # Dropped futures
//! The future of a call may be dropped at any time. An unsent request is then never sent. The
//! server may execute a sent request, and the client discards its answer. Only the methods for
//! protected creation, such as [`Client::create_protected`], delete a znode whose creation was not
//! answered. Dropping a future that waits for a watch or a stream loses nothing, and another future
//! can wait again.
//!
//! # Admin servers
//! With the feature `admin`, `AdminClient` queries the admin servers of members, and `Changes`
//! follows the changes below a path, even when members fail.
//!
//! # Bounds
//! The client does not trust the server. It checks lengths before it allocates memory ([`limits`]).
//! Data that does not decode ends the connection with an error that describes the data. The numbers
//! of calls and events and the size of unsent data are also bounded.
//!
//! Source: ZooKeeper, ClientCnxn.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

#[cfg(feature = "admin")]
pub mod admin;
#[cfg(feature = "clap")]
pub mod arguments;
#[cfg(feature = "admin")]
pub mod changes;
mod chroot;
mod cleanup;
mod client;
mod create;
mod dial;
mod digest;
mod driver;
mod error;
pub mod frame;
mod handshake;
pub mod limits;
#[cfg(feature = "sasl")]
mod login;
mod machine;
mod multi;
mod ops;
mod options;
mod path;
pub mod port;
mod protected;
mod retry;
mod state;
mod state_channel;
mod subtree;
mod transaction;
mod watch;
mod wire;

pub use bytes::Bytes;
pub use client::Client;
pub use create::{Create, Version};
pub use dial::{Dial, Dialing};
pub use digest::digest_id;
pub use error::{Call, Code, Error, LoginFailure, LossReason, Result, XidOrNothing};
pub use handshake::{Accepted, Handshake, RawConnection, Session};
pub use jute::{DecodeError, Reader, Str};
#[cfg(feature = "sasl")]
pub use login::Login;
pub use machine::{AddWatchMode, Reply, WatchKind};
pub use multi::{
    MultiOp, MultiRead, MultiReadResult, MultiResult, decode_read_results, decode_results,
    first_failure,
};
pub use options::{Options, WallClock};
pub use path::{PathFault, check_path};
pub use protected::{Created, Protection};
pub use proto::connect::ReplyHeader;
pub use proto::data::perms;
pub use proto::position::Position;
pub use proto::request::ReconfigRequest;
pub use proto::response::ClientInfo;
pub use proto::watch::EventType;
pub use proto::{Acl, ErrorCode, Id, OpCode, SessionId, Stat, Xid, Zxid};
pub use state::{State, WatchEvent};
pub use transaction::Transaction;
pub use transport::sasl::gssapi::GssapiRefusal;
pub use transport::sasl::{Refusal, Secret};
#[cfg(feature = "tls")]
pub use transport::tls;
pub use transport::{Connector, Duplex, Stream};
pub use watch::{Change, Watch, WatchStream};
pub use wire::{Exchange, Wire};

/// Crates whose types occur in signatures.
pub use {bytes, jute, proto, tokio, transport};
