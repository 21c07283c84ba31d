//! The command `zoarium word`, which sends a four-letter word to a server, as a replacement for
//! `nc`.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use ::cli::exit;
use clap::Args;
use client::port::{CLIENT_PORT, PortKind, probe};
use client::tls::{ClientStores, Connector};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::address::parse_address;
use super::client_flags;
use crate::start::server_cmd;
use crate::tool::ToolError;

/// Maximum size of an answer, bytes. The answer to `wchp` from a large server is long, and an
/// endless answer is truncated.
const ANSWER_BYTES_MAX: u64 = 1 << 30;
/// Number of bytes per read over TLS.
const PIECE_BYTES: usize = 1 << 14;

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zoarium word localhost:2181 srvr")]
pub(crate) struct WordArgs {
    /// Client port of the server
    #[arg(value_name = "HOST:PORT", value_parser = with_port)]
    server: String,
    /// Four-letter word, such as srvr, ruok or mntr
    word: String,
    /// Seconds to wait for the connection and for each part of the answer
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    /// Connects over TLS to a secureClientPort, with the stores that CLIENT_JVMFLAGS and JVMFLAGS name
    #[arg(long)]
    tls: bool,
    /// With --tls, uses the stores of this zoo.cfg if the flags do not name stores
    #[arg(long, value_name = "FILE", requires = "tls")]
    zoo_cfg: Option<PathBuf>,
}

/// Prints the answer as it arrives. A refusal is printed on stderr, with the exit code for missing
/// permissions.
pub(crate) fn run(args: &WordArgs) -> ExitCode {
    let limit = Duration::from_secs(args.timeout);
    let mut out = Answer::default();
    let printed = if args.tls {
        ask_by_tls(args, limit, &mut out)
    } else {
        ask(&args.server, &args.word, limit, &mut out)
    };
    match printed {
        Ok(0) if is_admin_port(args) => fail(
            args,
            exit::UNREACHABLE,
            "this is an admin port; four-letter words need the client port (by default 2181)",
        ),
        Ok(0) => fail(
            args,
            exit::FAILED,
            "the server closed the connection without an answer, perhaps because it does not support this word",
        ),
        Ok(_) if out.is_refusal() => fail(
            args,
            exit::DENIED,
            &format!(
                "{}; allow it with 4lw.commands.whitelist",
                String::from_utf8_lossy(&out.held)
                    .trim_end()
                    .trim_end_matches('.')
            ),
        ),
        Ok(_) => match out.release() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => ToolError::from(error).report("word"),
        },
        Err(error) => fail(args, exit::UNREACHABLE, &error.to_string()),
    }
}

/// Returns whether the port belongs to an admin server. An answer from `probe` may take several
/// seconds.
fn is_admin_port(args: &WordArgs) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else { return false };
    let kind = runtime.block_on(probe(&args.server, &Connector::plain()));
    kind.is_ok_and(|kind| kind == PortKind::Admin)
}

/// Adds the default client port to an address without a port.
fn with_port(text: &str) -> Result<String, String> {
    let address = parse_address(text)?;
    let has_port = address.rsplit_once(':').is_some() && !address.ends_with(']');
    Ok(if has_port {
        address
    } else {
        format!("{address}:{CLIENT_PORT}")
    })
}

fn fail(args: &WordArgs, code: u8, reason: &str) -> ExitCode {
    terminal::complain!("zoarium word: {}: {reason}", args.server);
    ExitCode::from(code)
}

/// Maximum length of an answer that may be a refusal, bytes.
const REFUSAL_BYTES_MAX: usize = 128;

/// Writer of an answer to standard output. The beginning is held back until it cannot be a refusal.
#[derive(Default)]
struct Answer {
    held: Vec<u8>,
    is_released: bool,
}

impl Answer {
    fn is_refusal(&self) -> bool {
        let text = String::from_utf8_lossy(&self.held);
        text.contains("is not executed because it is not in the whitelist")
    }

