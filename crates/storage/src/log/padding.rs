//! Preallocation of log files, with Java's arithmetic.

/// Rule for the size to which a log file is extended.
///
/// The file keeps its size while records fill it, so a sync does not have to write a new length.
/// Java compares log sizes that include this padding, so Zoarium uses Java's rule. A step is added
/// when at most 4 KiB remain. If a record ends beyond the size, the new size is a multiple of the
/// step.
///
/// Source: FilePadding.calculateFileSizeWithPadding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Padding {
    step: u64,
}

/// Number of remaining bytes at or below which the file is extended.
const AHEAD_BYTES: u64 = 4096;

impl Padding {
    /// Creates a rule that extends in steps of `bytes`; 0 disables preallocation.
    pub fn new(bytes: u64) -> Self {
        Self { step: bytes }
    }

    /// Returns whether files are extended.
    pub fn is_enabled(self) -> bool {
        self.step > 0
    }

    /// Returns the size that the file should have before the next write at `position`. `size` is
    /// its current size.
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
    fn the_first_step_is_added_to_the_header() {
        assert_eq!(Padding::new(65536).size_for(16, 16), 65552);
        assert_eq!(Padding::new(0).size_for(16, 16), 16);
    }

    #[test]
    fn less_than_a_page_of_padding_adds_a_step() {
        let padding = Padding::new(8192);
        assert_eq!(padding.size_for(4111, 8208), 8208);
        assert_eq!(padding.size_for(4112, 8208), 16400);
        assert_eq!(padding.size_for(32087, 16400), 32768);
    }
}
