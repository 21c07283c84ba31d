//! The server's side of the exchange.

use std::fmt;

use config::SaslUsers;
use subtle::ConstantTimeEq;

use super::{ALGORITHM, CHARSET, RESPONSE_BYTES_MAX, nonce_text};
use crate::sasl::directives::{Directives, put, put_quoted};
use crate::sasl::names::{NONCE_BYTES, Names};
use crate::sasl::refusal::Refusal;
use crate::sasl::response::{Proof, QOP};

/// A login of one client.
pub struct ServerExchange {
    names: Names,
    state: ServerState,
}

enum ServerState {
    /// The client has not sent a token yet.
    Begun { nonce: Vec<u8> },
    /// The client has received the challenge.
    Challenged { nonce: Vec<u8> },
    /// The client is authenticated, or the exchange has failed.
    Over,
}

/// Token to send, and its meaning.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerStep {
    /// Challenge that the client must answer.
    Challenge(Vec<u8>),
    /// The client is authenticated.
    Done {
        /// Last token of the exchange.
        token: Vec<u8>,
        /// Authenticated user.
        user: String,
        /// Authorization identity that the client requests, if it sends one.
        acts_as: Option<String>,
    },
}

impl ServerExchange {
    /// Begins a login. The bytes of `random` must be unpredictable.
    pub fn new(names: Names, random: [u8; NONCE_BYTES]) -> Self {
        let nonce = nonce_text(random);
        Self {
            names,
            state: ServerState::Begun { nonce },
        }
    }

    /// Returns whether the exchange no longer accepts tokens.
    pub fn is_over(&self) -> bool {
        matches!(self.state, ServerState::Over)
    }

    /// Handles a token from the client.
    ///
    /// # Errors
    /// If the token is refused. The exchange is then over.
    pub fn step(&mut self, token: &[u8], users: &SaslUsers) -> Result<ServerStep, Refusal> {
        if token.len() > RESPONSE_BYTES_MAX {
            self.state = ServerState::Over;
            return Err(Refusal::TooLong {
                len: token.len(),
                len_max: RESPONSE_BYTES_MAX,
            });
        }
        match std::mem::replace(&mut self.state, ServerState::Over) {
            // The first token carries no data. As in the JDK, it need not be empty.
            ServerState::Begun { nonce } => {
                let challenge = challenge(self.names, &nonce);
                self.state = ServerState::Challenged { nonce };
                Ok(ServerStep::Challenge(challenge))
            }
            ServerState::Challenged { nonce } => judge(self.names, &nonce, token, users),
            ServerState::Over => Err(Refusal::Over),
        }
    }
}

fn challenge(names: Names, nonce: &[u8]) -> Vec<u8> {
    let mut token = Vec::new();
    put_quoted(&mut token, "realm", names.server.as_bytes());
    put_quoted(&mut token, "nonce", nonce);
    put_quoted(&mut token, "qop", QOP);
    put(&mut token, "charset", CHARSET);
    put(&mut token, "algorithm", ALGORITHM);
    token
}

fn judge(
    names: Names,
    nonce: &[u8],
    token: &[u8],
    users: &SaslUsers,
) -> Result<ServerStep, Refusal> {
    let directives = Directives::parse(token)?;
    let must = |name: &'static str, is_right: bool| {
        if is_right {
            Ok(())
        } else {
            Err(Refusal::Unacceptable(name))
        }
    };
    must(
        "charset",
        directives
            .optional("charset")?
            .is_none_or(|it| it == CHARSET),
    )?;
    let user = text("username", directives.required("username")?)?;
    let realm = directives.required("realm")?;
    must("realm", realm == names.server.as_bytes())?;
    if !bool::from(directives.required("nonce")?.ct_eq(nonce)) {
        return Err(Refusal::OtherNonce);
    }
    let cnonce = directives.required("cnonce")?;
    must("nc", directives.optional("nc")?.is_none_or(is_one))?;
    must(
        "qop",
        directives.optional("qop")?.is_none_or(|it| it == QOP),
    )?;
    let uri = directives.required("digest-uri")?;
    must(
        "digest-uri",
        uri.eq_ignore_ascii_case(names.uri().as_bytes()),
    )?;
    let response = directives.required("response")?;
    let authzid = directives.optional("authzid")?;
    let known = users.password(&user);
    let proof = Proof {
        user: &user,
        realm: names.server,
        // The hash is also computed for an unknown user, so that the duration does not reveal
        // whether the user exists.
        password: known.map_or("", |password| password.expose()),
        nonce,
        cnonce,
        uri,
        authzid,
    };
    let is_proven = bool::from(response.ct_eq(&proof.of_client()));
    if !is_proven || known.is_none() {
        return Err(Refusal::WrongPassword);
    }
    let mut token = Vec::new();
    put(&mut token, "rspauth", &proof.of_server());
    let acts_as = authzid
        .map(|authzid| text("authzid", authzid))
        .transpose()?;
    Ok(ServerStep::Done {
        token,
        user,
        acts_as,
    })
}

fn is_one(count: &[u8]) -> bool {
    let digits = str::from_utf8(count).ok();
    digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) == Some(1)
}

fn text(name: &'static str, bytes: &[u8]) -> Result<String, Refusal> {
    let text = str::from_utf8(bytes).map_err(|_| Refusal::Unacceptable(name))?;
    Ok(text.to_owned())
}

impl fmt::Debug for ServerExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerExchange(hidden)")
    }
}
