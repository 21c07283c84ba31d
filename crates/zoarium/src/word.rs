//! `zoarium word`: asks a server a four-letter word, where `nc` would be wanted.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

/// Bytes of an answer; `wchp` of a large server is long, and what never ends is cut.
const ANSWER_BYTES_MAX: u64 = 1 << 30;

#[derive(Debug, Args)]
pub(crate) struct WordArgs {
    /// Where the server is
    #[arg(value_name = "HOST:PORT")]
    server: String,
    /// The word, such as srvr, ruok or mntr
    word: String,
    /// Seconds to wait for the connection and for each piece of the answer
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
}

/// Prints the answer as it comes; exit code 1 if there is none.
pub(crate) fn run(args: &WordArgs) -> ExitCode {
    let limit = Duration::from_secs(args.timeout);
    match ask(&args.server, &args.word, limit, &mut terminal::stdout()) {
        Ok(0) => fail(
            args,
            "closed the connection without an answer: is the word known?",
        ),
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => fail(args, &error.to_string()),
    }
}

fn fail(args: &WordArgs, reason: &str) -> ExitCode {
    terminal::complain!("zoarium: {}: {reason}", args.server);
    ExitCode::FAILURE
}

/// Sends `word` to `server` and writes the answer to `out`; returns the number of bytes. `limit` bounds the wait for the
/// connection and for each piece of the answer.
///
/// # Errors
/// If the server cannot be reached, or does not answer in time.
pub(crate) fn ask(
    server: &str,
    word: &str,
    limit: Duration,
    out: &mut impl Write,
) -> io::Result<u64> {
    let mut stream = connect(server, limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    stream.write_all(word.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let printed = io::copy(&mut stream.take(ANSWER_BYTES_MAX), out)?;
    out.flush()?;
    Ok(printed)
}

/// Connects to the first address of the name that answers.
fn connect(server: &str, limit: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in server.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
