//! The web console: one page in the executable, and the questions that it asks the member. No sockets here.
//!
//! ```text
//!   request -> Console::answer -> guard (host, origin) -> assets
//!                                                      -> visits -> ZnodeSession ==stream==> the member, as a client
//!                                                      -> Outcome::Sessions, Log: the host looks
//! ```
//!
//! Znodes are read and written by a client's session over a stream that the host opens
//! ([`Member::connect`]), under the caller's address and identities. So ACLs, quotas, limits and the
//! audit log hold as for any client, and there is no second way to the tree that could differ.
//!
//! A page begins with a visit, whose token goes with each further request in a header of its own. No
//! cookie, no ambient login: whoever does not know the token can ask for nothing and change nothing
//! in the name of a visitor, from whatever site.

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
