//! Preallocation of log files, with Java's arithmetic.

/// How far ahead of the data a log file is extended.
///
/// The file keeps its size while records fill it, so that a sync has no new length to write. Java
/// compares sizes, so ours are the same: a step is added when less than 4 KiB are left, and a
/// record that went beyond the end rounds to a multiple of the step.
///
/// Source: FilePadding.calculateFileSizeWithPadding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Padding {
    step: u64,
}

/// Less than this many bytes left means that the file is extended.
const AHEAD_BYTES: u64 = 4096;

impl Padding {
    /// Steps of `bytes`; 0 disables preallocation.
    pub fn new(bytes: u64) -> Self {
        Self { step: bytes }
    }

    /// Whether files are extended at all.
    pub fn is_enabled(self) -> bool {
        self.step > 0
    }

    /// The size the file should have before the next write at `position`, with `size` its present
    /// one.
    pub fn size_for(self, position: u64, size: u64) -> u64 {
        if self.step == 0 || position + AHEAD_BYTES < size {
            return size;
        }
        if position > size {
            let wanted = position + self.step;
            wanted - wanted % self.step
        } else {
            size + self.step
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_step_comes_on_top_of_the_header() {
        assert_eq!(Padding::new(65536).size_for(16, 16), 65552);
        assert_eq!(Padding::new(0).size_for(16, 16), 16);
    }

    #[test]
    fn less_than_a_page_ahead_adds_a_step_and_a_huge_record_rounds() {
        let padding = Padding::new(8192);
        assert_eq!(padding.size_for(4111, 8208), 8208);
        assert_eq!(padding.size_for(4112, 8208), 16400);
        assert_eq!(padding.size_for(32087, 16400), 32768);
    }
}
