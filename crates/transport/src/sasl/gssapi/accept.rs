//! The server's half.

use std::fmt;

use super::context::Context;
use super::layers::{OFFER, read_choice};
use super::library::Accepting;
use super::{GssapiRefusal, TOKEN_BYTES_MAX};

/// Tokens of a client until the context is there: Kerberos needs one.
const TOKENS_MAX: u8 = 3;

/// One login of one client.
pub struct AcceptingExchange(Exchange<Accepting>);

/// What follows from a token of the client.
#[derive(Debug, PartialEq, Eq)]
pub enum Accepted {
    /// The client has to answer this.
    Challenge(Vec<u8>),
    /// The client is in. There is no last token.
    Done {
        /// The whole Kerberos name.
        name: String,
        /// As whom it wants to act, if it says so.
        acts_as: Option<String>,
    },
}

impl AcceptingExchange {
    pub(super) fn new(context: Accepting) -> Self {
        Self(Exchange::new(context))
    }

    /// Takes a token of the client. Blocks: files are read.
    ///
    /// # Errors
    /// Why it is refused; the exchange is over.
    pub fn step(&mut self, token: &[u8]) -> Result<Accepted, GssapiRefusal> {
        self.0.step(token)
    }
}

impl fmt::Debug for AcceptingExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AcceptingExchange(hidden)")
    }
}

/// The exchange over any context.
pub(super) struct Exchange<C> {
    state: State<C>,
    tokens: u8,
}

enum State<C> {
    /// The context is being made.
    Begun(C),
    /// It is there; the client is to ask for the layers.
    Established(C, String),
    /// It knows them.
    Offered(C, String),
    /// The client is in, or will never be.
    Over,
}

impl<C: Context> Exchange<C> {
    pub(super) fn new(context: C) -> Self {
        Self {
            state: State::Begun(context),
            tokens: 0,
        }
    }

    pub(super) fn step(&mut self, token: &[u8]) -> Result<Accepted, GssapiRefusal> {
        let state = std::mem::replace(&mut self.state, State::Over);
        if token.len() > TOKEN_BYTES_MAX {
            return Err(GssapiRefusal::TooLong {
                len: token.len(),
                len_max: TOKEN_BYTES_MAX,
            });
        }
        match state {
            State::Begun(context) => self.establish(context, token),
            State::Established(context, name) => match token {
                [] => self.offer(context, name),
                _ => Err(GssapiRefusal::NotEmpty),
            },
            State::Offered(mut context, name) => {
                let plain = context.unwrap(token)?;
                let acts_as = read_choice(&plain)?;
                Ok(Accepted::Done { name, acts_as })
            }
            State::Over => Err(GssapiRefusal::Over),
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
            self.state = State::Begun(context);
            return Ok(Accepted::Challenge(answer.unwrap_or_default()));
        }
        let name = context.initiator()?;
        match answer {
            Some(answer) => {
                self.state = State::Established(context, name);
                Ok(Accepted::Challenge(answer))
            }
            None => self.offer(context, name),
        }
    }

    fn offer(&mut self, mut context: C, name: String) -> Result<Accepted, GssapiRefusal> {
        let offer = context.wrap(&OFFER)?;
        self.state = State::Offered(context, name);
        Ok(Accepted::Challenge(offer))
    }
}
