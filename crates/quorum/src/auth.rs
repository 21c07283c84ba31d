//! SASL logins between members (`quorum.auth.*`).
//!
//! ```text
//! connecting side       listening side
//!   empty    -------->
//!            <--------   challenge
//!   response -------->
//!            <--------   success, and a proof that this side knows the password, too
//! ```
//!
//! With Kerberos (`kerberos`), the tokens are GSSAPI tokens, and the packet that reports success
//! does not contain a token.
//!
//! On the quorum port, the login comes first. On the election port, it comes after the hello. Each
//! token is in a packet: magic i64, status i32, token (length i32, bytes). Bytes that do not begin
//! with the magic are not a login, and are accepted unless `quorum.auth.serverRequireSasl` is set.
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
use transport::sasl::{
    ClientExchange, ClientStep, MEMBERS, NONCE_BYTES, Refusal, ServerExchange, ServerStep,
};

use self::kerberos::Hosts;
use self::packet::{
    ERROR, IN_PROGRESS, MAGIC, MAGIC_BYTES, ReceivedBytes, SUCCESS, expect_magic, read_rest, write,
};

/// Maximum length of a token, bytes. Neither side of DIGEST-MD5 accepts longer tokens.
const TOKEN_BYTES_MAX: usize = 4096;

/// Time for a login to begin if logins are optional. A peer that is silent for this time is treated
/// as a peer that does not log in. A peer that logs in begins without delay. Java waits for the
/// duration of `syncLimit`.
const LOGIN_BEGINS_WITHIN: Duration = Duration::from_secs(1);

/// Rules for logins between members.
#[derive(Debug, Default)]
pub(crate) struct QuorumAuth {
    /// Credentials of this server for outgoing connections.
    learner: Option<SaslInitiator>,
    /// Accepted logins. `None` without SASL.
    may_join: Option<SaslAcceptor>,
    server_requires: bool,
    /// Hosts of the members, for Kerberos logins.
    hosts: Hosts,
}

/// Server to which this server has connected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DialledServer<'a> {
    /// Id of the server, if it is known.
    pub(crate) sid: Option<Sid>,
    /// Configured host of the server. Kerberos uses it if `sid` is not in the member list.
    pub(crate) host: &'a str,
}

/// Reason why a login between members failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuthError {
    /// The connection is broken.
    #[error("the connection failed during the SASL login: {0}")]
    Io(#[from] io::Error),
    /// A token is refused.
    #[error("SASL login refused: {0}")]
    Refused(#[from] Refusal),
    /// A Kerberos token is refused, or a ticket is not available.
    #[error("SASL login refused: {0}")]
    Ticket(#[from] GssapiRefusal),
    /// The ticket belongs to a principal that is not a member.
    #[error(
        "SASL login refused: the principal {0:?} does not have the form service/host@REALM with the host of a member"
    )]
    NoMember(String),
    /// The bytes are not a login packet, or the packet has an unexpected status.
    #[error("the other member does not use SASL")]
    NoPacket,
    /// The length of a token is invalid.
    #[error("the SASL token has an invalid length of {0} bytes")]
    Length(i32),
    /// The other side refuses the login.
    #[error(
        "the other member refused the SASL login: its section QuorumServer does not contain the name and password in this server's section QuorumLearner"
    )]
    Denied,
    /// The other side refuses a login with a ticket.
    #[error(
        "the other member refused the SASL login of {principal} with the ticket for {service}; the other member's log contains the reason"
    )]
    TicketDenied {
        /// Principal of this server.
        principal: String,
        /// Service of the ticket.
        service: String,
    },
    /// The other side does not log in, but a login is required.
    #[error("the other member did not log in, but quorum.auth.serverRequireSasl is set")]
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

    /// Returns whether incoming connections may log in.
    pub(crate) fn is_on(&self) -> bool {
        self.may_join.is_some()
    }

    /// Logs in on an outgoing connection if this server is configured to do so.
    ///
    /// # Errors
    /// If the login fails, for example because the other side does not prove that it knows the
    /// password. The connection must then be closed.
    pub(crate) async fn log_in<S>(
        &self,
        stream: &mut S,
        dialled: DialledServer<'_>,
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

    /// Accepts the login on an incoming connection, from which `ahead` has already been read.
    /// Returns the bytes that were read but do not belong to a login.
    ///
    /// # Errors
    /// If a required login fails or is missing, or if the connection breaks before the login. The
    /// connection must then be closed.
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
        // On the election port, a peer with a lower id than this server closes the connection after
        // its hello, so that this server calls back. A peer with a higher id may wait for a message
        // before it sends one.
        let begin = async {
            while ahead.len() < MAGIC_BYTES && stream.read_buf(&mut ahead).await? > 0 {}
            Ok::<(), io::Error>(())
        };
        if self.server_requires {
            begin.await?;
        } else {
            timeout(LOGIN_BEGINS_WITHIN, begin)
                .await
                .unwrap_or(Ok(()))?;
        }
        if !ahead.starts_with(&MAGIC.to_be_bytes()) {
            return if self.server_requires {
                Err(AuthError::Missing)
            } else {
                Ok(ahead)
            };
        }
        // The peer must not send more than one packet before this server has answered, so the bytes
        // after the magic belong to the first packet.
        let mut come = ahead.split_off(MAGIC_BYTES);
        let outcome = {
            let (mut input, mut output) = tokio::io::split(&mut *stream);
            let mut input = ReceivedBytes(&mut come).chain(&mut input);
            match acceptor {
                SaslAcceptor::DigestMd5(users) => exchange(&mut input, &mut output, users).await,
                SaslAcceptor::Kerberos(key) => {
                    kerberos::admit(&mut input, &mut output, &key.principal, &self.hosts).await
                }
            }
        };
        match outcome {
            Ok(user) => {
                tracing::info!(user = ?user, "a member logged in with SASL");
                Ok(come)
            }
            Err(error) => {
                // The peer may already have closed the connection.
                let _ = write(stream, ERROR, b"").await;
                if self.server_requires {
                    return Err(error);
                }
                log_limiter::limited!(warn, err = %error, "a member's SASL login failed; accepting it because quorum.auth.serverRequireSasl is not set");
                Ok(come)
            }
        }
    }
}

/// Returns unpredictable bytes for an exchange.
fn nonce() -> io::Result<[u8; NONCE_BYTES]> {
    let mut bytes = [0; NONCE_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes)
}

/// Logs in with name and password.
async fn log_in_by_password<S>(stream: &mut S, login: &SaslLogin) -> Result<(), AuthError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut exchange = ClientExchange::new(MEMBERS, nonce()?);
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

/// Runs the exchange on the listening side, after the magic of the first packet has been read.
/// Returns the authenticated user.
async fn exchange<R, W>(
    input: &mut R,
    output: &mut W,
    users: &SaslUsers,
) -> Result<String, AuthError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut exchange = ServerExchange::new(MEMBERS, nonce()?);
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
pub(crate) mod tests;
