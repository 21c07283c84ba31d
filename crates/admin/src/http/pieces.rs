//! Bodies that are produced in pieces, at the pace of the client.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use super::response::ResponseBody;
use super::timed_stream::Activity;
use super::workers::Workers;
use crate::limits;

/// Producer of the pieces of a body.
pub(crate) trait Source: Send + 'static {
    /// Returns the next piece, or `None` after the last. Called on a thread for admin work.
    ///
    /// # Errors
    /// If the next piece cannot be produced. The connection is then closed before the body is
    /// complete.
    fn next(&mut self) -> io::Result<Option<Bytes>>;
}

/// Body whose pieces are still being produced.
pub(crate) struct Pieces {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    /// Number of unsent bytes, if it is known.
    left: Option<u64>,
}

impl Pieces {
    /// Returns a body whose pieces `source` produces. `len` is its length, if known. A piece is
    /// produced when there is space for it. The work on each piece holds the slot of the request.
    pub(crate) fn of(
        source: impl Source,
        len: Option<u64>,
        workers: &Workers,
        activity: &Activity,
    ) -> ResponseBody {
        let (sender, pieces) = mpsc::channel(limits::HTTP_PIECES_MAX);
        tokio::spawn(produce(source, sender, workers.clone(), activity.clone()));
        Self { pieces, left: len }.boxed_unsync()
    }

    /// Returns a body of pieces that a task sends.
    pub(crate) fn sent_by(pieces: mpsc::Receiver<io::Result<Bytes>>) -> ResponseBody {
        Self { pieces, left: None }.boxed_unsync()
    }
}

/// Produces pieces until the last one, or until the client disconnects.
async fn produce(
    mut source: impl Source,
    to: mpsc::Sender<io::Result<Bytes>>,
    workers: Workers,
    activity: Activity,
) {
    while let Ok(permit) = to.reserve().await {
        let at_work = activity.begin();
        let making = workers.run(move |_| {
            let piece = source.next();
            drop(at_work);
            (source, piece)
        });
        let Ok((rest, piece)) = making.await else {
            let lost = io::Error::other(
                "the server is stopping, or could not produce a part of the reply",
            );
            permit.send(Err(lost));
            return;
        };
        source = rest;
        match piece.transpose() {
            Some(piece) => {
                let is_last = piece.is_err();
                permit.send(piece);
                if is_last {
                    return;
                }
            }
            None => return,
        }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.pieces.poll_recv(cx).map(|piece| {
            let piece = piece?;
            if let (Some(left), Ok(bytes)) = (&mut self.left, &piece) {
                *left = left.saturating_sub(bytes.len() as u64);
            }
            Some(piece.map(Frame::data))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Source that counts its pieces.
    struct Counting(Arc<AtomicUsize>, usize);

    impl Source for Counting {
        fn next(&mut self) -> io::Result<Option<Bytes>> {
            let made = self.0.fetch_add(1, Ordering::Relaxed);
            if made == self.1 {
                return Err(io::Error::other("broken"));
            }
            Ok((made < 100).then(|| Bytes::from(vec![b'x'; 10])))
        }
    }

    /// Only a few pieces are produced for a client that does not read, and no thread waits for it.
    #[tokio::test]
    async fn pieces_are_made_when_they_are_taken() {
        let workers = Workers::start().unwrap();
        let made = Arc::new(AtomicUsize::new(0));
        let body = |breaks_at| {
            made.store(0, Ordering::Relaxed);
            let source = Counting(made.clone(), breaks_at);
            Pieces::of(source, Some(1000), &workers, &Activity::default())
        };
        let mut whole = body(usize::MAX);
        let first = whole.frame().await.unwrap().unwrap();
        assert_eq!(first.data_ref().unwrap().len(), 10);
        assert_eq!(whole.size_hint().exact(), Some(990));
        while made.load(Ordering::Relaxed) < limits::HTTP_PIECES_MAX + 1 {
            tokio::task::yield_now().await;
        }
        workers.run(|_| ()).await.unwrap();
        assert_eq!(made.load(Ordering::Relaxed), limits::HTTP_PIECES_MAX + 1);
        assert_eq!(whole.collect().await.unwrap().to_bytes().len(), 990);
        let broken = body(3);
        assert!(broken.collect().await.is_err());
    }
}
