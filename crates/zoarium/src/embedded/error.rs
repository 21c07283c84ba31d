//! Why a server inside another program does not start, or does not go on.

use std::io;

use config::ConfigError;
use server::StartError;

/// Why a server inside another program does not start, or does not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// [`crate::ServerBuilder::data_dir`] was not called.
    #[error("a server needs a directory for its data: call data_dir()")]
    NoDataDir,
    /// The directory of the data is given relative to a directory that is not there.
    #[error("cannot tell where the directory of the data is: {0}")]
    Directory(io::Error),
    /// The settings are refused. The text has the key, the reason and what to do.
    #[error("{0}")]
    Settings(String),
    /// The settings ask for Kerberos, the library of which takes this from the environment of the process only.
    #[error(
        "logins by Kerberos need the environment variable {name}={value}: set it before the program starts"
    )]
    Environment {
        /// The variable.
        name: &'static str,
        /// What it must be.
        value: String,
    },
    /// The data directory does not recover, or an address cannot be bound.
    #[error("{text}")]
    Start {
        /// What the server says.
        text: String,
        /// With this code the process of `zoarium server` would end. Source: ExitCode.
        exit_code: u8,
    },
    /// The system gives no thread.
    #[error("cannot start the threads of a server: {0}")]
    Threads(io::Error),
    /// The server could not go on (its disk is full, or a sync failed) and has stopped. Its log lines say why.
    #[error(
        "the server could not go on and has stopped (exit code {exit_code}); its log lines say why"
    )]
    Failed {
        /// With this code the process of `zoarium server` would end. Source: ExitCode.
        exit_code: u8,
    },
    /// An ensemble did not serve in time.
    #[error("{0}")]
    NotServing(String),
    /// What a test server is told to do, or has, fails.
    #[error("{what}: {why}")]
    Test {
        /// What fails.
        what: &'static str,
        /// Why.
        why: String,
    },
    /// The server was stopped.
    #[error("the server was stopped")]
    Stopped,
}

impl From<ConfigError> for ServerError {
    fn from(error: ConfigError) -> Self {
        Self::Settings(error.to_string())
    }
}

impl From<StartError> for ServerError {
    fn from(error: StartError) -> Self {
        Self::Start {
            text: error.to_string(),
            exit_code: error.exit_code(),
        }
    }
}
