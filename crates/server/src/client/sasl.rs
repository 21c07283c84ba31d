//! Logins by SASL (opcode 102).
//!
//! Tokens are handled ahead of the queue, as credentials are. Without a section of a JAAS file for
//! clients a null token says that there is nothing to exchange.
//!
//! Source: ZooKeeperServer.processSasl, SaslServerCallbackHandler.

use config::SaslUsers;
use proto::{ErrorCode, Id};
use transport::sasl::{CLIENTS, Refusal, ServerExchange, ServerStep};
use tree::auth::{SASL, SUPER, is_sasl_name};

use super::connection::{Connection, ConnectionState};
use crate::client::clients::Clients;
use crate::random;

/// What a client is told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// This token, or none.
    Token(Option<Vec<u8>>),
    /// It is not let in, and the connection ends.
    Refused(ErrorCode),
    /// The connection ends without a word.
    Closed,
}

/// Takes a token.
pub(super) fn answer(
    clients: &Clients,
    connection: &Connection,
    state: &mut ConnectionState,
    token: &[u8],
) -> Answer {
    let Some(users) = &clients.settings.config.auth.sasl.users else {
        return Answer::Token(None);
    };
    if state.sasl.is_none() {
        match random::bytes() {
            Ok(random) => {
                state.sasl = Some(Box::new(ServerExchange::new(CLIENTS, random)));
            }
            Err(error) => {
                tracing::error!(err = %error, "no random bytes for a SASL login, closing connection");
                return Answer::Closed;
            }
        }
    }
    let Some(exchange) = &mut state.sasl else {
        return Answer::Closed;
    };
    match step(exchange, token, users) {
        Ok((token, None)) => Answer::Token(Some(token)),
        Ok((token, Some(user))) => match let_in(clients, connection, state, &user) {
            true => Answer::Token(Some(token)),
            false => Answer::Refused(ErrorCode::AuthFailed),
        },
        Err(refusal) => refuse(clients, connection, refusal),
    }
}

/// The next token, and who has logged in.
fn step(
    exchange: &mut ServerExchange,
    token: &[u8],
    users: &SaslUsers,
) -> Result<(Vec<u8>, Option<String>), Refusal> {
    match exchange.step(token, users)? {
        ServerStep::Challenge(token) => Ok((token, None)),
        // As whom the client wants to act counts for nothing: it acts as who it is.
        ServerStep::Done { token, user, .. } => {
            if !is_sasl_name(&user) {
                return Err(Refusal::OtherUser);
            }
            Ok((token, Some(user)))
        }
        _ => Err(Refusal::Over),
    }
}

/// Adds the identities of a user; false if they are too many.
fn let_in(
    clients: &Clients,
    connection: &Connection,
    state: &mut ConnectionState,
    user: &str,
) -> bool {
    let mut identities = vec![Id {
        scheme: SASL.into(),
        id: user.into(),
    }];
    let is_super = clients.settings.config.auth.super_users.contains(user);
    if is_super {
        identities.push(Id {
            scheme: SUPER.into(),
            id: "".into(),
        });
    }
    let is_in = state.add_identities(identities);
    match is_in {
        true => {
            tracing::info!(peer = %connection.peer, session = %connection.session(), user = ?user, is_super, "client has logged in by SASL");
        }
        false => {
            tracing::warn!(peer = %connection.peer, session = %connection.session(), "too many identities for one connection, closing it");
            clients.stats.auth_failed();
        }
    }
    is_in
}

fn refuse(clients: &Clients, connection: &Connection, refusal: Refusal) -> Answer {
    let auth = &clients.settings.config.auth;
    let schemes = auth.enforced_schemes.as_deref().unwrap_or_default();
    let is_required = schemes.iter().any(|scheme| scheme == SASL);
    let stays = auth.sasl.allow_failed_clients && !is_required;
    clients.stats.auth_failed();
    tracing::warn!(peer = %connection.peer, session = %connection.session(), err = %refusal, stays, "SASL login failed");
    match (stays, is_required) {
        (true, _) => Answer::Token(None),
        (false, true) => Answer::Refused(ErrorCode::SessionClosedRequireSaslAuth),
        (false, false) => Answer::Refused(ErrorCode::AuthFailed),
    }
}
