//! Requests for a sequence of znodes, which are sent ahead of their turns.
//!
//! Requests are sent in the order of the znodes, and answers are processed in the same order. On
//! one connection, a znode is thus created before its children, and no request has to wait for an
//! answer.

use std::collections::VecDeque;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tokio::task::JoinHandle;

use crate::failure::Failure;

/// Maximum number of znodes that are requested ahead of their turns. The client accepts four times
/// as many requests without a wait. Requests that wait for capacity would be sent in arbitrary
/// order.
const AHEAD_MAX: usize = 256;

/// Minimum number of requested znodes, regardless of the size of their data.
const AHEAD_MIN: usize = 4;

/// Maximum size of the data requested ahead of its turn, in bytes. It is estimated from the data of
/// earlier znodes.
const AHEAD_BYTES: usize = 8 << 20;

/// Assumed size of a znode before the first znode has been received, in bytes.
const UNSEEN_BYTES: usize = 256 << 10;

/// Request that waits for its turn.
struct QueuedRequest<Q, A> {
    question: Q,
    /// Task of the request. `None` before the request is sent.
    sent: Option<JoinHandle<A>>,
}

/// Requests in the order of their turns.
pub(crate) struct ReadAhead<Q, A> {
    waiting: VecDeque<QueuedRequest<Q, A>>,
    /// Length of the prefix of `waiting` that is known to be sent. Requests after the prefix may
    /// also have been sent.
    sent: usize,
    /// Moving average of the received data lengths, in which the latest lengths have the greatest
    /// weight.
    mean_bytes: usize,
}

impl<Q, A> Default for ReadAhead<Q, A> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            sent: 0,
            mean_bytes: UNSEEN_BYTES,
        }
    }
}

impl<Q, A: Send + 'static> ReadAhead<Q, A> {
    /// Returns the question whose turn is next.
    pub(crate) fn first(&self) -> Option<&Q> {
        self.waiting.front().map(|next| &next.question)
    }

    /// Returns whether any waiting question satisfies a condition.
    pub(crate) fn has(&self, is_such: impl Fn(&Q) -> bool) -> bool {
        self.waiting.iter().any(|next| is_such(&next.question))
    }

    /// Returns whether a question that is added at the end would have to wait before it is sent.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= self.window()
    }

    /// Adds a question at the end.
    pub(crate) fn push(&mut self, question: Q) {
        self.waiting.push_back(QueuedRequest {
            question,
            sent: None,
        });
    }

    /// Adds questions at the beginning.
    pub(crate) fn push_first(&mut self, questions: impl DoubleEndedIterator<Item = Q>) {
        for question in questions.rev() {
            self.waiting.push_front(QueuedRequest {
                question,
                sent: None,
            });
            self.sent = 0;
        }
    }

    /// Sends as many questions as the limits permit, in order.
    pub(crate) fn send_requests<F>(&mut self, ask: impl Fn(&Q) -> F)
    where
        F: Future<Output = A> + Send + 'static,
    {
        let until = self.window().min(self.waiting.len());
        while self.sent < until {
            let next = &mut self.waiting[self.sent];
            if next.sent.is_none() {
                next.sent = Some(begin(ask(&next.question)));
            }
            self.sent += 1;
        }
    }

    /// Sends as many requests as the limits permit, and waits for the answer to the first request.
    /// Returns `None` if no request is waiting.
    ///
    /// # Errors
    /// If the task of the request panics.
    pub(crate) async fn next<F>(&mut self, ask: impl Fn(&Q) -> F) -> Result<Option<(Q, A)>, Failure>
    where
        F: Future<Output = A> + Send + 'static,
    {
        self.send_requests(&ask);
        let Some(QueuedRequest { question, sent }) = self.waiting.pop_front() else {
            return Ok(None);
        };
        self.sent = self.sent.saturating_sub(1);
        let sent = sent.unwrap_or_else(|| begin(ask(&question)));
        let answer = sent.await;
        let answer = answer.map_err(|broken| Failure::new(format!("zoarium: {broken}")))?;
        Ok(Some((question, answer)))
    }

    /// Drops the questions that were not sent.
    pub(crate) fn drop_unsent(&mut self) {
        self.waiting.retain(|next| next.sent.is_some());
        self.sent = self.waiting.len();
    }

    /// Updates the average with the data length of a znode. If znodes have much data, only a few
    /// are requested at a time.
    pub(crate) fn note_data_len(&mut self, bytes: usize) {
        self.mean_bytes = (self.mean_bytes * 15 + bytes) / 16;
    }

    fn window(&self) -> usize {
        (AHEAD_BYTES / self.mean_bytes.max(1)).clamp(AHEAD_MIN, AHEAD_MAX)
    }
}

