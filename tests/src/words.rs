//! Four-letter words.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use crate::secrets::search;

/// How long one read of an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The whole answer of the server on `port` to `word`, until it closes the connection.
///
/// # Errors
/// Whatever connecting, sending or reading gives; a server which isn't up yet refuses.
pub fn four_letter_word(port: u16, word: &str) -> io::Result<String> {
    ask((Ipv4Addr::LOCALHOST, port).into(), word, PATIENCE)
}

/// The same of the server at a numeric address, which may take so long to connect and for each read.
///
/// # Errors
/// As of [`four_letter_word`].
pub fn four_letter_word_at(address: &str, word: &str, patience: Duration) -> io::Result<String> {
    let address = address.parse().map_err(io::Error::other)?;
    ask(address, word, patience)
}

/// Whether the server on `port` says that it serves.
///
/// Apache ZooKeeper can keep a connection open for ever, unanswered, that came in the moment
/// before it had loaded its data, so this doesn't wait long for one answer.
pub(crate) fn serves(port: u16) -> bool {
    let address = (Ipv4Addr::LOCALHOST, port).into();
    let answer = ask(address, "srvr", Duration::from_millis(500)).unwrap_or_default();
    answer.contains("\nMode: ")
}

/// The same of the server at an address, which may take so long to connect and for each read.
pub(crate) fn ask(address: SocketAddr, word: &str, patience: Duration) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(word.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let place = format!("the answer of {address} to {word}");
    search(&place, &answer);
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
