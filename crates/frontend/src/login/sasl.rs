//! SASL logins (opcode 102).
//!
//! Like credentials, tokens do not wait for queued requests. If the JAAS file has no section for
//! clients, a null token reports that there is nothing to exchange.
//!
//! A DIGEST-MD5 token is processed when it is answered. A Kerberos token is processed earlier
//! ([`process_first_token`]), on a thread that may read files, without holding locks. The
//! connection's later requests wait meanwhile.
//!
//! Source: ZooKeeperServer.processSasl, SaslServerCallbackHandler.

use std::sync::Arc;

use admission::MemoryReservation;
use config::kerberos::KerberosNames;
use config::{Auth, KerberosKey, SaslAcceptor, SaslUsers};
use proto::{ErrorCode, Id};
use replica::connection::{ClientConnection, RequestKind, SaslAnswer};
use transport::sasl::gssapi::{
    Accepted, AcceptingExchange, Acceptor, GssapiRefusal, TOKEN_BYTES_MAX, off_thread,
};
use transport::sasl::{CLIENTS, Refusal, ServerExchange, ServerStep};
use tree::auth::{SASL, SUPER, is_sasl_name};

use crate::connection::Connection;
use crate::login::failures::LoginFailures;
use crate::login::kerberos;
use crate::login::{Login, TokenResult};
use crate::requests::batch::Batch;
use crate::settings::Settings;

/// Returns whether the next token must be processed before it can be answered.
pub(crate) fn needs_token_work(auth: &Auth, login: Option<&Login>) -> bool {
    let acceptor = &auth.sasl.acceptor;
    let is_worked_on = matches!(
        login,
        Some(Login::Kerberos {
            stepped: Some(_),
            ..
        })
    );
    matches!(acceptor, Some(SaslAcceptor::Kerberos(_))) && !is_worked_on
}

/// Processes the token at the front of a batch. [`answer`] uses the result later.
pub(crate) async fn process_first_token(
    settings: &Settings,
    connection: &Connection,
    batch: &Batch,
) {
    let Some(SaslAcceptor::Kerberos(key)) = &settings.config.auth.sasl.acceptor else {
        return;
    };
    let Some(RequestKind::Sasl(token)) = batch.requests.front().map(|next| &next.kind) else {
        return;
    };
    let token = token.expose();
    let found = connection.lock().sasl.take();
    let (exchange, is_over) = match found.map(|login| *login) {
        Some(Login::Kerberos { exchange, .. }) => {
            let is_over = exchange.is_none();
            (exchange, is_over)
        }
        _ => (None, false),
    };
    let (exchange, stepped) = if is_over {
        (None, Err(GssapiRefusal::Over))
    } else if token.len() > TOKEN_BYTES_MAX {
        let (len, len_max) = (token.len(), TOKEN_BYTES_MAX);
        (None, Err(GssapiRefusal::TooLong { len, len_max }))
    } else {
        let names = settings.kerberos_names.clone();
        step(names, key, exchange, token.to_vec()).await
    };
    connection.lock().sasl = Some(Box::new(Login::Kerberos {
        exchange,
        stepped: Some(stepped),
    }));
}

type Step = (
    Option<AcceptingExchange>,
    Result<TokenResult, GssapiRefusal>,
);

async fn step(
    names: Arc<KerberosNames>,
    key: &KerberosKey,
    exchange: Option<AcceptingExchange>,
    token: Vec<u8>,
) -> Step {
    let principal = key.principal.clone();
    let stepped = off_thread(move || {
        let mut exchange = match exchange {
            Some(exchange) => exchange,
            None => Acceptor::acquire(&principal)?.exchange(),
        };
        Ok(match exchange.step(&token)? {
            Accepted::Challenge(challenge) => (Some(exchange), TokenResult::Challenge(challenge)),
            // The authorization identity that the client requests is ignored, because the
            // authenticated name applies.
            Accepted::Done { name, .. } => {
                let user = kerberos::user_name(&names, &name);
                (None, TokenResult::User(user))
            }
        })
    });
    match stepped.await {
        Ok((exchange, stepped)) => (exchange, Ok(stepped)),
        Err(refusal) => (None, Err(refusal)),
    }
}

/// Answer to a token.
enum TokenAnswer {
    /// Challenge that the client must answer.
    Challenge(Vec<u8>),
    /// The user is authenticated. The token, if any, confirms the login to the client.
    User(String, Option<Vec<u8>>),
    /// The login is refused. Contains the reason.
    Refused(String),
    /// The token cannot be processed, and the connection ends without an answer.
    Closed,
}

