//! The admin server without its sockets: commands, and the format of their answers.
//!
//! ```text
//!   method, path, query -> Commands::route -> Route::Run(command) -> Look: an Answer from a view
//!                                          \                      -> List: a Listing, part by part
//!                                         \                      -> Snapshot, Restore: executed by the host
//!                                           -> Route::Answer: an answer without a command
//! ```
//!
//! One [table](Commands) contains every command. Other parts of the server can add commands
//! ([`Commands::add`]). Exporters and probes parse the answers, so the answers have the keys, order
//! and layout of Apache ZooKeeper. Source: Commands, JettyAdminServer, JsonOutputter.

mod answer;
mod authorization;
mod clients;
mod command;
mod figures;
mod guard;
mod health;
mod json;
mod limiter;
mod listing;
mod listings;
mod quorum;
mod route;
mod table;

pub use answer::{Answer, Body};
pub use authorization::{Credentials, OPEN_TO_WORLD, Refused};
pub use command::{Access, Call, Command, List, Look, Task};
pub use guard::{Names, is_from_here};
pub use health::{LIVE, READY, ready};
pub use json::{Json, Object};
pub use limiter::RateLimiter;
pub use listing::Listing;
pub use route::{NOT_SERVING, Route};
pub use table::Commands;
