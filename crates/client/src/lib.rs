//! An async ZooKeeper client in two layers.
//!
//! * [`Client`] is what applications use: methods for every operation, any number of calls in
//!   flight, pings, a handle for every watch, and the same session on another connection when one
//!   is lost.
//! * [`RawConnection`] is a socket with a handshake behind it and a buffer on either side. The
//!   caller encodes requests, as many as it likes, and gets replies as slices: no allocation, no
//!   task, one write and one read for whatever waits.
//!
//! Either speaks TLS ([`tls::Connector`]) and logs in by SASL ([`Login`]) on each connection, before
//! any request goes.
//!
//! ```no_run
//! use client::{Client, Create, Options};
//!
//! # async fn example() -> client::Result<()> {
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
//! # Dropped futures
//! The future of a call may be dropped at any time. A request that was not sent yet is not sent
//! then; one that was sent is carried out, and its answer is thrown away. Only
//! [`Client::create_protected`] takes back what was done unheard. Waiting for a watch or a stream
//! loses nothing when it is dropped and begun again.
//!
//! # Admin servers
//! With the feature `admin`, `AdminClient` asks the admin servers of members, and `Changes` follows
//! what is changed below a path, over the loss of members.
//!
//! # Bounds
//! None of it trusts the server: lengths are bounded before memory is taken ([`limits`]), and what
//! does not decode ends the connection with an error that says what it was. Calls, events and what
//! waits to be sent have bounds, too.
//!
//! Source: ZooKeeper, ClientCnxn.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

#[cfg(feature = "admin")]
pub mod admin;
#[cfg(feature = "admin")]
pub mod changes;
mod chores;
mod chroot;
mod client;
mod create;
mod dial;
mod driver;
mod error;
pub mod frame;
mod handshake;
pub mod limits;
mod login;
mod machine;
mod multi;
mod ops;
mod options;
pub mod port;
mod protected;
mod state;
mod telling;
mod watch;
mod wire;

pub use client::Client;
pub use create::Create;
pub use dial::{Dial, Dialing};
pub use error::{Call, Code, Error, LoginFailure, LossReason, Result, XidOrNothing};
pub use handshake::{Accepted, Handshake, RawConnection, Session};
pub use login::Login;
pub use machine::{AddWatchMode, Reply, WatchKind};
pub use multi::{
    MultiOp, MultiRead, MultiReadResult, MultiResult, decode_read_results, decode_results,
    first_failure,
};
pub use options::Options;
pub use protected::{Created, Protection};
pub use state::{State, WatchEvent};
pub use transport::Duplex;
pub use transport::sasl::{Refusal, Secret};
pub use transport::tls;
pub use watch::{Change, Watch, WatchStream};
pub use wire::{Exchange, Wire};
