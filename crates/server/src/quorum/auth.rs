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
//! On the quorum port this comes before anything else, on the election port behind the hello. Each token is in a
//! packet: magic i64, status i32, token (length i32, bytes). What does not begin with the magic is no login, and is
//! let through unless `quorum.auth.serverRequireSasl`.
//!
//! Source: SaslQuorumAuthServer, SaslQuorumAuthLearner, QuorumAuth.

use std::io;
use std::time::Duration;

use config::{Ensemble, SaslLogin, SaslUsers};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use transport::sasl::{ClientExchange, ClientStep, MEMBERS, Refusal, ServerExchange, ServerStep};

use crate::random;

/// In front of each packet.
const MAGIC: i64 = 0x5f24_3501_3501_edcc;
/// The exchange goes on.
const IN_PROGRESS: i32 = 0;
/// Who connects is in.
const SUCCESS: i32 = 1;
/// And is not.
const ERROR: i32 = -1;
/// Bytes of a token: more than either side of DIGEST-MD5 takes.
const TOKEN_BYTES_MAX: usize = 4096;

/// Who logs in begins right behind his hello. Where nobody must, somebody who is silent for so long is
/// taken for one who does not; Java waits for the time of `syncLimit`.
const LOGIN_BEGINS_WITHIN: Duration = Duration::from_secs(1);

/// Who logs in where, and must.
#[derive(Debug, Default)]
pub(crate) struct QuorumAuth {
    /// As whom this server logs in where it connects.
    learner: Option<SaslLogin>,
    /// Who may log in here; `None` is no SASL.
    may_join: Option<SaslUsers>,
    server_requires: bool,
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
    /// Nobody comes in without.
    #[error("the other side does not log in, and quorum.auth.serverRequireSasl is set")]
    Missing,
}

impl QuorumAuth {
    pub(crate) fn new(ensemble: &Ensemble) -> Self {
        let sasl = &ensemble.sasl;
        Self {
            learner: sasl.learner.clone(),
            may_join: sasl.may_join.clone(),
            server_requires: sasl.server_requires,
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
    pub(crate) async fn log_in<S>(&self, stream: &mut S) -> Result<(), AuthError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let Some(login) = &self.learner else {
            return Ok(());
        };
        let mut exchange = ClientExchange::new(MEMBERS, random::bytes()?);
        write(stream, IN_PROGRESS, b"").await?;
        loop {
            expect_magic(stream).await?;
            let (status, token) = read_rest(stream).await?;
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
        let Some(users) = &self.may_join else {
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
            exchange(&mut input, &mut output, users).await
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
                tracing::warn!(err = %error, "a member's SASL login failed; it is let in all the same, as quorum.auth.serverRequireSasl is not set");
                Ok(come)
            }
        }
    }
}

const MAGIC_BYTES: usize = size_of::<i64>();

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
        let (_, token) = read_rest(input).await?;
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

async fn expect_magic<R: AsyncRead + Unpin>(input: &mut R) -> Result<(), AuthError> {
    match input.read_i64().await? {
        MAGIC => Ok(()),
        _ => Err(AuthError::NoPacket),
    }
}

/// The rest of a packet: status and token. None is as good as an empty one.
async fn read_rest<R: AsyncRead + Unpin>(input: &mut R) -> Result<(i32, Vec<u8>), AuthError> {
    let (status, len) = (input.read_i32().await?, input.read_i32().await?);
    let bytes = match len {
        -1 => 0,
        len => usize::try_from(len).map_err(|_| AuthError::Length(len))?,
    };
    if bytes > TOKEN_BYTES_MAX {
        return Err(AuthError::Length(len));
    }
    let mut token = vec![0; bytes];
    input.read_exact(&mut token).await?;
    Ok((status, token))
}

async fn write<W>(output: &mut W, status: i32, token: &[u8]) -> io::Result<()>
where
    W: AsyncWrite + Unpin,
{
    let len = i32::try_from(token.len()).unwrap_or(i32::MAX);
    let mut packet = Vec::with_capacity(MAGIC_BYTES + 8 + token.len());
    packet.extend_from_slice(&MAGIC.to_be_bytes());
    packet.extend_from_slice(&status.to_be_bytes());
    packet.extend_from_slice(&len.to_be_bytes());
    packet.extend_from_slice(token);
    output.write_all(&packet).await?;
    output.flush().await
}

/// Bytes that have come already; those that are read go.
struct Come<'a>(&'a mut Vec<u8>);

