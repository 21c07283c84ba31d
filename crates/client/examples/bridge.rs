//! Bridge from the change history to a program. It writes the changes below a path as lines of JSON
//! to the standard input of the program, and stores its position in a file.
//!
//! ```text
//! cargo run -p zoarium-client --features admin --example bridge -- \
//!     HOST:PORT,HOST:PORT /path position.txt -- kcat -P -b broker -t changes
//! ```
//!
//! The program receives every change, in order. After a crash, it may receive the changes since the
//! last save of the position again. The `position` in each line identifies such duplicates.

#![allow(
    clippy::disallowed_methods,
    reason = "this program serves no sockets, so its runtime may wait for a small file"
)]

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, io};

use zoarium_client::changes::{ChangeOptions, Changes, ChangesEvent, Start};
use zoarium_client::{Position, Zxid};

/// Interval between saves of the position while changes arrive.
const SAVE_EVERY: Duration = Duration::from_millis(200);

/// Settings of a bridge.
pub(crate) struct Bridge {
    /// Addresses of the admin servers.
    pub(crate) servers: String,
    /// Path at the top of the subtree.
    pub(crate) path: String,
    /// File that contains the position.
    pub(crate) position: PathBuf,
}

type Failure = Box<dyn std::error::Error>;

impl Bridge {
    /// Returns the position of the last run or, without a file, the first transaction. The feed
    /// fails if the members no longer keep the first transaction.
    fn start(&self) -> Result<Start, Failure> {
        match fs::read_to_string(&self.position) {
            Ok(text) => Ok(Start::After(Position::parse(text.trim())?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Start::From(Zxid(1))),
            Err(error) => Err(error.into()),
        }
    }

    /// Saves the position. After a crash, the file contains either the old or the new position.
    fn save(&self, position: Position) -> io::Result<()> {
        let unfinished = self.position.with_extension("unfinished");
        let mut file = File::create(&unfinished)?;
        writeln!(file, "{position}")?;
        file.sync_all()?;
        fs::rename(&unfinished, &self.position)
    }

    /// Writes changes to `to` until `to` fails or the feed ends with an error.
    pub(crate) async fn run(&self, mut to: impl Write) -> Result<(), Failure> {
        // An environment variable is used because the list of processes shows command lines.
        let authorization = env::var("ZOARIUM_AUTH").ok();
        let options = ChangeOptions::new(&self.servers, &self.path)
            .with_start(self.start()?)
            .with_authorization(authorization.as_deref());
        let mut changes = Changes::new(options);
        let mut saved_at = Instant::now();
        loop {
            let is_quiet = match changes.next_event().await? {
                ChangesEvent::Change(change) => {
                    to.write_all(change.line())?;
                    false
                }
                // A progress line arrives every few seconds while there are no changes.
                ChangesEvent::Progress(_) => true,
                ChangesEvent::Lost(error) => {
                    eprintln!("bridge: {error}");
                    false
                }
                _ => false,
            };
            if let Some(position) = changes.position()
                && (is_quiet || saved_at.elapsed() > SAVE_EVERY)
            {
                to.flush()?;
                self.save(position)?;
                saved_at = Instant::now();
            }
        }
    }
}

async fn run(words: &[String]) -> Result<(), Failure> {
    let [servers, path, position, dashes, program, arguments @ ..] = words else {
        return Err("usage: bridge SERVERS PATH POSITION-FILE -- PROGRAM [ARGUMENT...]".into());
    };
    if dashes != "--" {
        return Err("-- is to stand in front of the program".into());
    }
    let bridge = Bridge {
        servers: servers.clone(),
        path: path.clone(),
        position: Path::new(position).to_owned(),
    };
    let mut program = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .spawn()?;
    let input = program.stdin.take().ok_or("the program has no input")?;
    let result = bridge.run(io::BufWriter::new(input)).await;
    program.wait()?;
    result
}

/// Starts a bridge.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    match run(&words).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bridge: {error}");
            ExitCode::FAILURE
        }
    }
}
