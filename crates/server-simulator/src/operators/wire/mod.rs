//! Encodings between operators and members.

pub(super) mod base64;
pub(super) mod http;
