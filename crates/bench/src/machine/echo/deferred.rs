//! Answers that wait for a sync, in the order of their requests.

use std::collections::VecDeque;

/// Held answers, beginning with the answer to the first write that is not durable.
#[derive(Debug, Default)]
pub(super) struct DeferredAnswers {
    bytes: Vec<u8>,
    /// Total number of bytes that have been released.
    released: usize,
    /// Record number of each write, with the offset of its answer among all bytes that were ever
    /// held.
    writes: VecDeque<(u64, usize)>,
}

impl DeferredAnswers {
    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Returns the number of the record for which the first held answer waits.
    pub(super) fn first(&self) -> Option<u64> {
        self.writes.front().map(|(number, _)| *number)
    }

    /// Returns the number of the record for which the last held answer to a write waits.
    pub(super) fn last(&self) -> Option<u64> {
        self.writes.back().map(|(number, _)| *number)
    }

    /// Returns the buffer for the next answer: `out`, unless the answer has to wait. For the answer
    /// to a write, `write` is the number of its record.
    #[inline]
    pub(super) fn place<'a>(
        &'a mut self,
        write: Option<u64>,
        out: &'a mut Vec<u8>,
    ) -> &'a mut Vec<u8> {
        if let Some(number) = write {
            let start = self.released + self.bytes.len();
            self.writes.push_back((number, start));
        }
        if self.writes.is_empty() {
            out
        } else {
            &mut self.bytes
        }
    }

    /// Moves to `out` the answers that no longer have to wait when the first `durable` records are
    /// durable.
    pub(super) fn release(&mut self, durable: u64, out: &mut Vec<u8>) {
        while self.first().is_some_and(|number| number <= durable) {
            self.writes.pop_front();
        }
        match self.writes.front() {
            None => {
                self.released += self.bytes.len();
                out.append(&mut self.bytes);
            }
            Some((_, start)) => {
                let count = start - self.released;
                out.extend_from_slice(self.bytes.get(..count).unwrap_or_default());
                self.bytes.drain(..count);
                self.released += count;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_waits_for_the_write_before_it() {
        let (mut deferred, mut out) = (DeferredAnswers::default(), Vec::new());
        for (answer, write) in [(1, None), (2, Some(5)), (3, None), (4, Some(7)), (5, None)] {
            deferred.place(write, &mut out).push(answer);
        }
        assert_eq!(
            (out.as_slice(), deferred.first(), deferred.last()),
            (&[1][..], Some(5), Some(7))
        );
        let mut release = |durable| {
            deferred.release(durable, &mut out);
            (out.clone(), deferred.is_empty())
        };
        assert_eq!(release(4), (vec![1], false));
        assert_eq!(release(6), (vec![1, 2, 3], false));
        assert_eq!(release(7), (vec![1, 2, 3, 4, 5], true));
        deferred.place(Some(8), &mut out).push(6);
        deferred.release(8, &mut out);
        deferred.place(None, &mut out).push(7);
        assert_eq!(out, [1, 2, 3, 4, 5, 6, 7]);
    }
}
