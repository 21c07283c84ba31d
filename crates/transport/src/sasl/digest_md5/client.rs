//! The client's side of the exchange.

use std::fmt;

use config::SaslLogin;
use subtle::ConstantTimeEq;

use super::{ALGORITHM, CHALLENGE_BYTES_MAX, CHARSET, nonce_text};
use crate::sasl::directives::{Directives, put, put_quoted};
use crate::sasl::names::{NONCE_BYTES, Names};
use crate::sasl::refusal::Refusal;
use crate::sasl::response::{NONCE_COUNT, Proof, QOP};

/// A login to one server. The first token for the server is empty.
pub struct ClientExchange {
    names: Names,
    state: ClientState,
}

enum ClientState {
    /// The server has not answered yet.
    Begun { cnonce: Vec<u8> },
    /// The server must prove that it knows the password.
    Answered { expected: [u8; 32] },
    /// The server has proven that it knows the password, or the exchange has failed.
    Over,
}

/// Result of handling a token from the server.
#[derive(Debug, PartialEq, Eq)]
pub enum ClientStep {
    /// Token to send.
    Respond(Vec<u8>),
    /// Both sides have proven that they know the password.
    Done,
}

impl ClientExchange {
    /// Begins a login. The bytes of `random` must be unpredictable.
    pub fn new(names: Names, random: [u8; NONCE_BYTES]) -> Self {
        let cnonce = nonce_text(random);
        Self {
            names,
            state: ClientState::Begun { cnonce },
        }
    }

    /// Handles a token from the server.
    ///
    /// # Errors
    /// If the token is refused. The exchange is then over.
    pub fn step(&mut self, token: &[u8], login: &SaslLogin) -> Result<ClientStep, Refusal> {
        if token.len() > CHALLENGE_BYTES_MAX {
            self.state = ClientState::Over;
            return Err(Refusal::TooLong {
                len: token.len(),
                len_max: CHALLENGE_BYTES_MAX,
            });
        }
        match std::mem::replace(&mut self.state, ClientState::Over) {
            ClientState::Begun { cnonce } => {
                let (response, expected) = respond(self.names, &cnonce, token, login)?;
                self.state = ClientState::Answered { expected };
                Ok(ClientStep::Respond(response))
            }
            ClientState::Answered { expected } => {
                let directives = Directives::parse(token)?;
                let proof = directives.required("rspauth")?;
                if bool::from(proof.ct_eq(&expected)) {
                    Ok(ClientStep::Done)
                } else {
                    Err(Refusal::WrongPassword)
                }
            }
            ClientState::Over => Err(Refusal::Over),
        }
    }
}

fn respond(
    names: Names,
    cnonce: &[u8],
    token: &[u8],
    login: &SaslLogin,
) -> Result<(Vec<u8>, [u8; 32]), Refusal> {
    let directives = Directives::parse(token)?;
    let nonce = directives.required("nonce")?;
    if !directives
        .required("algorithm")?
        .eq_ignore_ascii_case(ALGORITHM)
    {
        return Err(Refusal::Unacceptable("algorithm"));
    }
    if directives
        .optional("charset")?
        .is_some_and(|charset| charset != CHARSET)
    {
        return Err(Refusal::Unacceptable("charset"));
    }
    let offered = directives.optional("qop")?.unwrap_or(QOP);
    let mut offered = offered.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    if !offered.any(|qop| qop == QOP) {
        return Err(Refusal::Unacceptable("qop"));
    }
    // One of the realms must be the server's name.
    let mut realms = directives.all("realm");
    let own = names.server.as_bytes();
    let realm = match realms.next() {
        None => return Err(Refusal::Missing("realm")),
        Some(first) if first == own || realms.any(|realm| realm == own) => names.server,
        Some(_) => return Err(Refusal::Unacceptable("realm")),
    };
    let uri = names.uri();
    // As in Java, the user is sent as the authorization identity, too.
    let authzid = login.user.as_bytes();
    let proof = Proof {
        user: &login.user,
        realm,
        password: login.password.expose(),
        nonce,
        cnonce,
        uri: uri.as_bytes(),
        authzid: Some(authzid),
    };
    let mut response = Vec::new();
    put(&mut response, "charset", CHARSET);
    put_quoted(&mut response, "username", login.user.as_bytes());
    put_quoted(&mut response, "realm", realm.as_bytes());
    put_quoted(&mut response, "nonce", nonce);
    put(&mut response, "nc", NONCE_COUNT);
    put_quoted(&mut response, "cnonce", cnonce);
    put_quoted(&mut response, "digest-uri", uri.as_bytes());
    put(&mut response, "maxbuf", b"65536");
    put(&mut response, "response", &proof.of_client());
    put(&mut response, "qop", QOP);
    put_quoted(&mut response, "authzid", authzid);
    Ok((response, proof.of_server()))
}

impl fmt::Debug for ClientExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientExchange(hidden)")
    }
}
