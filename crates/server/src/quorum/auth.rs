//! Logins between members by SASL (`quorum.auth.*`).
//!
//! ```text
//! who connects          who listens
//!   empty    -------->
//!            <--------   challenge
//!   response -------->
//!            <--------   success, and the proof that the other side knows the password, too
//! ```
//!
//! With Kerberos (`kerberos`) the tokens are those of GSSAPI, and there is none with the success.
//!
//! On the quorum port this comes before anything else, on the election port behind the hello. Each token is in a
//! packet: magic i64, status i32, token (length i32, bytes). What does not begin with the magic is no login, and is
//! let through unless `quorum.auth.serverRequireSasl`.
//!
//! Source: SaslQuorumAuthServer, SaslQuorumAuthLearner, QuorumAuth.

mod kerberos;
mod packet;

use std::io;
use std::time::Duration;

use config::{Ensemble, Sasl, SaslAcceptor, SaslInitiator, SaslLogin, SaslUsers};
use proto::Sid;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::timeout;
use transport::sasl::gssapi::GssapiRefusal;
use transport::sasl::{ClientExchange, ClientStep, MEMBERS, Refusal, ServerExchange, ServerStep};

use self::kerberos::Hosts;
use self::packet::{
    Come, ERROR, IN_PROGRESS, MAGIC, MAGIC_BYTES, SUCCESS, expect_magic, read_rest, write,
};
use crate::random;

/// Bytes of a token: more than either side of DIGEST-MD5 takes.
const TOKEN_BYTES_MAX: usize = 4096;

/// Who logs in begins right behind his hello. Where nobody must, somebody who is silent for so long is
/// taken for one who does not; Java waits for the time of `syncLimit`.
const LOGIN_BEGINS_WITHIN: Duration = Duration::from_secs(1);

/// Who logs in where, and must.
#[derive(Debug, Default)]
pub(crate) struct QuorumAuth {
    /// As whom this server logs in where it connects.
    learner: Option<SaslInitiator>,
    /// Who may log in here; `None` is no SASL.
    may_join: Option<SaslAcceptor>,
    server_requires: bool,
    /// Where members are, for who logs in by Kerberos.
    hosts: Hosts,
}

/// A server that this one has connected to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dialled<'a> {
    /// Its id, if it is known.
    pub(crate) sid: Option<Sid>,
    /// The host that was asked for.
    pub(crate) host: &'a str,
}

/// Why a login between members came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuthError {
    /// The connection is gone.
    #[error("the connection broke during the SASL login: {0}")]
    Io(#[from] io::Error),
    /// A token is refused.
    #[error("SASL login refused: {0}")]
    Refused(#[from] Refusal),
    /// A Kerberos token is refused, or there is no ticket.
    #[error("SASL login refused: {0}")]
    Ticket(#[from] GssapiRefusal),
    /// A ticket of somebody else.
    #[error("SASL login refused: {0:?} is not the name of a service of a member's host")]
    NoMember(String),
    /// Bytes that are no packet of a login.
    #[error("the other side does not speak SASL")]
    NoPacket,
    /// A token of a length that none has.
    #[error("a SASL token of {0} bytes")]
    Length(i32),
    /// The other side says no.
    #[error(
        "the other side refuses the SASL login: name and password of the section QuorumLearner are not in its section QuorumServer"
    )]
    Denied,
    /// So it does of a ticket.
    #[error(
        "the other side refuses the SASL login of {principal} with the ticket for {service}: its log says why"
    )]
    TicketDenied {
        /// As whom this server logs in.
        principal: String,
        /// For whom the ticket is.
        service: String,
    },
    /// Nobody comes in without.
    #[error("the other side does not log in, and quorum.auth.serverRequireSasl is set")]
    Missing,
}

impl QuorumAuth {
    pub(crate) fn new(ensemble: &Ensemble, of_clients: &Sasl) -> Self {
        let sasl = &ensemble.sasl;
        Self {
            learner: sasl.learner.clone(),
            may_join: sasl.may_join.clone(),
            server_requires: sasl.server_requires,
            hosts: Hosts::new(ensemble, of_clients.canonicalize_host_names),
        }
    }

    /// Whether there is anything to do where others connect.
    pub(crate) fn is_on(&self) -> bool {
        self.may_join.is_some()
    }

