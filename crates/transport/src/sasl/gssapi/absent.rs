//! In the place of the library where the build does not link it: nothing here can be made.

use super::context::Context;
use super::{AcceptingExchange, GssapiRefusal, InitiatingExchange};

/// Has no value.
#[derive(Debug, Clone, Copy)]
enum Never {}

/// The key of a service.
#[derive(Debug, Clone)]
pub struct Acceptor(Never);

/// As whom logins are begun.
#[derive(Debug, Clone)]
pub struct Initiator(Never);

pub(super) struct Accepting(Never);

pub(super) struct Initiating(Never);

impl Acceptor {
    /// No build without the feature has one.
    ///
    /// # Errors
    /// Always.
    pub fn acquire(_principal: &str) -> Result<Self, GssapiRefusal> {
        Err(GssapiRefusal::NotBuiltIn)
    }

    /// A login.
    pub fn exchange(&self) -> AcceptingExchange {
        AcceptingExchange::new(Accepting(self.0))
    }
}

/// No build without the feature has one.
pub fn default_realm() -> String {
    String::new()
}

impl Initiator {
    /// No build without the feature has one.
    ///
    /// # Errors
    /// Always.
    pub fn acquire(_principal: Option<&str>) -> Result<Self, GssapiRefusal> {
        Err(GssapiRefusal::NotBuiltIn)
    }

    /// A login.
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