impl<Q, A> Drop for ReadAhead<Q, A> {
    fn drop(&mut self) {
        let sent = self.waiting.iter().filter_map(|next| next.sent.as_ref());
        sent.for_each(JoinHandle::abort);
    }
}

/// Starts a task and sends its first request before the first request of the next task. Spawned
/// tasks start in arbitrary order, so the task is first polled here. The poll is unconstrained,
/// because the budget of the calling task may be exhausted.
fn begin<A: Send + 'static>(work: impl Future<Output = A> + Send + 'static) -> JoinHandle<A> {
    let mut work = Box::pin(work);
    let begun = {
        let first = pin!(tokio::task::unconstrained(&mut work));
        // The spawned task polls the future again.
        first.poll(&mut Context::from_waker(Waker::noop()))
    };
    match begun {
        Poll::Ready(answer) => tokio::spawn(std::future::ready(answer)),
        Poll::Pending => tokio::spawn(work),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::{Barrier, mpsc};

    use super::*;

    fn of(numbers: std::ops::Range<usize>) -> ReadAhead<usize, usize> {
        let mut read_ahead = ReadAhead::default();
        for _ in 0..100 {
            read_ahead.note_data_len(0);
        }
        numbers.for_each(|number| read_ahead.push(number));
        read_ahead
    }

    #[test]
    fn large_znodes_are_asked_for_a_few_at_a_time() {
        let mut read_ahead = of(0..0);
        assert_eq!(read_ahead.window(), AHEAD_MAX);
        for _ in 0..100 {
            read_ahead.note_data_len(1 << 20);
        }
        assert!(read_ahead.window() <= 9, "{}", read_ahead.window());
        for _ in 0..100 {
            read_ahead.note_data_len(100 << 20);
        }
        assert_eq!(read_ahead.window(), AHEAD_MIN);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn many_are_unanswered_at_one_time_and_answers_come_in_order() {
        // No question is answered before all have been sent.
        let all = Arc::new(Barrier::new(AHEAD_MAX));
        let mut read_ahead = of(0..AHEAD_MAX);
        let ask = |number: &usize| {
            let (all, number) = (Arc::clone(&all), *number);
            async move {
                all.wait().await;
                number
            }
        };
        for wanted in 0..AHEAD_MAX {
            let (number, answer) = read_ahead.next(ask).await.unwrap().unwrap();
            assert_eq!((number, answer), (wanted, wanted));
        }
        assert!(read_ahead.next(ask).await.unwrap().is_none());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn requests_are_sent_in_order() {
        let (line, mut sent) = mpsc::channel(5_000);
        let ask = |number: &usize| {
            let (line, number) = (line.clone(), *number);
            async move {
                let _ = line.send(number).await;
                number
            }
        };
        let mut read_ahead = of(0..5_000);
        while read_ahead.next(ask).await.unwrap().is_some() {}
        for wanted in 0..5_000 {
            assert_eq!(sent.recv().await, Some(wanted));
        }
    }

    #[tokio::test]
    async fn requests_added_in_front_come_first_and_sent_ones_are_kept() {
        let mut read_ahead = of(10..12);
        let ask = |number: &usize| std::future::ready(*number);
        read_ahead.send_requests(ask);
        read_ahead.push_first(0..3);
        read_ahead.drop_unsent();
        read_ahead.push_first(3..5);
        read_ahead.push(20);
        let mut seen = Vec::new();
        while let Some((number, _)) = read_ahead.next(ask).await.unwrap() {
            seen.push(number);
        }
        assert_eq!(seen, [3, 4, 10, 11, 20]);
    }
}