impl AsyncRead for Come<'_> {
    fn poll_read(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        into: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        let come = &mut *self.get_mut().0;
        let count = come.len().min(into.remaining());
        into.put_slice(&come[..count]);
        come.drain(..count);
        std::task::Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use config::Secret;
    use tokio::io::{DuplexStream, duplex};

    use super::*;

    fn auth(joins_as: &str, password: &str, server_requires: bool) -> QuorumAuth {
        let users = [("zk".to_owned(), Secret::new("secret"))];
        QuorumAuth {
            learner: Some(SaslLogin {
                user: joins_as.to_owned(),
                password: Secret::new(password),
            }),
            may_join: Some(SaslUsers::new(users)),
            server_requires,
        }
    }

    async fn both(
        dials: &QuorumAuth,
        listens: &QuorumAuth,
        ahead: usize,
    ) -> (Result<(), AuthError>, Result<Vec<u8>, AuthError>) {
        let (mut out, mut inward) = duplex(1 << 16);
        let dialling = async {
            let logged_in = dials.log_in(&mut out).await;
            let _ = out.write_all(b"what follows").await;
            logged_in
        };
        let listening = async {
            let mut come = vec![0; ahead];
            inward.read_exact(&mut come).await.unwrap();
            listens.admit(&mut inward, come).await
        };
        tokio::join!(dialling, listening)
    }

    /// Source: the bytes that a Java learner sends first.
    #[test]
    fn the_magic_is_that_of_java() {
        assert_eq!(
            MAGIC.to_be_bytes(),
            [0x5f, 0x24, 0x35, 1, 0x35, 1, 0xed, 0xcc]
        );
    }

    #[tokio::test]
    async fn members_that_know_the_password_come_in() {
        let auth = auth("zk", "secret", true);
        // Whatever of the first packet has come together with what was before it.
        for ahead in [0, 3, 8, 11, 16] {
            let (logged_in, admitted) = both(&auth, &auth, ahead).await;
            logged_in.unwrap();
            assert_eq!(admitted.unwrap(), b"");
        }
    }

    #[tokio::test]
    async fn who_knows_no_password_stays_out_where_it_is_required() {
        for (user, password) in [("zk", "wrong"), ("kz", "secret")] {
            let wrong = auth(user, password, true);
            let (logged_in, admitted) = both(&wrong, &wrong, 0).await;
            assert!(matches!(logged_in, Err(AuthError::Denied)), "{logged_in:?}");
            assert!(matches!(
                admitted,
                Err(AuthError::Refused(Refusal::WrongPassword))
            ));
            let lenient = auth(user, password, false);
            let (logged_in, admitted) = both(&wrong, &lenient, 0).await;
            assert!(logged_in.is_err() && admitted.is_ok());
        }
    }

    #[tokio::test]
    async fn who_does_not_log_in_is_let_through_with_all_his_bytes_unless_it_is_required() {
        let silent = QuorumAuth::default();
        let (_, admitted) = both(&silent, &auth("zk", "secret", true), 2).await;
        assert!(matches!(admitted, Err(AuthError::Missing)));
        let (_, admitted) = both(&silent, &auth("zk", "secret", false), 2).await;
        assert!(b"what follows".starts_with(&admitted.unwrap()));
        // And without SASL nothing is even looked at.
        let (_, admitted) = both(&silent, &silent, 2).await;
        assert_eq!(admitted.unwrap(), b"wh");
    }

    #[tokio::test]
    async fn who_is_silent_is_let_through_after_a_while_unless_a_login_is_required() {
        let (_out, mut inward) = duplex(1 << 16);
        let lenient = auth("zk", "secret", false);
        assert_eq!(
            lenient.admit(&mut inward, b"ab".to_vec()).await.unwrap(),
            b"ab"
        );
    }

    async fn answer(hostile: impl AsyncFnOnce(&mut DuplexStream)) -> Result<Vec<u8>, AuthError> {
        let (mut out, mut inward) = duplex(1 << 16);
        let auth = auth("zk", "secret", true);
        let attacking = async {
            hostile(&mut out).await;
            out.shutdown().await.unwrap();
        };
        tokio::join!(attacking, auth.admit(&mut inward, Vec::new())).1
    }

    /// The election port calls such a server back.
    #[tokio::test]
    async fn who_leaves_at_once_is_let_through_unless_a_login_is_required() {
        for server_requires in [false, true] {
            let (mut out, mut inward) = duplex(1 << 16);
            out.shutdown().await.unwrap();
            let auth = auth("zk", "secret", server_requires);
            let admitted = auth.admit(&mut inward, Vec::new()).await;
            assert_eq!(admitted.is_err(), server_requires);
        }
    }

    #[tokio::test]
    async fn wrong_packets_end_the_login() {
        let long = [&MAGIC.to_be_bytes()[..], &[0; 4], &5000i32.to_be_bytes()].concat();
        let refused = answer(async |out| out.write_all(&long).await.unwrap()).await;
        assert!(
            matches!(refused, Err(AuthError::Length(5000))),
            "{refused:?}"
        );
        let negative = [&MAGIC.to_be_bytes()[..], &[0; 4], &(-2i32).to_be_bytes()].concat();
        let refused = answer(async |out| out.write_all(&negative).await.unwrap()).await;
        assert!(matches!(refused, Err(AuthError::Length(-2))));
        let refused = answer(async |out| out.write_all(&[0x5f, 0x24]).await.unwrap()).await;
        assert!(matches!(refused, Err(AuthError::Missing)));
        let cut = [&MAGIC.to_be_bytes()[..], &[0; 3]].concat();
        let refused = answer(async |out| out.write_all(&cut).await.unwrap()).await;
        assert!(matches!(refused, Err(AuthError::Io(_))));
        let twice = answer(async |out| {
            write(out, IN_PROGRESS, b"").await.unwrap();
            write(out, IN_PROGRESS, b"username=\"zk\"").await.unwrap();
        });
        assert!(matches!(
            twice.await,
            Err(AuthError::Refused(Refusal::Missing(_)))
        ));
    }

    #[tokio::test]
    async fn a_server_that_does_not_know_the_password_is_left() {
        let (mut out, mut inward) = duplex(1 << 16);
        let auth = auth("zk", "secret", true);
        let pretending = async {
            for (status, token) in [
                (
                    IN_PROGRESS,
                    &b"realm=\"zk-quorum-sasl-md5\",nonce=\"a\",algorithm=md5-sess"[..],
                ),
                (SUCCESS, &b"rspauth=00000000000000000000000000000000"[..]),
            ] {
                expect_magic(&mut inward).await.unwrap();
                read_rest(&mut inward).await.unwrap();
                write(&mut inward, status, token).await.unwrap();
            }
        };
        let (logged_in, ()) = tokio::join!(auth.log_in(&mut out), pretending);
        assert!(matches!(
            logged_in,
            Err(AuthError::Refused(Refusal::WrongPassword))
        ));
    }
}
