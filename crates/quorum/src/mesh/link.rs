//! Connection to another server, after both sides have been identified.
//!
//! A task reads and writes. The output is a single message, which newer messages replace.

use std::io::{self, Cursor};
use std::time::Duration;

use election::links::ConnectionId;
use proto::Sid;
use proto::notification::{FRAME_BYTES_MAX, Notification};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::watch;
use tokio::time::timeout;
use transport::Stream;

use super::input::{Input, ListenerContext};

/// Parameters of a connection's task.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) connection: ConnectionId,
    /// Server at the other end.
    pub(super) sid: Sid,
    /// Bytes that were received after the hello.
    pub(super) rest: Vec<u8>,
    /// Newest message to write.
    pub(super) outgoing: watch::Receiver<Option<Notification>>,
    pub(super) context: ListenerContext,
}

/// Reason for the end of a connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkEnd {
    /// One of the two sides closed the connection.
    #[error("closed")]
    Closed,
    /// The length of a message is not between 1 and [`FRAME_BYTES_MAX`].
    #[error("the message has an invalid length of {len} bytes")]
    Length {
        /// Received length.
        len: i32,
    },
    /// A message began but was not completed in time.
    #[error("the rest of a message did not arrive in time")]
    Stalled,
    /// Error of the system.
    #[error(transparent)]
    Io(io::Error),
}

impl From<io::Error> for LinkEnd {
    /// Converts an error. The end of a process, or a newer connection that replaces this one, can
    /// cause any of the errors that are converted to `Closed`.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted => Self::Closed,
            _ => Self::Io(error),
        }
    }
}

impl Link {
    /// Reads and writes until the connection ends, and reports the end.
    pub(super) async fn run(mut self, stream: Stream) {
        let (read, write) = stream.into_split();
        let rest = Cursor::new(std::mem::take(&mut self.rest));
        let reader = BufReader::new(rest.chain(read));
        let outgoing = self.outgoing.clone();
        let end = tokio::select! {
            end = self.receive(reader) => end,
            end = transmit(write, outgoing) => end,
        };
        let connection = self.connection;
        let _ = self
            .context
            .inputs
            .send(Input::Closed { connection, end })
            .await;
    }

    async fn receive(&self, mut reader: impl AsyncRead + Unpin) -> LinkEnd {
        loop {
            match read_frame(&mut reader, self.context.settings.read_timeout).await {
                Ok(frame) => self.deliver(frame).await,
                Err(end) => return end,
            }
        }
    }

    async fn deliver(&self, frame: Vec<u8>) {
        match Notification::decode(frame.into()) {
            Ok(notification) => {
                let connection = self.connection;
                let heard = Input::ReceivedNotification {
                    connection,
                    notification,
                };
                // An error means that the server is stopping.
                let _ = self.context.inputs.send(heard).await;
            }
            Err(error) => {
                log_limiter::limited!(in self.context.log_limiter => warn, sid = %self.sid, err = %error, "ignoring a malformed notification");
            }
        }
    }
}

/// Reads the next message, without its length. `limit` applies to the bytes after the length.
async fn read_frame(
    reader: &mut (impl AsyncRead + Unpin),
    limit: Duration,
) -> Result<Vec<u8>, LinkEnd> {
    let len = reader.read_i32().await?;
    let Ok(wanted @ 1..=FRAME_BYTES_MAX) = usize::try_from(len) else {
        return Err(LinkEnd::Length { len });
    };
    // The buffer grows with the received bytes, not with the announced length.
    let mut frame = Vec::new();
    let mut body = reader.take(wanted as u64);
    match timeout(limit, body.read_to_end(&mut frame)).await {
        Ok(Ok(_)) if frame.len() == wanted => Ok(frame),
        Ok(Ok(_)) => Err(LinkEnd::Closed),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(LinkEnd::Stalled),
    }
}

async fn transmit(
    mut writer: impl AsyncWrite + Unpin,
    mut outgoing: watch::Receiver<Option<Notification>>,
) -> LinkEnd {
    let mut bytes = Vec::new();
    while outgoing.changed().await.is_ok() {
        let newest = outgoing.borrow_and_update().clone();
        bytes.clear();
        if let Some(notification) = newest {
            notification.encode_frame(&mut bytes);
        }
        let written = async {
            writer.write_all(&bytes).await?;
            writer.flush().await
        };
        if let Err(error) = written.await {
            return error.into();
        }
    }
    LinkEnd::Closed
}

#[cfg(test)]
mod tests {
    use proto::notification::{Form, PeerState};
    use proto::{ElectionRound, Epoch, Zxid};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    async fn feed(mut bytes: &[u8]) -> (Vec<usize>, LinkEnd) {
        let mut lens = Vec::new();
        loop {
            match read_frame(&mut bytes, LIMIT).await {
                Ok(frame) => lens.push(frame.len()),
                Err(end) => return (lens, end),
            }
        }
    }

    #[tokio::test]
    async fn lengths_are_bounded() {
        for len in [0, -1, i32::MIN, 524_289, i32::MAX] {
            let (lens, end) = feed(&len.to_be_bytes()).await;
            assert!(lens.is_empty());
            assert!(matches!(end, LinkEnd::Length { len: told } if told == len));
        }
        let longest = i32::try_from(FRAME_BYTES_MAX).unwrap().to_be_bytes();
        let frames = [&[0, 0, 0, 1, 7], &longest[..], &vec![0; FRAME_BYTES_MAX]].concat();
        let (lens, end) = feed(&frames).await;
        assert_eq!(lens, [1, FRAME_BYTES_MAX]);
        assert!(matches!(end, LinkEnd::Closed));
    }

    #[tokio::test]
    async fn an_incomplete_message_is_ignored() {
        for len in 0..7 {
            let (lens, end) = feed(&[0, 0, 0, 3, 1, 2, 3][..len]).await;
            assert!(lens.is_empty() && matches!(end, LinkEnd::Closed), "{len}");
        }
    }

    #[tokio::test]
    async fn a_stalled_message_ends_the_connection() {
        let (mut near, mut far) = tokio::io::duplex(64);
        near.write_all(&[0, 0, 0, 3, 1]).await.unwrap();
        let end = read_frame(&mut far, Duration::from_millis(20))
            .await
            .unwrap_err();
        assert!(matches!(end, LinkEnd::Stalled));
    }

    fn vote(round: i64) -> Notification {
        Notification {
            state: PeerState::Looking,
            leader: Sid(1),
            zxid: Zxid(0),
            round: ElectionRound(round),
            peer_epoch: Epoch(0),
            form: Form::WithoutEpoch,
        }
    }

    #[tokio::test]
    async fn only_the_newest_unsent_message_is_written() {
        let (sender, receiver) = watch::channel(None);
        let (near, mut far) = tokio::io::duplex(16);
        let writing = tokio::spawn(transmit(near, receiver));
        let mut head = [0; 4];
        sender.send(Some(vote(1))).unwrap();
        far.read_exact(&mut head).await.unwrap();
        // The writer has written part of the first message.
        for round in 2..=1000 {
            sender.send(Some(vote(round))).unwrap();
        }
        drop(sender);
        let mut bytes = Vec::new();
        far.read_to_end(&mut bytes).await.unwrap();
        assert!(matches!(writing.await.unwrap(), LinkEnd::Closed));
        let mut expected = Vec::new();
        vote(1).encode_frame(&mut expected);
        vote(1000).encode_frame(&mut expected);
        assert_eq!([&head[..], &bytes].concat(), expected);
    }
}
