//! Answers that grow with what clients hold: one is made at a time, within the room of all long replies.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};
use hyper::{Response, StatusCode};
use monitoring::admin::{Answer, Body as AnswerBody, Call};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::super::http::{Activity, NotDone, ResponseBody, respond};
use super::Admin;
use super::served::Served;
use crate::client::room::Room;
use crate::limits;

impl Admin {
    /// Looks at what may be long. The turn ends when the answer has its room, and the room when the
    /// answer is written.
    pub(super) async fn look_long(
        self: &Arc<Self>,
        served: &Served,
        (name, mut call): (&'static str, Call),
        activity: &Activity,
    ) -> Response<ResponseBody> {
        let at_work = activity.begin();
        let clients = &served.clients;
        // The semaphore is never closed, so there is always a permit.
        let turn = clients.long_words.clone().acquire_owned().await.ok();
        let admin = self.clone();
        let looking = self.workers.run(move |requester| {
            call.is_abandoned = requester.flag();
            let found = admin.look_at(name, &call);
            drop(call);
            (found.map(|answer| answer.under(name, None)), turn, at_work)
        });
        let (answer, turn, _at_work) = match looking.await {
            Ok((Some(answer), turn, at_work)) => (answer, turn, at_work),
            Ok((None, ..)) | Err(NotDone) => {
                return respond(Answer::status(StatusCode::INTERNAL_SERVER_ERROR));
            }
        };
        let bytes = match &answer.body {
            AnswerBody::Bytes(_, bytes) => bytes.len(),
            AnswerBody::None | AnswerBody::Fields(_) => 0,
        };
        if bytes <= limits::REPLY_BYTES_SMALL {
            return respond(answer);
        }
        // The next one takes as much again while it is made.
        let room = clients.large_replies.take(2 * bytes).await;
        drop(turn);
        let (clients, activity, begun) = (clients.clone(), activity.clone(), Instant::now());
        let watching = tokio::spawn(async move {
            clients.large_replies.wanted_back(bytes, begun).await;
            activity.end_connection();
        });
        respond(answer).map(|body| {
            let body = InRoom {
                body,
                _room: room,
                watching: watching.abort_handle(),
            };
            body.boxed_unsync()
        })
    }
}

/// A body that has room of its own. A client that takes too long for it ends if others wait for the room.
struct InRoom {
    body: ResponseBody,
    _room: Room,
    watching: AbortHandle,
}

impl Drop for InRoom {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

impl Body for InRoom {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
