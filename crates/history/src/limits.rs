//! Bounds of what the history holds in memory, writes at a time and answers.

/// Version of the files.
pub const FORMAT: u32 = 1;

/// Bytes of changes after which a block is closed earlier.
pub(crate) const BLOCK_BYTES: usize = 64 << 10;

/// Contents up to this many bytes lie in the change itself: in a block they are compressed
/// together, and one of their own would cost more than it spares.
pub(crate) const INLINE_BYTES: usize = 256;

/// Blocks of one key in one entry of a run.
pub(crate) const POSTINGS_CHUNK: usize = 2048;

/// Bytes of a page of a sorted file, before compression.
pub(crate) const PAGE_BYTES: usize = 8 << 10;
/// Bytes of a frame that is believed: a block or a page with one entry of the largest size.
pub(crate) const FRAME_BYTES_MAX: usize = 256 << 20;
/// Bytes of znodes that are sorted in memory before they go to a file.
pub(crate) const SORT_BYTES: usize = 8 << 20;

/// Blocks that readers keep decoded.
pub(crate) const CACHED_BLOCKS: usize = 64;
/// Pages that one step of a merge reads.
pub(crate) const STEP_PAGES: usize = 16;

/// Keys of a run that are written before others may have the processor: some tens of microseconds.
pub(crate) const GIVE_WAY_KEYS: usize = 128;

/// Contents remembered to find equal ones.
pub(crate) const KNOWN_CONTENTS: usize = 16 << 10;

/// Results of one page of an answer, at most.
pub const PAGE_RESULTS_MAX: usize = 1000;
/// Blocks that one page of an answer reads, at most; it may then hold fewer results than asked
/// for, and says where to go on.
pub(crate) const PAGE_BLOCKS_MAX: usize = 2000;
/// Bytes of contents in one page of an answer, at most (but one result always fits).
pub(crate) const PAGE_BYTES_MAX: usize = 4 << 20;
/// Paths of a subtree whose blocks are looked up one by one; with more, all blocks are gone through.
pub(crate) const SUBTREE_KEYS_MAX: usize = 20_000;
/// Bytes of changes in one page of a feed, at most (but one change always fits).
pub(crate) const FEED_BYTES_MAX: usize = 256 << 10;
/// Blocks that one page of a feed goes through, at most.
pub(crate) const FEED_BLOCKS_MAX: usize = 64;

/// Znodes of which one reader of a feed is known to be permitted to read them or not; twice, as they
/// were and as they are.
pub(crate) const MEMORY_PATHS_MAX: usize = 4096;
/// New blocks that are gone through to see what of that still holds.
pub(crate) const MEMORY_BLOCKS_MAX: u64 = 16;

/// How much lies together. The default is meant for servers; tests take less of everything, so that
/// little data takes every way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Changes in a block: what is read to see one of them.
    pub block_changes: usize,
    /// Closed blocks whose keys are held in memory before they become a run.
    pub run_blocks: u64,
    /// Runs of one level that are merged into one of the next.
    pub runs_merged: usize,
    /// Bytes after which the next file of changes is begun. Old changes are dropped by whole files,
    /// and equal contents are kept once a file.
    pub segment_bytes: u64,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            block_changes: 128,
            run_blocks: 128,
            runs_merged: 8,
            segment_bytes: 16 << 20,
        }
    }
}
