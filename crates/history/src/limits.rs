//! Limits on the memory, the writes and the answers of the history.

/// Version of the file format.
pub const FORMAT: u32 = 1;

/// Size of changes above which a block is closed early, bytes.
pub(crate) const BLOCK_BYTES: usize = 64 << 10;

/// Size up to which contents are stored in the change itself, bytes. Such contents are compressed
/// together in a block. A separate frame for each content would cost more than it saves.
pub(crate) const INLINE_BYTES: usize = 256;

/// Maximum number of blocks in one entry of a run.
pub(crate) const POSTINGS_CHUNK: usize = 2048;

/// Size of a page in a sorted file, before compression, bytes.
pub(crate) const PAGE_BYTES: usize = 8 << 10;
/// Maximum accepted size of a frame, bytes. A longer frame is treated as corrupted.
pub(crate) const FRAME_BYTES_MAX: usize = 256 << 20;
/// Size of entries that a sorter collects in memory before it writes them to a file, bytes.
pub(crate) const SORT_BYTES: usize = 8 << 20;

/// Number of decoded blocks that readers cache.
pub(crate) const CACHED_BLOCKS: usize = 64;
/// Number of pages that one step of a merge or a trim reads.
pub(crate) const STEP_PAGES: usize = 16;

/// Number of keys of a run that are written before the thread yields. Writing them takes tens of
/// microseconds.
pub(crate) const GIVE_WAY_KEYS: usize = 128;

/// Maximum number of contents that are remembered to find equal contents.
pub(crate) const KNOWN_CONTENTS: usize = 16 << 10;

/// Maximum number of results in one page of an answer.
pub const PAGE_RESULTS_MAX: usize = 1000;
/// Maximum number of transactions whose clients one query requests.
pub const ORIGINS_MAX: usize = 200;
/// Maximum number of blocks that one page of an answer reads. The page may then contain fewer
/// results than requested, with the position of the next page.
pub(crate) const PAGE_BLOCKS_MAX: usize = 2000;
/// Size of results at which a page of an answer ends, bytes. The last result may exceed this size.
pub(crate) const PAGE_BYTES_MAX: usize = 4 << 20;
/// Maximum number of paths in a subtree whose blocks are looked up separately. If there are more,
/// all blocks are read.
pub(crate) const SUBTREE_KEYS_MAX: usize = 20_000;
/// Size of changes at which a page of a feed ends, bytes. The last change may exceed this size.
pub(crate) const FEED_BYTES_MAX: usize = 256 << 10;
/// Maximum number of blocks that one page of a feed reads.
pub(crate) const FEED_BLOCKS_MAX: usize = 64;

/// Maximum number of znodes for which the permissions of a feed's reader are remembered. The limit
/// applies separately to past and to current permissions.
pub(crate) const MEMORY_PATHS_MAX: usize = 4096;
/// Maximum number of new blocks that are read to check which remembered permissions are still
/// valid.
pub(crate) const MEMORY_BLOCKS_MAX: u64 = 16;

/// Sizes of blocks, runs and files. The default is for servers. Tests use smaller values, so that
/// little data covers all cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Number of changes in a block, which is read as a whole.
    pub block_changes: usize,
    /// Number of closed blocks whose keys are in memory before the keys are written to a run.
    pub run_blocks: u64,
    /// Number of runs on one level that are merged into one run on the next level.
    pub runs_merged: usize,
    /// Size after which the next file of changes begins, bytes. Old changes are dropped as whole
    /// files, and equal contents are stored once per file.
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
