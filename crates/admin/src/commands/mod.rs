//! Commands of the admin server, without its sockets.
//!
//! ```text
//!   method, path, query -> Commands::route -> Route::Run(command) -> Look: an Answer from a view
//!                                          \                      -> List: a Listing, part by part
//!                                         \                      -> Snapshot, Restore: executed by the admin server
//!                                           -> Route::Answer: an answer without a command
//! ```
//!
//! One [table](Commands) contains every command. The admin server adds commands of optional features
//! ([`Commands::add`]). Exporters and probes parse the answers, so the answers have the keys, order
//! and layout of Apache ZooKeeper. Source: Commands, JettyAdminServer, JsonOutputter.

mod authorization;
mod clients;
mod command;
mod figures;
mod listings;
mod probes;
mod quorum;
mod route;
mod search;
mod table;

pub(crate) use authorization::{Credentials, OPEN_TO_WORLD, Refused};
pub(crate) use command::{Access, Call, Command, List, Task};
pub(crate) use probes::{LIVE, READY, ready};
pub(crate) use route::{NOT_SERVING, Route};
pub(crate) use table::Commands;
