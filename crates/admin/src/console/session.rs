//! Client session with the member. It sends one request at a time.

use std::sync::Arc;

use bytes::Bytes;
use client::frame::{put_request, split_reply};
use client::{Code, Error, Handshake, LossReason, RawConnection};
use jute::{Decode, Encode, Limits, Reader, Str};
use parking_lot::Mutex;
use proto::connect::AuthPacket;
use proto::request::PathWatchRequest;
use proto::response::{GetChildren2Response, StatResponse};
use proto::{ErrorCode, OpCode, Stat, Xid};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, SemaphorePermit, mpsc, oneshot};
use tokio::time::timeout;

use super::visits::Login;
use crate::limits::{
    CHILDREN_LISTS_MAX, CHILDREN_PAGE, REPLY_BYTES_MAX, REPLY_PATIENCE, SESSION_IDLE,
    SESSION_TIMEOUT,
};

/// Permits for the lists of children that sessions keep. All servers in this process share them.
static LISTS: Semaphore = Semaphore::const_new(CHILDREN_LISTS_MAX);

/// Reason why a request was not executed, or its result is unknown.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Fault {
    /// The member refused the request.
    #[error("{0}")]
    Refused(Code),
    /// No session can be opened.
    #[error("this member cannot open a session: {0}")]
    NoSession(String),
    /// The session ended before the request was sent.
    #[error("the session ended before the request was sent")]
    Unsent,
    /// The session ended after the request was sent.
    #[error(
        "the session ended before the reply, so it is unknown whether the request was executed: {0}"
    )]
    Lost(String),
    /// A reply cannot be decoded.
    #[error("cannot decode the member's reply: {0}")]
    Answer(String),
}

/// Session that a task keeps open until this value is dropped or no request arrives for a while.
#[derive(Debug)]
pub(crate) struct ZnodeSession {
    calls: mpsc::Sender<Call>,
    /// The last long list of children. It is dropped when the session ends.
    listed: Listed,
}

type Listed = Arc<Mutex<Option<Arc<Children>>>>;

/// The children of a znode.
#[derive(Debug)]
pub(crate) struct Children {
    path: String,
    /// Stat of the znode.
    pub(crate) stat: Stat,
    /// Names of the children, sorted.
    pub(crate) names: Vec<Str>,
    /// Permit to keep this list. `None` if the list is not kept.
    _kept: Option<SemaphorePermit<'static>>,
}

#[derive(Debug)]
struct Call {
    op: OpCode,
    body: Bytes,
    reply: oneshot::Sender<Result<Bytes, Fault>>,
}

impl ZnodeSession {
    /// Opens a session over a stream to the member, with the visitor's identity if there is one.
    pub(crate) async fn open<S>(stream: S, login: Option<&Login>) -> Result<Self, Fault>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let opening = timeout(REPLY_PATIENCE, begin(stream, login)).await;
        let connection = opening.map_err(|_| {
            let text = format!("no answer for {} s", REPLY_PATIENCE.as_secs());
            Fault::NoSession(text)
        })??;
        // A visitor sends only a few requests at a time.
        let (calls, inbox) = mpsc::channel(8);
        let listed = Listed::default();
        tokio::spawn(serve(connection, inbox, listed.clone()));
        Ok(Self { calls, listed })
    }

    /// Sends a request and decodes its reply.
    pub(crate) async fn ask<T: Decode>(
        &self,
        op: OpCode,
        record: &impl Encode,
    ) -> Result<T, Fault> {
        decode(self.call(op, record.to_bytes()).await?)
    }

    /// Sends a request without a record.
    pub(crate) async fn ask_plain<T: Decode>(&self, op: OpCode) -> Result<T, Fault> {
        decode(self.call(op, Bytes::new()).await?)
    }

    /// Returns the children of a znode. A long list is kept for requests for its further pages.
    /// Each use checks that the znode, its children and its ACL are unchanged.
    pub(crate) async fn children(&self, path: &str) -> Result<Arc<Children>, Fault> {
        let request = PathWatchRequest {
            path: Some(path.into()),
            watch: false,
        };
        let kept = self.listed.lock().clone();
        if let Some(kept) = kept.filter(|kept| kept.path == path) {
            let now: StatResponse = self.ask(OpCode::Exists, &request).await?;
            if has_same_children(&kept.stat, &now.stat) {
                return Ok(kept);
            }
        }
        let reply = self.call(OpCode::GetChildren2, request.to_bytes()).await?;
        // A list may have millions of names, so it is not decoded on a worker of the runtime.
        let reading = blocking::run(move || {
            let mut read: GetChildren2Response = decode(reply)?;
            read.children.sort_unstable();
            Ok::<_, Fault>(read)
        });
        let failed = |error: tokio::task::JoinError| Fault::Answer(error.to_string());
        let read = reading.await.map_err(failed)??;
        // Drops the previous list first, so that its permit is available again.
        *self.listed.lock() = None;
        let is_long = read.children.len() > CHILDREN_PAGE;
        let permit = is_long.then(|| LISTS.try_acquire().ok()).flatten();
        let is_kept = permit.is_some();
        let listed = Arc::new(Children {
            path: path.to_owned(),
            stat: read.stat,
            names: read.children,
            _kept: permit,
        });
        if is_kept {
            *self.listed.lock() = Some(listed.clone());
            if !self.is_open() {
                *self.listed.lock() = None;
            }
        }
        Ok(listed)
    }

    /// Returns whether requests can still be sent.
    pub(crate) fn is_open(&self) -> bool {
        !self.calls.is_closed()
    }

    /// Sends a request whose reply only confirms its execution.
    pub(crate) async fn order(&self, op: OpCode, record: &impl Encode) -> Result<(), Fault> {
        self.call(op, record.to_bytes()).await.map(drop)
    }

    /// Sends a request and returns the bytes of its reply.
    pub(crate) async fn call(&self, op: OpCode, body: Bytes) -> Result<Bytes, Fault> {
        let (reply, answer) = oneshot::channel();
        let call = Call { op, body, reply };
        self.calls.send(call).await.map_err(|_| Fault::Unsent)?;
        answer.await.unwrap_or(Err(Fault::Unsent))
    }
}

