//! Flushes that are put off because more follows in the same turn of the core.
//!
//! The replica wants a flush behind each thing that it is told. Of several that came together one is enough:
//! members get one write for them, and the log one group. Not where there are no members: the disk would stand
//! idle for nothing (0.83 of the operations at 16 x 16, 90:10).

use crate::limits;

/// Which flush is left out, and whether one is owed for it.
#[derive(Debug, Default)]
pub(super) struct Flushes {
    more_follows: bool,
    /// In this turn.
    put_off: usize,
}

impl Flushes {
    /// The replica is told the next thing; whether more follows in this turn.
    pub(super) fn begin(&mut self, more_follows: bool) {
        self.more_follows = more_follows;
    }

    /// A flush is wanted: whether it is left out for now. Not for long: others wait for what is in it.
    pub(super) fn put_off(&mut self) -> bool {
        let is_put_off = self.more_follows && self.put_off < limits::FLUSHES_PUT_OFF_MAX;
        self.put_off += usize::from(is_put_off);
        is_put_off
    }

    /// The turn ends: whether there must be a flush now. One that is not needed does nothing.
    pub(super) fn end(&mut self) -> bool {
        std::mem::take(self).put_off > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_is_put_off_while_more_follows_and_never_left_out() {
        let mut flushes = Flushes::default();
        flushes.begin(true);
        assert!(flushes.put_off());
        flushes.begin(false);
        assert!(!flushes.put_off(), "nothing follows");
        assert!(flushes.end());
        assert!(!flushes.end() && !flushes.put_off(), "of the next turn");
        // The last thing of a turn may want none.
        flushes.begin(true);
        assert!(flushes.put_off());
        flushes.begin(false);
        assert!(flushes.end());
    }

    #[test]
    fn a_long_turn_flushes_now_and_then() {
        let mut flushes = Flushes::default();
        flushes.begin(true);
        let wanted = limits::FLUSHES_PUT_OFF_MAX + 1;
        let put_off = (0..wanted).filter(|_| flushes.put_off()).count();
        assert_eq!(put_off, limits::FLUSHES_PUT_OFF_MAX);
    }
}