    fn release(&mut self) -> io::Result<()> {
        self.is_released = true;
        let held = std::mem::take(&mut self.held);
        let mut out = terminal::stdout();
        out.write_all(&held)?;
        out.flush()
    }
}

impl Write for Answer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_released {
            terminal::stdout().write_all(bytes)?;
            return Ok(bytes.len());
        }
        self.held.extend_from_slice(bytes);
        if self.held.len() > REFUSAL_BYTES_MAX {
            self.release()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.is_released {
            terminal::stdout().flush()
        } else {
            Ok(())
        }
    }
}

/// Sends `word` to `server` and writes the answer to `out`. Returns the number of bytes. `limit`
/// bounds the wait for the connection and for each piece of the answer.
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

/// Sends the word over TLS. Otherwise like [`ask`].
fn ask_by_tls(args: &WordArgs, limit: Duration, out: &mut impl Write) -> io::Result<u64> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut stream = connect_by_tls(args, limit).await?;
        stream.write_all(args.word.as_bytes()).await?;
        stream.flush().await?;
        let (mut printed, mut piece) = (0, vec![0; PIECE_BYTES]);
        loop {
            let length = match tokio::time::timeout(limit, stream.read(&mut piece)).await? {
                Ok(length) => length,
                // Some servers close the connection without a TLS close_notify.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
                Err(error) => return Err(error),
            };
            if length == 0 || printed > ANSWER_BYTES_MAX {
                out.flush()?;
                return Ok(printed);
            }
            out.write_all(&piece[..length])?;
            printed += length as u64;
        }
    })
}

/// Connects with the first stores for which both sides accept the other's certificate.
async fn connect_by_tls(
    args: &WordArgs,
    limit: Duration,
) -> io::Result<impl AsyncRead + AsyncWrite + Unpin> {
    let host = args.server.rsplit_once(':').map_or("", |(host, _)| host);
    let mut failed = None;
    for stores in stores(args)? {
        let connector = match Connector::of_client(&stores) {
            Ok(connector) => connector,
            Err(error) => {
                failed.get_or_insert(io::Error::other(error));
                continue;
            }
        };
        let stream = connect(&args.server, limit)?;
        stream.set_nonblocking(true)?;
        let stream = tokio::net::TcpStream::from_std(stream)?;
        match connector.establish(stream, &[host]).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    Err(failed.unwrap_or_else(|| io::ErrorKind::Unsupported.into()))
}

/// Returns the stores named by the flags or by zoo.cfg, in the order in which to try them. A client
/// can use the key store of the server, because a server that trusts the authority of its own
/// certificate also accepts this certificate from a client. With a zoo.cfg, host names are not
/// checked, because the server is on this machine.
///
/// The trust store of a server is meant for clients' certificates and may be missing. The
/// alternatives are the server's own certificate and the certificates that the platform trusts.
fn stores(args: &WordArgs) -> io::Result<Vec<ClientStores>> {
    let flags = client_flags::properties();
    let mut stores = ClientStores {
        key: client_flags::store(&flags, "keyStore"),
        trust: client_flags::store(&flags, "trustStore"),
        checks_hosts: args.zoo_cfg.is_none(),
        resumes_sessions: false,
    };
    if let Some(file) = &args.zoo_cfg {
        let config = server_cmd::configure(vec![file.into()]).map_err(io::Error::other)?;
        let named = |store: config::Store| store.location.is_some().then_some(store);
        let tls = config.client_tls.tls;
        let own = named(tls.key_store);
        stores.key = stores.key.or_else(|| own.clone());
        if stores.trust.is_none() {
            let trusts = named(tls.trust_store).into_iter().chain(own).map(Some);
            let stores_with = |trust| ClientStores {
                trust,
                ..stores.clone()
            };
            return Ok(trusts.chain([None]).map(stores_with).collect());
        }
    }
    Ok(vec![stores])
}

/// Connects to the first of the server's addresses that accepts the connection.
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
