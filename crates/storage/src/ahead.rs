//! Read-ahead: one thread reads, checks and decodes the next items while the caller processes the
//! current ones.
//!
//! A start may build a tree of gigabytes, and decoding takes about as long as building the tree. If
//! the disk does not permit read-ahead ([`Disk::reads_ahead`](crate::Disk::reads_ahead)), or no
//! thread can be started, the caller does all the work, in the same order.

use std::ops::ControlFlow;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, Scope};

/// Maximum number of batches that wait for the caller. It bounds the memory use.
const WAITING_MAX: usize = 2;
/// Number of bytes or items at which a batch is complete.
const BATCH_BYTES: usize = 256 << 10;
const BATCH_ITEMS: usize = 4096;

/// Calls `take` with each item until `take` returns `Break`, then returns the iterator. If
/// `is_wanted` is true, another thread reads the items, so the returned iterator may be past the
/// last item passed to `take`. `bytes_of` returns the memory use of an item.
pub(crate) fn for_each<I>(
    mut items: I,
    is_wanted: bool,
    bytes_of: impl Fn(&I::Item) -> usize + Send,
    mut take: impl FnMut(I::Item) -> ControlFlow<()>,
) -> I
where
    I: Iterator + Send,
    I::Item: Send,
{
    if !is_wanted {
        let _ = items.try_for_each(take);
        return items;
    }
    thread::scope(|scope| {
        let (full, batches) = sync_channel(WAITING_MAX);
        let (hand_over, handed_over) = sync_channel::<I>(1);
        let (hand_back, handed_back) = sync_channel::<I>(1);
        let is_there = spawn(scope, move || {
            if let Ok(mut items) = handed_over.recv() {
                send_batches(&mut items, bytes_of, &full);
                let _ = hand_back.send(items);
            }
        });
        if !is_there {
            let _ = items.try_for_each(take);
            return items;
        }
        // The thread only waits for the iterator, so sending the iterator does not fail.
        let _ = hand_over.send(items);
        let _ = batches.iter().flatten().try_for_each(&mut take);
        // Closes the channel, so the thread does not wait for space in it.
        drop(batches);
        // A panic in the thread becomes a panic in the caller.
        handed_back
            .recv()
            .expect("the thread returns the items when it ends")
    })
}

/// Starts the thread. Returns whether that succeeded.
fn spawn<'scope>(scope: &'scope Scope<'scope, '_>, work: impl FnOnce() + Send + 'scope) -> bool {
    // The thread logs to the caller's subscriber.
    let told = tracing::dispatcher::get_default(Clone::clone);
    let work = move || tracing::dispatcher::with_default(&told, work);
    let builder = thread::Builder::new().name("read ahead".to_owned());
    builder.spawn_scoped(scope, work).is_ok()
}

fn send_batches<I: Iterator>(
    items: &mut I,
    bytes_of: impl Fn(&I::Item) -> usize,
    full: &SyncSender<Vec<I::Item>>,
) {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    for item in items {
        bytes += bytes_of(&item);
        batch.push(item);
        if bytes >= BATCH_BYTES || batch.len() >= BATCH_ITEMS {
            bytes = 0;
            if full.send(std::mem::take(&mut batch)).is_err() {
                return;
            }
        }
    }
    // Sending fails if the caller does not need more items.
    let _ = full.send(batch);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_keep_their_order_and_their_source_is_returned() {
        for is_wanted in [false, true] {
            for count in [0, 1, BATCH_ITEMS, 10 * BATCH_ITEMS + 3] {
                let mut taken = Vec::new();
                let take = |item| {
                    taken.push(item);
                    ControlFlow::Continue(())
                };
                let mut rest = for_each(0..count, is_wanted, |_| 1000, take);
                assert_eq!(rest.next(), None);
                assert!(taken.into_iter().eq(0..count), "{count} items, {is_wanted}");
            }
        }
    }

    /// If the channel were not closed, the thread would wait indefinitely.
    #[test]
    fn dropping_the_receiver_ends_the_thread() {
        for is_wanted in [false, true] {
            let mut last = 0;
            let take = |item| {
                last = item;
                match item {
                    5 => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            };
            let mut rest = for_each(0.., is_wanted, |_| BATCH_BYTES, take);
            assert_eq!(last, 5, "{is_wanted}");
            assert!(rest.next().is_some_and(|next| next > 5));
        }
    }
}