/// Returns whether two states of a znode have the same children and the same ACL.
fn has_same_children(one: &Stat, other: &Stat) -> bool {
    let state = |stat: &Stat| (stat.czxid, stat.pzxid, stat.cversion, stat.aversion);
    state(one) == state(other)
}

/// Decodes a reply.
pub(crate) fn decode<T: Decode>(body: Bytes) -> Result<T, Fault> {
    let limits = Limits::from_max_buffer(REPLY_BYTES_MAX, 0);
    let mut input = Reader::with_limits(body, limits);
    T::decode(&mut input).map_err(|error| Fault::Answer(error.to_string()))
}

async fn begin<S>(stream: S, login: Option<&Login>) -> Result<RawConnection<S>, Fault>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let sasl = match login {
        Some(Login::Sasl(login, _)) => Some(login.clone()),
        _ => None,
    };
    let handshake = Handshake::default()
        .with_login(sasl)
        .with_session_timeout(SESSION_TIMEOUT)
        .with_read_only(Some(true))
        .with_frame_bytes_max(REPLY_BYTES_MAX);
    let opened = RawConnection::over(stream, &Arc::from("this member"), &handshake).await;
    let mut connection = opened.map_err(|error| match error {
        // The member closes the connection without a response while it does not serve clients.
        Error::Handshake { .. } => {
            Fault::NoSession("the member does not serve clients at present".to_owned())
        }
        Error::Login { .. } => Fault::Refused(Code(ErrorCode::AuthFailed.code())),
        other => Fault::NoSession(other.to_string()),
    })?;
    if let Some(Login::Digest(auth)) = login {
        let packet = AuthPacket {
            auth_type: 0,
            scheme: Some("digest".into()),
            auth: Some(Bytes::copy_from_slice(auth.expose().as_bytes())).into(),
        };
        exchange(&mut connection, Xid::AUTH, OpCode::Auth, &packet.to_bytes()).await?;
    }
    Ok(connection)
}

/// Serves calls until no sender remains, no call arrives for a while, or a reply is lost. Then the
/// session ends, and its list of children is dropped.
async fn serve<S>(connection: RawConnection<S>, calls: mpsc::Receiver<Call>, listed: Listed)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    serve_calls(connection, calls).await;
    *listed.lock() = None;
}

async fn serve_calls<S>(mut connection: RawConnection<S>, mut calls: mpsc::Receiver<Call>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let idle = SESSION_IDLE.min(connection.accepted.session_timeout / 2);
    let mut xid = Xid(0);
    while let Ok(Some(call)) = timeout(idle, calls.recv()).await {
        xid = Xid(xid.0.wrapping_add(1).max(1));
        let exchanged = exchange(&mut connection, xid, call.op, &call.body);
        let answered = timeout(REPLY_PATIENCE, exchanged)
            .await
            .unwrap_or_else(|_| {
                Err(Fault::Lost(format!(
                    "no answer for {} s",
                    REPLY_PATIENCE.as_secs()
                )))
            });
        let is_over = matches!(answered, Err(Fault::Lost(_)));
        // The caller may have stopped waiting.
        let _ = call.reply.send(answered);
        if is_over {
            return;
        }
    }
    // Callers whose requests are still in the channel receive [`Fault::Unsent`].
    drop(calls);
    connection.put_close(Xid(xid.0.wrapping_add(1).max(1)));
    let closing = async { while connection.wire.turn().await.is_ok() {} };
    let _ = timeout(REPLY_PATIENCE, closing).await;
}

/// Sends a request and receives its reply.
async fn exchange<S>(
    connection: &mut RawConnection<S>,
    xid: Xid,
    op: OpCode,
    body: &[u8],
) -> Result<Bytes, Fault>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let lost = |reason: LossReason| Fault::Lost(reason.to_string());
    let wire = &mut connection.wire;
    put_request(xid, op.number(), wire.outbound(), |out| {
        out.extend_from_slice(body);
    });
    loop {
        if let Some(frame) = wire.next_frame().map_err(|error| lost(error.into()))? {
            let (header, body) = split_reply(frame).map_err(|error| lost(error.into()))?;
            if header.xid != xid {
                continue;
            }
            return match header.err {
                0 => Ok(Bytes::copy_from_slice(body)),
                code => Err(Fault::Refused(Code(code))),
            };
        }
        let turned = wire.turn().await;
        turned
            .map_err(|error| Fault::Lost(format!("the member closed the connection ({error})")))?;
    }
}
