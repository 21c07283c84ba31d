//! Certificates of a peer: verification, and the identity that they prove.

pub(crate) mod der;
pub(crate) mod hosts;
pub(crate) mod known;
pub(crate) mod member_check;
pub mod subject;
pub(crate) mod verify;
pub(crate) mod version1;
