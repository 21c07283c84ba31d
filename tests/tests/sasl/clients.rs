//! A minimal client with its own tokens.

use bytes::Bytes;
use config::{SaslLogin, Secret};
use jute::Encode;
use proto::OpCode;
use proto::connect::SaslToken;
use tests::{Answer, Lost, RawSession};
use transport::sasl::{CLIENTS, ClientExchange, ClientStep};

pub(crate) fn login(user: &str, password: &str) -> SaslLogin {
    SaslLogin {
        user: user.to_owned(),
        password: Secret::new(password),
    }
}

pub(crate) fn open(address: &str) -> RawSession {
    RawSession::open(address, None, 10_000).expect("a session")
}

/// Sends a token and returns the answer.
pub(crate) fn send(session: &mut RawSession, token: &[u8]) -> Result<Answer, Lost> {
    let token = SaslToken {
        token: Some(Bytes::copy_from_slice(token)).into(),
    };
    session.put_bytes(OpCode::Sasl, &token.to_bytes());
    session.take()
}

/// Returns the token of an answer.
pub(crate) fn token(answer: &Answer) -> Option<Bytes> {
    answer.record::<SaslToken>().token.into_exposed()
}

/// Does an exchange, and returns the answer to the response. Panics unless there is a challenge.
pub(crate) fn respond(
    session: &mut RawSession,
    exchange: &mut ClientExchange,
    login: &SaslLogin,
) -> Result<Answer, Lost> {
    let challenge = token(&send(session, b"")?).expect("a challenge");
    match exchange.step(&challenge, login) {
        Ok(ClientStep::Respond(response)) => send(session, &response),
        other => panic!("{other:?}"),
    }
}

/// Logs in, or returns the error of the answer.
pub(crate) fn log_in(session: &mut RawSession, user: &str, password: &str) -> Result<(), i32> {
    let login = login(user, password);
    let mut exchange = ClientExchange::new(CLIENTS, [5; 30]);
    let answer = respond(session, &mut exchange, &login).expect("an answer");
    if answer.err != 0 {
        return Err(answer.err);
    }
    let proof = token(&answer).expect("the server's proof");
    assert_eq!(exchange.step(&proof, &login), Ok(ClientStep::Done));
    Ok(())
}
