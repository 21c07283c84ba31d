//! The client's side of the exchange.

use std::fmt;

use super::context::Context;
use super::layers::choose;
use super::library::Initiating;
use super::refusal::{GssapiRefusal, TOKEN_BYTES_MAX};

/// Maximum number of a server's tokens until the context is established. Kerberos needs one.
const TOKENS_MAX: u8 = 3;

/// A login to one server.
pub struct InitiatingExchange(Exchange<Initiating>);

/// Token to send to the server.
#[derive(Debug, PartialEq, Eq)]
pub struct Response {
    /// Bytes of the token.
    pub token: Vec<u8>,
    /// Whether this is the client's last token, which the server answers with the result of the
    /// login.
    pub is_last: bool,
}

impl InitiatingExchange {
    pub(super) fn new(context: Initiating, acts_as: String) -> Self {
        Self(Exchange::new(context, acts_as))
    }

    /// Returns the first token. Blocks, because it may query the KDC.
    ///
    /// # Errors
    /// If a token cannot be created.
    pub fn begin(&mut self) -> Result<Vec<u8>, GssapiRefusal> {
        self.0.begin()
    }

    /// Handles a token from the server.
    ///
    /// # Errors
    /// If the token is refused. The exchange is then over.
    pub fn step(&mut self, token: &[u8]) -> Result<Response, GssapiRefusal> {
        self.0.step(token)
    }
}

impl fmt::Debug for InitiatingExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InitiatingExchange(hidden)")
    }
}

/// State of the exchange, generic over the context.
pub(super) struct Exchange<C> {
    state: InitiatorState<C>,
    acts_as: String,
    tokens: u8,
}

enum InitiatorState<C> {
    /// The client has not sent a token yet.
    New(C),
    /// The context is being established or is established.
    Begun(C),
    /// The client's choice of a security layer has been sent, or the exchange has failed.
    Over,
}

impl<C: Context> Exchange<C> {
    pub(super) fn new(context: C, acts_as: String) -> Self {
        Self {
            state: InitiatorState::New(context),
            acts_as,
            tokens: 0,
        }
    }

    pub(super) fn begin(&mut self) -> Result<Vec<u8>, GssapiRefusal> {
        let InitiatorState::New(mut context) =
            std::mem::replace(&mut self.state, InitiatorState::Over)
        else {
            return Err(GssapiRefusal::Over);
        };
        let token = context.step(None)?.ok_or(GssapiRefusal::Empty)?;
        self.state = InitiatorState::Begun(context);
        Ok(token)
    }

    pub(super) fn step(&mut self, token: &[u8]) -> Result<Response, GssapiRefusal> {
        let InitiatorState::Begun(mut context) =
            std::mem::replace(&mut self.state, InitiatorState::Over)
        else {
            return Err(GssapiRefusal::Over);
        };
        if token.len() > TOKEN_BYTES_MAX {
            return Err(GssapiRefusal::TooLong {
                len: token.len(),
                len_max: TOKEN_BYTES_MAX,
            });
        }
        if context.is_established() {
            let offer = context.unwrap(token)?;
            let choice = choose(&offer, &self.acts_as)?;
            return Ok(Response {
                token: context.wrap(&choice)?,
                is_last: true,
            });
        }
        self.tokens += 1;
        if self.tokens > TOKENS_MAX {
            return Err(GssapiRefusal::TooMany);
        }
        let answer = context.step(Some(token))?;
        self.state = InitiatorState::Begun(context);
        Ok(Response {
            token: answer.unwrap_or_default(),
            is_last: false,
        })
    }
}
