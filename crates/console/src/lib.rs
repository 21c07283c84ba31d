//! The web console: a page in the executable, and its requests to the member. The crate does not
//! use sockets.
//!
//! ```text
//!   request -> Console::answer -> guard (host, origin) -> assets
//!                                                      -> visits -> ZnodeSession ==stream==> the member, as a client
//!                                                      -> Outcome::Sessions, Log: the host looks
//! ```
//!
//! Znodes are read and written by a client session over a stream that the host opens
//! ([`Member::connect`]), with the caller's address and identities. So ACLs, quotas, limits and the
//! audit log apply as for any client, and no second access path to the tree can behave differently.
//!
//! A page begins with a visit, whose token is sent with each further request in a separate header.
//! There are no cookies and no ambient login: a site that does not know the token cannot read or
//! change anything in the name of a visitor.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

mod api;
mod assets;
mod edit;
mod guard;
mod ids;
mod limits;
mod said;
mod session;
mod sessions;
mod shown;
mod visits;

pub use api::{Caller, Console, Member, Outcome, Settings};
pub use sessions::{SessionsPage, sessions_answer};
pub use visits::Login;
