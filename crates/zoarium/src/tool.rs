//! What the tools for files have in common: limits, zxids, errors and exit codes.
//!
//! Exit codes: 0 all is well; 1 a file is damaged or something failed; 2 the command line makes
//! no sense (as clap has it).

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use jute::Limits;
use proto::Zxid;
use storage::StorageError;

/// Why a tool gave up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    #[error("{0}")]
    Storage(#[from] StorageError),
    #[error("cannot print: {0}")]
    Output(#[from] io::Error),
    #[error("{0}")]
    History(#[from] history::HistoryError),
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Usage(String),
}

impl ToolError {
    /// Says it on stderr, unless a reader of the output only had enough of it.
    pub(crate) fn report(&self, tool: &str) -> ExitCode {
        match self {
            Self::Output(error) | Self::Storage(StorageError::Io { source: error, .. })
                if error.kind() == io::ErrorKind::BrokenPipe =>
            {
                ExitCode::SUCCESS
            }
            Self::Usage(_) => {
                eprintln!("zoarium {tool}: {self}");
                ExitCode::from(2)
            }
            _ => {
                eprintln!("zoarium {tool}: {self}");
                ExitCode::FAILURE
            }
        }
    }
}

/// How large fields may be.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct LimitArgs {
    /// `jute.maxbuffer` of the server that wrote the files, if it was raised
    #[arg(long, default_value_t = Limits::DEFAULT_MAX_BUFFER, value_name = "BYTES")]
    pub(crate) jute_maxbuffer: usize,
}

impl LimitArgs {
    pub(crate) fn limits(self) -> Limits {
        // The extra size defaults to the buffer's. Source: BinaryInputArchive.
        Limits::from_max_buffer(self.jute_maxbuffer, self.jute_maxbuffer)
    }
}

/// `0x1a` or `26`.
pub(crate) fn parse_zxid(text: &str) -> Result<Zxid, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    match parsed {
        Ok(number) if number >= 0 => Ok(Zxid(number)),
        Ok(_) => Err("a zxid is not negative".to_owned()),
        Err(_) => Err("not a zxid: decimal, or hex with 0x in front".to_owned()),
    }
}

/// Where the files are when `dir` is a dataDir: its `version-2`, if it has one.
pub(crate) fn files_dir(dir: &Path) -> PathBuf {
    let versioned = dir.join("version-2");
    if versioned.is_dir() {
        versioned
    } else {
        dir.to_path_buf()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zxids_are_decimal_or_marked_hex() {
        assert_eq!(parse_zxid("0x1F"), Ok(Zxid(31)));
        assert_eq!(parse_zxid("31"), Ok(Zxid(31)));
        for wrong in ["", "1f", "-1", "0x", "0x-1", "0x8000000000000000"] {
            assert!(parse_zxid(wrong).is_err(), "{wrong}");
        }
    }
}
