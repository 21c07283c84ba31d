//! What operators are shown of a server: its metrics, its role and the four-letter words.
//!
//! * [`metrics`] counts and measures; one table names every metric,
//! * [`role_view`] is what a member is in its ensemble, written by whoever drives the role,
//! * [`fourlw`] answers questions in plain text about a server that implements [`fourlw::View`].
//!
//! Nothing here decides what a server does, and nothing reads a clock: whoever calls says what
//! time it is.

pub mod fourlw;
pub mod metrics;
pub mod role_view;
