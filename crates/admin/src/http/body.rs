//! Response bodies that are written at the pace of the client.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};

use super::admission::Answer;
use super::response::ResponseBody;
use crate::limits;

/// Error message for a request that does not receive a slot.
pub(super) const BUSY: &str = "too many requests are being executed: try again later";

/// Body in pieces that holds the slot of its request until the client has read nearly all of it.
pub(super) struct Paced {
    body: ResponseBody,
    /// Unsent rest of the piece of `body` that was produced last.
    rest: Bytes,
    _answer: Answer,
}

impl Paced {
    /// Wraps a body. `answer` receives the length of the body, if it is known.
    pub(super) fn boxed(
        body: ResponseBody,
        answer: impl FnOnce(Option<u64>) -> Answer,
    ) -> ResponseBody {
        let answer = answer(body.size_hint().exact());
        let paced = Self {
            body,
            rest: Bytes::new(),
            _answer: answer,
        };
        paced.boxed_unsync()
    }
}

impl Body for Paced {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.rest.is_empty() {
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                other => return other,
            }
        }
        let len = self.rest.len().min(limits::HTTP_PIECE_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(len)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.size_hint();
        let rest = self.rest.len() as u64;
        match hint.exact() {
            Some(exact) => SizeHint::with_exact(exact + rest),
            None => {
                hint.set_lower(hint.lower() + rest);
                hint
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::super::admission::Admission;
    use super::*;

    #[tokio::test]
    async fn a_body_is_whole_and_in_pieces() {
        let len = 3 * limits::HTTP_PIECE_BYTES + 5;
        let connection = Admission::new().admit().await;
        connection.head_received();
        let whole = Bytes::from(vec![7; len]);
        let full = Full::new(whole.clone()).map_err(|never| match never {});
        let mut body = Paced::boxed(full.boxed_unsync(), |bytes| {
            assert_eq!(bytes, Some(len as u64));
            connection.answer_at_once()
        });
        let (mut got, mut pieces) = (Vec::new(), 0);
        while let Some(frame) = body.frame().await {
            assert_eq!(
                body.size_hint().exact(),
                Some(
                    (len - got.len()) as u64
                        - frame.as_ref().unwrap().data_ref().unwrap().len() as u64
                )
            );
            got.extend_from_slice(frame.unwrap().data_ref().unwrap());
            pieces += 1;
        }
        assert_eq!((got, pieces), (whole.to_vec(), 4));
    }
}
