//! Flushes that are put off: because more follows in the same turn of the core, or because a client's reply goes first.
//!
//! The replica wants a flush behind each thing that it is told. Of several that came together one is enough:
//! members get one write for them, and the log one group. Not where there are no members: the disk would stand
//! idle for nothing (0.83 of the operations at 16 x 16, 90:10). A leader that commits what a lone client of its own waits
//! for replies before it writes to its followers, which takes as long as a reply for each (1.08 of the operations).

use crate::limits;

/// Which flush is left out, and whether one is owed for it.
#[derive(Debug, Default)]
pub(super) struct Flushes {
    more_follows: bool,
    /// In this turn.
    put_off: usize,
    /// Whether replies go first: what is wanted in this step comes at its end.
    until_step_ends: bool,
    is_owed_by_step: bool,
}

impl Flushes {
    /// The replica is told the next thing; whether more follows in this turn.
    pub(super) fn begin(&mut self, more_follows: bool) {
        self.more_follows = more_follows;
    }

    /// The replica takes a step. `replies_first`: what clients get in it goes before what members get.
    pub(super) fn begin_step(&mut self, replies_first: bool) {
        self.until_step_ends = replies_first;
    }

    /// The step has ended: whether there must be a flush now.
    pub(super) fn end_step(&mut self) -> bool {
        self.until_step_ends = false;
        std::mem::take(&mut self.is_owed_by_step)
    }

    /// A flush is wanted: whether it is left out for now. Not for long: others wait for what is in it.
    pub(super) fn put_off(&mut self) -> bool {
        if self.until_step_ends {
            self.is_owed_by_step = true;
            return true;
        }
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
    fn where_replies_go_first_there_is_one_flush_behind_the_step() {
        let mut flushes = Flushes::default();
        flushes.begin(false);
        flushes.begin_step(true);
        assert!(flushes.put_off() && flushes.put_off());
        assert!(flushes.end_step());
        assert!(!flushes.put_off(), "the step has ended");
        assert!(!flushes.end(), "nothing is owed any more");

        flushes.begin_step(true);
        assert!(!flushes.end_step(), "none was wanted");
        flushes.begin_step(false);
        assert!(!flushes.put_off() && !flushes.end_step());
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
