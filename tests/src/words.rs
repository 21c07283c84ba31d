//! Four-letter words.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use crate::secrets::search;

/// Time limit for one read of an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns the complete answer of the server on `port` to `word`, until it closes the connection.
///
/// # Errors
/// If connecting, sending or reading fails. A server that has not started yet refuses the
/// connection.
pub fn four_letter_word(port: u16, word: &str) -> io::Result<String> {
    ask((Ipv4Addr::LOCALHOST, port).into(), word, PATIENCE)
}

/// Returns the answer of the server at a numeric address. `patience` limits the connection and each
/// read.
///
/// # Errors
/// Under the conditions of [`four_letter_word`].
pub fn four_letter_word_at(address: &str, word: &str, patience: Duration) -> io::Result<String> {
    let address = address.parse().map_err(io::Error::other)?;
    ask(address, word, patience)
}

/// Returns whether the server on `port` reports that it serves.
///
/// Apache ZooKeeper may keep a connection open forever without an answer, if it arrived just before
/// the data was loaded. Therefore this function does not wait long for one answer.
pub(crate) fn serves(port: u16) -> bool {
    let address = (Ipv4Addr::LOCALHOST, port).into();
    let answer = ask(address, "srvr", Duration::from_millis(500)).unwrap_or_default();
    answer.contains("\nMode: ")
}

/// Returns the answer of the server at an address. `patience` limits the connection and each read.
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
