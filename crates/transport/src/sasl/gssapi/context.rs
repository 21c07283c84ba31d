//! What the exchanges need of a security context.

use super::GssapiRefusal;

/// One side's security context (RFC 2743).
pub(super) trait Context {
    /// Takes a token of the other side; the first step of a client has none. What is to be sent.
    fn step(&mut self, token: Option<&[u8]>) -> Result<Option<Vec<u8>>, GssapiRefusal>;

    /// Whether both sides know the key.
    fn is_established(&self) -> bool;

    /// Signs.
    fn wrap(&mut self, plain: &[u8]) -> Result<Vec<u8>, GssapiRefusal>;

    /// What was signed.
    fn unwrap(&mut self, token: &[u8]) -> Result<Vec<u8>, GssapiRefusal>;

    /// Who has begun.
    fn initiator(&self) -> Result<String, GssapiRefusal>;
}
