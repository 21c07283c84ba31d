//! Numbers of bytes that a server holds for its connections.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use executor::sync::AtomicUsize;

use crate::limits::{HELD_BYTES_MAX, HELD_BYTES_OF_EACH};

/// Step in which the bytes of a connection are counted. A connection that holds less than one step
/// is not counted, so most connections never change the shared counter.
const STEP: usize = 4 << 10;

/// Number of bytes held by all connections: requests that wait for their turn, and unwritten
/// replies and events. Long replies have a separate bound, see
/// [`LARGE_REPLIES_BYTES`](crate::limits::LARGE_REPLIES_BYTES).
///
/// Each connection may hold as many bytes as are still free. A single connection can thus hold half
/// of the total, many connections can hold equal parts, and some bytes remain for new connections.
#[derive(Debug, Default)]
pub struct BufferedBytes(AtomicUsize);

impl BufferedBytes {
    /// Returns the number of free bytes.
    pub fn free(&self) -> usize {
        HELD_BYTES_MAX.saturating_sub(self.0.load(Ordering::Relaxed))
    }
}

/// Number of bytes held by one connection. Dropping the value releases them.
#[derive(Debug)]
pub struct BufferReservation {
    total: Arc<BufferedBytes>,
    counted: usize,
}

impl BufferReservation {
    /// Creates the count of a connection that holds nothing.
    pub fn empty(total: Arc<BufferedBytes>) -> Self {
        Self { total, counted: 0 }
    }

    /// Sets the number of bytes that the connection holds.
    #[inline]
    pub fn set(&mut self, bytes: usize) {
        let counted = bytes / STEP * STEP;
        if counted > self.counted {
            let more = counted - self.counted;
            self.total.0.fetch_add(more, Ordering::Relaxed);
        } else if counted < self.counted {
            let less = self.counted - counted;
            self.total.0.fetch_sub(less, Ordering::Relaxed);
        }
        self.counted = counted;
    }

    /// Returns the number of bytes that the connection may hold, which is at most `max`. Even if
    /// all bytes are in use, a connection may hold [`HELD_BYTES_OF_EACH`], because the server could
    /// otherwise stop serving requests.
    #[inline]
    pub fn allowed(&self, max: usize) -> usize {
        self.total.free().max(HELD_BYTES_OF_EACH).min(max)
    }

    /// Returns the number of bytes that the connection may produce in advance, which is at most
    /// `max`. The result may be small, because these bytes can also be produced later.
    #[inline]
    pub fn allowed_ahead(&self, max: usize) -> usize {
        self.total.free().max(STEP).min(max)
    }
}

impl Drop for BufferReservation {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_connections_buffer_at_most_the_bound_and_a_minimum() {
        let all = Arc::new(BufferedBytes::default());
        let mut alone = BufferReservation::empty(all.clone());
        let mut holds = 0;
        while holds + STEP <= alone.allowed(usize::MAX) {
            holds += STEP;
            alone.set(holds);
        }
        assert_eq!(holds, HELD_BYTES_MAX / 2);
        assert_eq!(alone.allowed(100), 100);

        let mut crowd: Vec<_> = (0..2_000)
            .map(|_| BufferReservation::empty(all.clone()))
            .collect();
        for one in &mut crowd {
            one.set(one.allowed(usize::MAX));
        }
        let held: usize = crowd.iter().map(|one| one.counted).sum();
        assert!(held + holds <= HELD_BYTES_MAX + crowd.len() * HELD_BYTES_OF_EACH);
        assert_eq!(all.free(), 0);
        assert_eq!(crowd[0].allowed(usize::MAX), HELD_BYTES_OF_EACH);
        assert_eq!(crowd[0].allowed_ahead(usize::MAX), STEP);
        drop((alone, crowd));
        assert_eq!(all.free(), HELD_BYTES_MAX);
    }
}