    /// Logs in, if this server is to, on a connection that it has opened.
    ///
    /// # Errors
    /// If the other side refuses, or does not prove that it knows the password. The connection is of
    /// no use then.
    pub(crate) async fn log_in<S>(
        &self,
        stream: &mut S,
        dialled: Dialled<'_>,
    ) -> Result<(), AuthError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        match &self.learner {
            None => Ok(()),
            Some(SaslInitiator::DigestMd5(login)) => log_in_by_password(stream, login).await,
            Some(SaslInitiator::Kerberos(key)) => {
                let service = self.hosts.service_of(dialled).await;
                kerberos::log_in(stream, &key.principal, service).await
            }
        }
    }

    /// Lets somebody log in who has connected, and of whom these bytes have come. What comes back
    /// belongs to what follows.
    ///
    /// # Errors
    /// If the login fails, or there is none, and there must be one. The connection is to be closed.
    pub(crate) async fn admit<S>(
        &self,
        stream: &mut S,
        mut ahead: Vec<u8>,
    ) -> Result<Vec<u8>, AuthError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let Some(acceptor) = &self.may_join else {
            return Ok(ahead);
        };
        // A server with a lower id says who it is and leaves at once, to be called back; one with a
        // higher id may have nothing to say before it is spoken to.
        let begin = async {
            while ahead.len() < MAGIC_BYTES && stream.read_buf(&mut ahead).await? > 0 {}
            Ok::<(), io::Error>(())
        };
        match self.server_requires {
            true => begin.await?,
            false => timeout(LOGIN_BEGINS_WITHIN, begin)
                .await
                .unwrap_or(Ok(()))?,
        }
        if !ahead.starts_with(&MAGIC.to_be_bytes()) {
            return match self.server_requires {
                true => Err(AuthError::Missing),
                false => Ok(ahead),
            };
        }
        // Nothing may follow before the server has answered: what has come is the first packet.
        let mut come = ahead.split_off(MAGIC_BYTES);
        let outcome = {
            let (mut input, mut output) = tokio::io::split(&mut *stream);
            let mut input = Come(&mut come).chain(&mut input);
            match acceptor {
                SaslAcceptor::DigestMd5(users) => exchange(&mut input, &mut output, users).await,
                SaslAcceptor::Kerberos(key) => {
                    kerberos::admit(&mut input, &mut output, &key.principal, &self.hosts).await
                }
            }
        };
        match outcome {
            Ok(user) => {
                tracing::info!(user = ?user, "a member has logged in by SASL");
                Ok(come)
            }
            Err(error) => {
                // It may be gone.
                let _ = write(stream, ERROR, b"").await;
                if self.server_requires {
                    return Err(error);
                }
                log_limiter::limited!(warn, err = %error, "a member's SASL login failed; it is let in all the same, as quorum.auth.serverRequireSasl is not set");
                Ok(come)
            }
        }
    }
}

/// Logs in by name and password.
async fn log_in_by_password<S>(stream: &mut S, login: &SaslLogin) -> Result<(), AuthError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut exchange = ClientExchange::new(MEMBERS, random::bytes()?);
    write(stream, IN_PROGRESS, b"").await?;
    loop {
        expect_magic(stream).await?;
        let (status, token) = read_rest(stream, TOKEN_BYTES_MAX).await?;
        if status != IN_PROGRESS && status != SUCCESS {
            return Err(AuthError::Denied);
        }
        match (exchange.step(&token, login)?, status) {
            (ClientStep::Respond(response), IN_PROGRESS) => {
                write(stream, IN_PROGRESS, &response).await?;
            }
            (ClientStep::Done, SUCCESS) => return Ok(()),
            _ => return Err(AuthError::NoPacket),
        }
    }
}

/// Behind the first magic: who has logged in.
async fn exchange<R, W>(
    input: &mut R,
    output: &mut W,
    users: &SaslUsers,
) -> Result<String, AuthError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut exchange = ServerExchange::new(MEMBERS, random::bytes()?);
    loop {
        let (_, token) = read_rest(input, TOKEN_BYTES_MAX).await?;
        match exchange.step(&token, users)? {
            ServerStep::Challenge(challenge) => write(output, IN_PROGRESS, &challenge).await?,
            ServerStep::Done {
                token,
                user,
                acts_as,
            } => {
                if acts_as.is_some_and(|acts_as| acts_as != user) {
                    return Err(Refusal::OtherUser.into());
                }
                write(output, SUCCESS, &token).await?;
                return Ok(user);
            }
            _ => return Err(AuthError::NoPacket),
        }
        expect_magic(input).await?;
    }
}

#[cfg(test)]
mod tests;
