//! Web console: a page embedded in the executable, and its requests to the member.
//!
//! ```text
//!   request -> Console::answer -> guard (host, origin) -> assets
//!                                                      -> visits -> ZnodeSession ==stream==> the member, as a client
//!                                                      -> other Outcomes: the admin server answers
//! ```
//!
//! Znodes are read and written by a client session over an in-process stream ([`Member::connect`]),
//! with the caller's address and identities. ACLs, quotas, limits and the audit log therefore apply
//! as for any client, and there is no second access path to the tree that could behave differently.
//!
//! When a page opens, it begins a visit (`POST visit`). The response contains a token, which the
//! page sends in a custom header of each further request. There are no cookies and no ambient
//! login, so a site that does not know the token cannot read or change anything on behalf of a
//! visitor.

mod api;
mod assets;
mod edit;
mod guard;
mod ids;
mod member;
mod said;
mod session;
mod sessions;
mod shown;
mod visits;

pub(crate) use api::{Caller, Console, Outcome, Settings};
pub(crate) use guard::{headers, secured};
pub(crate) use member::{Member, identities};
pub(crate) use sessions::{SessionsPage, sessions_answer};
pub(crate) use visits::Login;
