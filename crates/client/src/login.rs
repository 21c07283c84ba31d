//! SASL login, directly after the handshake and before any other request.
//!
//! ```text
//! client                          server
//!   sasl, empty token ------------>
//!           <--------------------- challenge
//!   sasl, response --------------->
//!           <--------------------- proof that the server knows the password, too
//! ```
//!
//! A login with a Kerberos ticket uses more tokens (`transport::sasl::gssapi`), and the last answer
//! does not contain a token.
//!
//! Source: ZooKeeperSaslClient, SaslServerCallbackHandler. Unlike Java's client, this client
//! refuses a server that accepts it without a login, because a configured user must take effect.

use std::fmt;

use bytes::Bytes;
use jute::{Decode, Encode, Reader};
use proto::connect::SaslToken;
use proto::{OpCode, Xid};
use tokio::io::{AsyncRead, AsyncWrite};
use transport::sasl::gssapi::{GssapiRefusal, Initiator};
use transport::sasl::{
    CLIENTS, ClientExchange, ClientStep, NONCE_BYTES, Refusal, SaslLogin, Secret,
};

use crate::error::{LoginFailure, LossReason, XidOrNothing};
use crate::frame::{put_request, split_reply};
use crate::limits::{LOGIN_FRAME_BYTES_MAX, TICKET_FRAME_BYTES_MAX};
use crate::wire::Wire;

/// Identity and mechanism of a login. The `Debug` output does not contain the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Login(Mechanism);

#[derive(Clone, PartialEq, Eq)]
enum Mechanism {
    DigestMd5(SaslLogin),
    Kerberos { service: String },
}

impl Login {
    /// Creates a login with a name and a password (DIGEST-MD5).
    pub fn digest_md5(user: impl Into<String>, password: Secret) -> Self {
        let user = user.into();
        Self(Mechanism::DigestMd5(SaslLogin { user, password }))
    }

    /// Creates a login with the Kerberos ticket of the current user, as `kinit` obtains it.
    /// `service` is the name of the service, such as `zookeeper/host`. Builds without the feature
    /// `gssapi` do not support such a login.
    pub fn kerberos(service: impl Into<String>) -> Self {
        let service = service.into();
        Self(Mechanism::Kerberos { service })
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Mechanism::DigestMd5(login) => write!(f, "Login(DIGEST-MD5 as {:?})", login.user),
            Mechanism::Kerberos { service } => write!(f, "Login(GSSAPI with {service:?})"),
        }
    }
}

/// Reason for a failed login.
#[derive(Debug)]
pub(crate) enum NotLoggedIn {
    /// The connection was lost. A login on another connection may succeed.
    Lost(LossReason),
    /// The login would also fail on another connection.
    Failed(LoginFailure),
}

impl From<LossReason> for NotLoggedIn {
    fn from(reason: LossReason) -> Self {
        Self::Lost(reason)
    }
}

impl From<Refusal> for NotLoggedIn {
    fn from(refusal: Refusal) -> Self {
        Self::Failed(match refusal {
            Refusal::WrongPassword => LoginFailure::ServerUnproven,
            other => LoginFailure::Token(other),
        })
    }
}

impl From<GssapiRefusal> for NotLoggedIn {
    fn from(refusal: GssapiRefusal) -> Self {
        Self::Failed(LoginFailure::Ticket(refusal))
    }
}

/// Xid of every login request. The xids of callers start with 1, so they never collide.
const LOGIN_XID: Xid = Xid(0);

