//! The server's side of the exchange.

use std::fmt;

use super::context::Context;
use super::layers::{OFFER, read_choice};
use super::library::Accepting;
use super::refusal::{GssapiRefusal, TOKEN_BYTES_MAX};

/// Maximum number of a client's tokens until the context is established. Kerberos needs one token.
const TOKENS_MAX: u8 = 3;

/// A login of one client.
pub struct AcceptingExchange(Exchange<Accepting>);

/// Result of handling a token from the client.
#[derive(Debug, PartialEq, Eq)]
pub enum Accepted {
    /// Challenge that the client must answer.
    Challenge(Vec<u8>),
    /// The client is authenticated. The server does not send a further token.
    Done {
        /// Full Kerberos name of the client.
        name: String,
        /// Authorization identity that the client requests, if it sends one.
        acts_as: Option<String>,
    },
}

impl AcceptingExchange {
    pub(super) fn new(context: Accepting) -> Self {
        Self(Exchange::new(context))
    }

    /// Handles a token from the client. Blocks, because it reads files.
    ///
    /// # Errors
    /// If the token is refused. The exchange is then over.
    pub fn step(&mut self, token: &[u8]) -> Result<Accepted, GssapiRefusal> {
        self.0.step(token)
    }
}

impl fmt::Debug for AcceptingExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AcceptingExchange(hidden)")
    }
}

/// State of the exchange, generic over the context.
pub(super) struct Exchange<C> {
    state: AcceptorState<C>,
    tokens: u8,
}

enum AcceptorState<C> {
    /// The context is being established.
    Begun(C),
    /// The context is established. The client must send an empty token to receive the offered
    /// security layers.
    Established(C, String),
    /// The client has received the offered layers.
    Offered(C, String),
    /// The client is authenticated, or the exchange has failed.
    Over,
}

impl<C: Context> Exchange<C> {
    pub(super) fn new(context: C) -> Self {
        Self {
            state: AcceptorState::Begun(context),
            tokens: 0,
        }
    }

    pub(super) fn step(&mut self, token: &[u8]) -> Result<Accepted, GssapiRefusal> {
        let state = std::mem::replace(&mut self.state, AcceptorState::Over);
        if token.len() > TOKEN_BYTES_MAX {
            return Err(GssapiRefusal::TooLong {
                len: token.len(),
                len_max: TOKEN_BYTES_MAX,
            });
        }
        match state {
            AcceptorState::Begun(context) => self.establish(context, token),
            AcceptorState::Established(context, name) => match token {
                [] => self.offer(context, name),
                _ => Err(GssapiRefusal::NotEmpty),
            },
            AcceptorState::Offered(mut context, name) => {
                let plain = context.unwrap(token)?;
                let acts_as = read_choice(&plain)?;
                Ok(Accepted::Done { name, acts_as })
            }
            AcceptorState::Over => Err(GssapiRefusal::Over),
        }
    }

    fn establish(&mut self, mut context: C, token: &[u8]) -> Result<Accepted, GssapiRefusal> {
        if token.is_empty() {
            return Err(GssapiRefusal::Empty);
        }
        self.tokens += 1;
        if self.tokens > TOKENS_MAX {
            return Err(GssapiRefusal::TooMany);
        }
        let answer = context.step(Some(token))?;
        if !context.is_established() {
            self.state = AcceptorState::Begun(context);
            return Ok(Accepted::Challenge(answer.unwrap_or_default()));
        }
        let name = context.initiator()?;
        match answer {
            Some(answer) => {
                self.state = AcceptorState::Established(context, name);
                Ok(Accepted::Challenge(answer))
            }
            None => self.offer(context, name),
        }
    }

    fn offer(&mut self, mut context: C, name: String) -> Result<Accepted, GssapiRefusal> {
        let offer = context.wrap(&OFFER)?;
        self.state = AcceptorState::Offered(context, name);
        Ok(Accepted::Challenge(offer))
    }
}
