//! Interface through which the exchanges use a security context.

use super::refusal::GssapiRefusal;

/// Security context of one side (RFC 2743).
pub(super) trait Context {
    /// Handles a token from the other side; `None` for the first step of a client. Returns the
    /// token to send, if there is one.
    fn step(&mut self, token: Option<&[u8]>) -> Result<Option<Vec<u8>>, GssapiRefusal>;

    /// Returns whether the context is complete, so that messages can be signed.
    fn is_established(&self) -> bool;

    /// Signs a message.
    fn wrap(&mut self, plain: &[u8]) -> Result<Vec<u8>, GssapiRefusal>;

    /// Returns the content of a signed message.
    fn unwrap(&mut self, token: &[u8]) -> Result<Vec<u8>, GssapiRefusal>;

    /// Returns the name of the initiator.
    fn initiator(&self) -> Result<String, GssapiRefusal>;
}
