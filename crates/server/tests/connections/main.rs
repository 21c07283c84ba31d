//! What clients can do to a server through their sockets, and what they cannot.

mod auth;
mod hostile;
mod limits;
mod raw;
mod stopping;