/// Logs in on a new connection of an open session, before any other request. Limits the size of
/// incoming frames during the login.
pub(crate) async fn log_in<S>(
    wire: &mut Wire<S>,
    login: &Login,
    frame_bytes_max: usize,
) -> Result<(), NotLoggedIn>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let logged_in = match &login.0 {
        Mechanism::DigestMd5(login) => {
            wire.set_frame_bytes_max(LOGIN_FRAME_BYTES_MAX.min(frame_bytes_max));
            by_password(wire, login).await
        }
        Mechanism::Kerberos { service } => {
            wire.set_frame_bytes_max(TICKET_FRAME_BYTES_MAX.min(frame_bytes_max));
            let logged_in = by_ticket(wire, service).await;
            logged_in.map_err(|error| match error {
                NotLoggedIn::Failed(LoginFailure::Refused(code)) => {
                    NotLoggedIn::Failed(LoginFailure::TicketRefused(code))
                }
                other => other,
            })
        }
    };
    wire.set_frame_bytes_max(frame_bytes_max);
    logged_in
}

async fn by_password<S>(wire: &mut Wire<S>, login: &SaslLogin) -> Result<(), NotLoggedIn>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut random = [0; NONCE_BYTES];
    getrandom::fill(&mut random).map_err(|_| NotLoggedIn::Failed(LoginFailure::NoRandomness))?;
    let mut exchange = ClientExchange::new(CLIENTS, random);
    let mut response = Vec::new();
    loop {
        let token = ask(wire, response.into()).await?;
        let token = token.ok_or(NotLoggedIn::Failed(LoginFailure::NoToken))?;
        match exchange.step(&token, login)? {
            ClientStep::Respond(next) => response = next,
            ClientStep::Done => return Ok(()),
        }
    }
}

async fn by_ticket<S>(wire: &mut Wire<S>, service: &str) -> Result<(), NotLoggedIn>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let service = service.to_owned();
    let begun = off_thread(move || {
        let mut exchange = Initiator::acquire(None)?.exchange(&service)?;
        let token = exchange.begin()?;
        Ok((exchange, token))
    });
    let (mut exchange, mut response) = begun.await?;
    loop {
        let token = ask(wire, response.into()).await?;
        let token = token.ok_or(NotLoggedIn::Failed(LoginFailure::NoToken))?;
        let stepped = off_thread(move || {
            let response = exchange.step(&token)?;
            Ok((exchange, response))
        });
        let (stepped, next) = stepped.await?;
        if next.is_last {
            // An empty answer confirms the login. An error refuses it.
            ask(wire, next.token.into()).await?;
            return Ok(());
        }
        (exchange, response) = (stepped, next.token);
    }
}

/// Runs a GSSAPI step in a blocking thread, because it reads files and queries the KDC.
async fn off_thread<T: Send + 'static>(
    step: impl FnOnce() -> Result<T, GssapiRefusal> + Send + 'static,
) -> Result<T, NotLoggedIn> {
    match blocking::run(step).await {
        Ok(stepped) => Ok(stepped?),
        Err(_) => Err(GssapiRefusal::Over.into()),
    }
}

/// Sends a token to the server and returns the token in the answer.
async fn ask<S>(wire: &mut Wire<S>, token: Bytes) -> Result<Option<Bytes>, NotLoggedIn>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let packet = SaslToken {
        token: Some(token).into(),
    };
    let op = OpCode::Sasl.number();
    put_request(LOGIN_XID, op, wire.outbound(), |out| packet.encode(out));
    loop {
        if let Some(frame) = wire.next_frame().map_err(LossReason::from)? {
            let (header, body) = split_reply(frame).map_err(LossReason::from)?;
            if header.xid != LOGIN_XID {
                return Err(NotLoggedIn::Lost(LossReason::OutOfOrder {
                    got: header.xid.0,
                    expected: XidOrNothing(Some(LOGIN_XID.0)),
                }));
            }
            if header.err != 0 {
                return Err(NotLoggedIn::Failed(LoginFailure::Refused(header.err)));
            }
            let mut input = Reader::new(Bytes::copy_from_slice(body));
            let answer = SaslToken::decode(&mut input).map_err(|source| LossReason::Decode {
                what: "answer to a login",
                source,
            })?;
            return Ok(answer.token.into_exposed());
        }
        wire.turn().await.map_err(LossReason::from)?;
    }
}