/// Answers a token on a connection with this login.
pub(crate) fn answer(
    auth: &Auth,
    failures: LoginFailures<'_>,
    connection: &Connection,
    client: &mut ClientConnection<Option<MemoryReservation>>,
    login: &mut Option<Box<Login>>,
    token: &[u8],
) -> SaslAnswer {
    let outcome = match &auth.sasl.acceptor {
        None => return SaslAnswer::Token(None),
        Some(SaslAcceptor::DigestMd5(users)) => by_password(login, token, users),
        Some(SaslAcceptor::Kerberos(_)) => by_ticket(login),
    };
    match outcome {
        TokenAnswer::Challenge(challenge) => SaslAnswer::Token(Some(challenge.into())),
        TokenAnswer::User(user, token) if is_sasl_name(&user) => {
            if add_user_identities(auth, failures, connection, client, &user) {
                SaslAnswer::Token(token.map(Into::into))
            } else {
                SaslAnswer::Refused(ErrorCode::AuthFailed)
            }
        }
        TokenAnswer::User(..) => {
            let reason = Refusal::OtherUser.to_string();
            refuse(auth, failures, connection, &reason)
        }
        TokenAnswer::Refused(reason) => refuse(auth, failures, connection, &reason),
        TokenAnswer::Closed => SaslAnswer::Closed,
    }
}

fn by_password(login: &mut Option<Box<Login>>, token: &[u8], users: &SaslUsers) -> TokenAnswer {
    if login.is_none() {
        match random_bytes() {
            Ok(random) => {
                let exchange = ServerExchange::new(CLIENTS, random);
                *login = Some(Box::new(Login::DigestMd5(exchange)));
            }
            Err(error) => {
                tracing::error!(err = %error, "cannot get random bytes for a SASL login, closing connection");
                return TokenAnswer::Closed;
            }
        }
    }
    let Some(Login::DigestMd5(exchange)) = login.as_deref_mut() else {
        return TokenAnswer::Closed;
    };
    match exchange.step(token, users) {
        Ok(ServerStep::Challenge(challenge)) => TokenAnswer::Challenge(challenge),
        // The authorization identity that the client requests is ignored, because the authenticated
        // name applies.
        Ok(ServerStep::Done { token, user, .. }) => TokenAnswer::User(user, Some(token)),
        Ok(_) => TokenAnswer::Refused(Refusal::Over.to_string()),
        Err(refusal) => TokenAnswer::Refused(refusal.to_string()),
    }
}

/// Returns unpredictable random bytes.
fn random_bytes<const COUNT: usize>() -> Result<[u8; COUNT], getrandom::Error> {
    let mut bytes = [0; COUNT];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// Answers a token of a ticket login. An answer without a token confirms the login to the client.
/// Source: ZooKeeperSaslClient.
fn by_ticket(login: &mut Option<Box<Login>>) -> TokenAnswer {
    let stepped = match login.as_deref_mut() {
        Some(Login::Kerberos { stepped, .. }) => stepped.take(),
        _ => None,
    };
    match stepped {
        Some(Ok(TokenResult::Challenge(challenge))) => TokenAnswer::Challenge(challenge),
        Some(Ok(TokenResult::User(user))) => TokenAnswer::User(user, None),
        Some(Err(refusal)) => TokenAnswer::Refused(refusal.to_string()),
        // An unprocessed token never reaches this function.
        None => TokenAnswer::Closed,
    }
}

/// Adds the identities of a user. Returns false if the connection would have too many identities.
fn add_user_identities(
    auth: &Auth,
    failures: LoginFailures<'_>,
    connection: &Connection,
    client: &mut ClientConnection<Option<MemoryReservation>>,
    user: &str,
) -> bool {
    let mut identities = vec![Id {
        scheme: SASL.into(),
        id: user.into(),
    }];
    let is_super = auth.super_users.contains(user);
    if is_super {
        identities.push(Id {
            scheme: SUPER.into(),
            id: "".into(),
        });
    }
    let is_in = client.add_identities(identities).is_ok();
    if is_in {
        tracing::info!(peer = %connection.peer, session = %connection.session(), user = ?user, is_super, "client logged in with SASL");
    } else {
        log_limiter::limited!(warn, peer = %connection.peer, session = %connection.session(), "too many identities for one connection, closing connection");
        failures.note(connection.peer);
    }
    is_in
}

fn refuse(
    auth: &Auth,
    failures: LoginFailures<'_>,
    connection: &Connection,
    reason: &str,
) -> SaslAnswer {
    let schemes = auth.enforced_schemes.as_deref().unwrap_or_default();
    let is_required = schemes.iter().any(|scheme| scheme == SASL);
    let stays = auth.sasl.allow_failed_clients && !is_required;
    failures.note(connection.peer);
    log_limiter::limited!(warn, peer = %connection.peer, session = %connection.session(), err = reason, stays, "SASL login failed");
    match (stays, is_required) {
        (true, _) => SaslAnswer::Token(None),
        (false, true) => SaslAnswer::Refused(ErrorCode::SessionClosedRequireSaslAuth),
        (false, false) => SaslAnswer::Refused(ErrorCode::AuthFailed),
    }
}
