//! Logins by Kerberos (GSSAPI), against a KDC that the tests start: of clients, between members, and those that fail.

mod clients;
mod failing;
mod members;
mod realm;
