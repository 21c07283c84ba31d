//! GSSAPI: logins by Kerberos tickets.
//!
//! ```text
//! client                    server
//!   AP-REQ      ------->
//!               <-------    AP-REP, if the client wants the server to prove itself
//!   (empty)     ------->
//!               <-------    wrapped: the offered security layers (only "none"), and a size
//!   wrapped: the chosen layer and the authorization identity   ------->
//! ```
//!
//! Without an AP-REP, the first token of the server contains the offered layers. Wrapped messages
//! are signed with the key of the ticket, so changes on the network are detected. Steps read files,
//! and a client's steps may query the KDC. They must therefore run on a thread that may block.
//!
//! The library is `libgssapi_krb5` of the system. Only builds with the feature `gssapi` link it.
//! The variables of [`environment`] contain the locations of its keys. Without the feature, logins
//! fail.
//!
//! Source: RFC 4752; GssKrb5Server and GssKrb5Client of the JDK.

mod accept;
mod context;
mod initiate;
mod layers;
#[cfg(feature = "gssapi")]
mod library;
#[cfg(not(feature = "gssapi"))]
#[path = "absent.rs"]
mod library;
mod off_thread;
mod refusal;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::Path;

pub use accept::{Accepted, AcceptingExchange};
pub use initiate::{InitiatingExchange, Response};
pub use library::{Acceptor, Initiator, default_realm};
pub use off_thread::off_thread;
pub use refusal::{GssapiRefusal, TOKEN_BYTES_MAX};

/// Whether this build supports Kerberos logins.
pub const IS_BUILT_IN: bool = cfg!(feature = "gssapi");

/// Returns the environment variables for the library, which reads them each time it is used. They
/// must be set when the process starts.
pub fn environment(
    accepts_with: Option<&Path>,
    initiates_with: Option<&Path>,
    krb5_conf: Option<&Path>,
) -> Vec<(&'static str, OsString)> {
    let mut variables = Vec::new();
    variables.extend(accepts_with.map(|file| ("KRB5_KTNAME", file.into())));
    if let Some(file) = initiates_with {
        variables.push(("KRB5_CLIENT_KTNAME", file.into()));
        // Tickets are private to this process. It does not use the tickets of the user that started
        // it.
        variables.push(("KRB5CCNAME", "MEMORY:".into()));
    }
    variables.extend(krb5_conf.map(|file| ("KRB5_CONFIG", file.into())));
    variables
}
