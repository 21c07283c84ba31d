//! Settings of the audit log.

use std::path::PathBuf;

/// Settings of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditSettings {
    /// Path of the file. Full files stay in the same directory, with a number appended to their
    /// names.
    pub file: PathBuf,
    /// Whether only refused operations are written.
    pub failures_only: bool,
    /// Size above which a file is full, in bytes.
    pub file_bytes_max: u64,
    /// Number of full files to keep.
    pub files_kept: u32,
    /// Maximum number of lines that wait to be written.
    pub queue_lines: usize,
    /// Whether lines are dropped and counted when too many wait. Otherwise requests wait.
    pub never_blocks: bool,
}
