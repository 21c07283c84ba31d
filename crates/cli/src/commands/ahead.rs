//! Requests about one znode after the other, of which the next ones are sent before their turn.
//!
//! Answers are taken in the order of the znodes, and requests are sent in it: on one connection a znode is created
//! before its children that way, and none of them has to wait for an answer.

use std::collections::VecDeque;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tokio::task::JoinHandle;

use crate::failure::Failure;

/// Znodes that are asked for before their turn, at most. The client takes four times as many requests without a wait:
/// those that wait for room would be sent in any order.
const AHEAD_MAX: usize = 256;

/// And at least, however much data they have.
const AHEAD_MIN: usize = 4;

/// Bytes of data that may be there before their turn, as far as the znodes before tell how much the next ones have.
const AHEAD_BYTES: usize = 8 << 20;

/// Bytes that a znode is taken to have while none has been seen.
const UNSEEN_BYTES: usize = 256 << 10;

/// One whose turn comes.
struct Waiting<Q, A> {
    question: Q,
    /// `None` until it is asked.
    asked: Option<JoinHandle<A>>,
}

/// Questions that wait for their turn.
pub(super) struct Ahead<Q, A> {
    waiting: VecDeque<Waiting<Q, A>>,
    /// So many of the first have been asked, and some behind them may have.
    asked: usize,
    /// Mean of the lengths of the data seen, the latest count most.
    mean_bytes: usize,
}

impl<Q, A> Default for Ahead<Q, A> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            asked: 0,
            mean_bytes: UNSEEN_BYTES,
        }
    }
}

impl<Q, A: Send + 'static> Ahead<Q, A> {
    /// The question whose turn is next.
    pub(super) fn first(&self) -> Option<&Q> {
        self.waiting.front().map(|next| &next.question)
    }

    /// Whether one of those that wait is such a one.
    pub(super) fn has(&self, is_such: impl Fn(&Q) -> bool) -> bool {
        self.waiting.iter().any(|next| is_such(&next.question))
    }

    /// Whether one more at the end would not be asked yet.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= self.window()
    }

    /// Puts a question behind all others.
    pub(super) fn push(&mut self, question: Q) {
        self.waiting.push_back(Waiting {
            question,
            asked: None,
        });
    }

    /// Puts questions in front of all others.
    pub(super) fn push_first(&mut self, questions: impl DoubleEndedIterator<Item = Q>) {
        for question in questions.rev() {
            self.waiting.push_front(Waiting {
                question,
                asked: None,
            });
            self.asked = 0;
        }
    }

    /// Asks as many as may be asked now, in their order.
    pub(super) fn ask<F>(&mut self, ask: impl Fn(&Q) -> F)
    where
        F: Future<Output = A> + Send + 'static,
    {
        let until = self.window().min(self.waiting.len());
        while self.asked < until {
            let next = &mut self.waiting[self.asked];
            if next.asked.is_none() {
                next.asked = Some(begin(ask(&next.question)));
            }
            self.asked += 1;
        }
    }

    /// Asks as many as may be asked, and waits for the answer to the first.
    ///
    /// # Errors
    /// Only if the program itself is wrong.
    pub(super) async fn next<F>(&mut self, ask: impl Fn(&Q) -> F) -> Result<Option<(Q, A)>, Failure>
    where
        F: Future<Output = A> + Send + 'static,
    {
        self.ask(&ask);
        let Some(Waiting { question, asked }) = self.waiting.pop_front() else {
            return Ok(None);
        };
        self.asked = self.asked.saturating_sub(1);
        let asked = asked.unwrap_or_else(|| begin(ask(&question)));
        let answer = asked.await;
        let answer = answer.map_err(|broken| Failure::new(format!("zoarium: {broken}")))?;
        Ok(Some((question, answer)))
    }

    /// Forgets those that have not been asked.
    pub(super) fn ask_no_more(&mut self) {
        self.waiting.retain(|next| next.asked.is_some());
        self.asked = self.waiting.len();
    }

    /// Znodes with much data are asked for a few at a time: says how much one had.
    pub(super) fn has_seen(&mut self, bytes: usize) {
        self.mean_bytes = (self.mean_bytes * 15 + bytes) / 16;
    }

    fn window(&self) -> usize {
        (AHEAD_BYTES / self.mean_bytes.max(1)).clamp(AHEAD_MIN, AHEAD_MAX)
    }
}

impl<Q, A> Drop for Ahead<Q, A> {
    fn drop(&mut self) {
        let asked = self.waiting.iter().filter_map(|next| next.asked.as_ref());
        asked.for_each(JoinHandle::abort);
    }
}

/// Begins work whose first request is sent before that of the next one. Tasks begin in any order, so it is begun here;
/// and whatever else this task has done, it must not be put off.
fn begin<A: Send + 'static>(work: impl Future<Output = A> + Send + 'static) -> JoinHandle<A> {
    let mut work = Box::pin(work);
    let begun = {
        let first = pin!(tokio::task::unconstrained(&mut work));
        // The task looks again by itself.
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

    fn of(numbers: std::ops::Range<usize>) -> Ahead<usize, usize> {
        let mut ahead = Ahead::default();
        for _ in 0..100 {
            ahead.has_seen(0);
        }
        numbers.for_each(|number| ahead.push(number));
        ahead
    }

    #[test]
    fn large_znodes_are_asked_for_a_few_at_a_time() {
        let mut ahead = of(0..0);
        assert_eq!(ahead.window(), AHEAD_MAX);
        for _ in 0..100 {
            ahead.has_seen(1 << 20);
        }
        assert!(ahead.window() <= 9, "{}", ahead.window());
        for _ in 0..100 {
            ahead.has_seen(100 << 20);
        }
        assert_eq!(ahead.window(), AHEAD_MIN);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn many_are_unanswered_at_one_time_and_answers_come_in_order() {
        // Nobody is answered before all have asked.
        let all = Arc::new(Barrier::new(AHEAD_MAX));
        let mut ahead = of(0..AHEAD_MAX);
        let ask = |number: &usize| {
            let (all, number) = (Arc::clone(&all), *number);
            async move {
                all.wait().await;
                number
            }
        };
        for wanted in 0..AHEAD_MAX {
            let (number, answer) = ahead.next(ask).await.unwrap().unwrap();
            assert_eq!((number, answer), (wanted, wanted));
        }
        assert!(ahead.next(ask).await.unwrap().is_none());
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
        let mut ahead = of(0..5_000);
        while ahead.next(ask).await.unwrap().is_some() {}
        for wanted in 0..5_000 {
            assert_eq!(sent.recv().await, Some(wanted));
        }
    }

    #[tokio::test]
    async fn what_is_put_in_front_comes_first_and_what_was_asked_is_kept() {
        let mut ahead = of(10..12);
        let ask = |number: &usize| std::future::ready(*number);
        ahead.ask(ask);
        ahead.push_first(0..3);
        ahead.ask_no_more();
        ahead.push_first(3..5);
        ahead.push(20);
        let mut seen = Vec::new();
        while let Some((number, _)) = ahead.next(ask).await.unwrap() {
            seen.push(number);
        }
        assert_eq!(seen, [3, 4, 10, 11, 20]);
    }
}
