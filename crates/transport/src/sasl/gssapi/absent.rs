//! Replacement of the library for builds that do not link it. Its types cannot be constructed.

use super::accept::AcceptingExchange;
use super::context::Context;
use super::initiate::InitiatingExchange;
use super::refusal::GssapiRefusal;

/// A type without values.
#[derive(Debug, Clone, Copy)]
enum Never {}

/// Key of a service.
#[derive(Debug, Clone)]
pub struct Acceptor(Never);

/// Principal of outgoing logins.
#[derive(Debug, Clone)]
pub struct Initiator(Never);

pub(super) struct Accepting(Never);

pub(super) struct Initiating(Never);

impl Acceptor {
    /// Always fails, because this build does not include the feature.
    ///
    /// # Errors
    /// Always.
    pub fn acquire(_principal: &str) -> Result<Self, GssapiRefusal> {
        Err(GssapiRefusal::NotBuiltIn)
    }

    /// Begins a login.
    pub fn exchange(&self) -> AcceptingExchange {
        AcceptingExchange::new(Accepting(self.0))
    }
}

/// Returns an empty realm, because this build does not include the feature.
pub fn default_realm() -> String {
    String::new()
}

impl Initiator {
    /// Always fails, because this build does not include the feature.
    ///
    /// # Errors
    /// Always.
    pub fn acquire(_principal: Option<&str>) -> Result<Self, GssapiRefusal> {
        Err(GssapiRefusal::NotBuiltIn)
    }

    /// Begins a login.
    ///
    /// # Errors
    /// Never.
    pub fn exchange(&self, _service: &str) -> Result<InitiatingExchange, GssapiRefusal> {
        Ok(InitiatingExchange::new(Initiating(self.0), String::new()))
    }
}

macro_rules! no_context {
    ($($name:ident)+) => {$(
        impl Context for $name {
            fn step(&mut self, _: Option<&[u8]>) -> Result<Option<Vec<u8>>, GssapiRefusal> {
                match self.0 {}
            }

            fn is_established(&self) -> bool {
                match self.0 {}
            }

            fn wrap(&mut self, _: &[u8]) -> Result<Vec<u8>, GssapiRefusal> {
                match self.0 {}
            }

            fn unwrap(&mut self, _: &[u8]) -> Result<Vec<u8>, GssapiRefusal> {
                match self.0 {}
            }

            fn initiator(&self) -> Result<String, GssapiRefusal> {
                match self.0 {}
            }
        }
    )+};
}
no_context!(Accepting Initiating);
