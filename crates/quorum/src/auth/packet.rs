//! Packets of a login: magic i64, status i32, token (length i32, bytes; length -1 without a token).
//!
//! Source: QuorumAuth, QuorumAuthPacket.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::AuthError;

/// Prefix of each packet.
pub(super) const MAGIC: i64 = 0x5f24_3501_3501_edcc;
pub(super) const MAGIC_BYTES: usize = size_of::<i64>();
/// The exchange continues.
pub(super) const IN_PROGRESS: i32 = 0;
/// The connecting side is authenticated.
pub(super) const SUCCESS: i32 = 1;
/// The login failed.
pub(super) const ERROR: i32 = -1;

pub(super) async fn expect_magic<R: AsyncRead + Unpin>(input: &mut R) -> Result<(), AuthError> {
    match input.read_i64().await? {
        MAGIC => Ok(()),
        _ => Err(AuthError::NoPacket),
    }
}

/// Reads the rest of a packet: status and token. A missing token is returned as an empty one.
pub(super) async fn read_rest<R: AsyncRead + Unpin>(
    input: &mut R,
    token_bytes_max: usize,
) -> Result<(i32, Vec<u8>), AuthError> {
    let (status, len) = (input.read_i32().await?, input.read_i32().await?);
    let bytes = match len {
        -1 => 0,
        len => usize::try_from(len).map_err(|_| AuthError::Length(len))?,
    };
    if bytes > token_bytes_max {
        return Err(AuthError::Length(len));
    }
    let mut token = vec![0; bytes];
    input.read_exact(&mut token).await?;
    Ok((status, token))
}

/// Writes a packet with a token.
pub(super) async fn write<W>(output: &mut W, status: i32, token: &[u8]) -> io::Result<()>
where
    W: AsyncWrite + Unpin,
{
    let len = i32::try_from(token.len()).unwrap_or(i32::MAX);
    let mut packet = Vec::with_capacity(MAGIC_BYTES + 8 + token.len());
    put_head(&mut packet, status, len);
    packet.extend_from_slice(token);
    output.write_all(&packet).await?;
    output.flush().await
}

/// Writes a packet without a token.
pub(super) async fn write_nothing<W>(output: &mut W, status: i32) -> io::Result<()>
where
    W: AsyncWrite + Unpin,
{
    let mut packet = Vec::with_capacity(MAGIC_BYTES + 8);
    put_head(&mut packet, status, -1);
    output.write_all(&packet).await?;
    output.flush().await
}

fn put_head(packet: &mut Vec<u8>, status: i32, len: i32) {
    packet.extend_from_slice(&MAGIC.to_be_bytes());
    packet.extend_from_slice(&status.to_be_bytes());
    packet.extend_from_slice(&len.to_be_bytes());
}

/// Reader over bytes that have already been received. Reading removes them.
pub(super) struct ReceivedBytes<'a>(pub(super) &'a mut Vec<u8>);

impl AsyncRead for ReceivedBytes<'_> {
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
