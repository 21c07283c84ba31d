//! A bridge: changes below a path go as lines of JSON to the standard input of a program, whatever it
//! does with them, and where it got to is kept in a file.
//!
//! ```text
//! cargo run -p zoarium-client --features admin --example bridge -- \
//!     HOST:PORT,HOST:PORT /path position.txt -- kcat -P -b broker -t changes
//! ```
//!
//! Every change gets there, in order. After a crash some come twice, those that were handed over
//! since the file was written last: `position` in each line says which.

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

use client::changes::{ChangeOptions, Changes, ChangesEvent, Start};
use proto::position::Position;

/// Between two positions that are kept, while changes come.
const SAVE_EVERY: Duration = Duration::from_millis(200);

/// What a bridge is told.
pub(crate) struct Bridge {
    /// The admin servers.
    pub(crate) servers: String,
    /// The top of the subtree.
    pub(crate) path: String,
    /// Where the position is kept.
    pub(crate) position: PathBuf,
}

type Failure = Box<dyn std::error::Error>;

impl Bridge {
    /// Where the last run got to; the beginning of what is kept if there was none.
    fn start(&self) -> Result<Start, Failure> {
        match fs::read_to_string(&self.position) {
            Ok(text) => Ok(Start::After(Position::parse(text.trim())?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(Start::From(proto::Zxid(1)))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A crash leaves the old file or the new one.
    fn save(&self, position: Position) -> io::Result<()> {
        let unfinished = self.position.with_extension("unfinished");
        let mut file = File::create(&unfinished)?;
        writeln!(file, "{position}")?;
        file.sync_all()?;
        fs::rename(&unfinished, &self.position)
    }

    /// Hands changes over until the program takes no more, or the feed cannot go on.
    pub(crate) async fn run(&self, mut to: impl Write) -> Result<(), Failure> {
        let mut options = ChangeOptions::new(&self.servers, &self.path).with_start(self.start()?);
        // Whoever looks at processes does not see it there.
        options.authorization = env::var("ZOARIUM_AUTH").ok();
        let mut changes = Changes::new(options);
        let mut saved_at = Instant::now();
        loop {
            let is_quiet = match changes.next_event().await? {
                ChangesEvent::Change(change) => {
                    to.write_all(change.line())?;
                    false
                }
                // Comes every few seconds when nothing else does.
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
