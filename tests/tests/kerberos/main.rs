//! Logins by Kerberos (GSSAPI) with a KDC that the tests start: clients, members, and failures.

mod clients;
mod failing;
mod members;
mod realm;
