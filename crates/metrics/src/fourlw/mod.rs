//! Four-letter words: commands in plain text, sent as the first bytes of a connection.
//!
//! ```text
//!   first four bytes -> Word::recognise -> Whitelist::allows -> answer(word, view) -> close
//! ```
//!
//! The answers have the same bytes as Apache ZooKeeper's, because scripts and monitoring parse
//! them. This module does not use sockets. It reads the server's state through [`View`].

mod figures;
mod listings;
mod peer;
#[cfg(test)]
mod tests;
mod word;

use std::fmt::{self, Write};

pub use word::{Whitelist, Word};

use crate::role::Mode;
use crate::view::{View, whole};

const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests";

/// Returns the answer to a word that is not in the whitelist.
pub fn refusal(word: Word) -> String {
    format!(
        "{} is not executed because it is not in the whitelist.\n",
        word.text()
    )
}

/// Returns the answer to an allowed word. `argument` contains the [`Word::argument_bytes`] after
/// the word. If the argument of `stmk` has a different length, the answer is empty.
pub fn answer(word: Word, argument: &[u8], view: &dyn View) -> String {
    let mut out = String::new();
    // Only an implementation of `Display` could fail here, and none does.
    if write_answer(word, argument, view, &mut out).is_err() {
        tracing::error!(
            word = word.text(),
            "cannot format the answer to a four-letter word"
        );
    }
    out
}

fn write_answer(word: Word, argument: &[u8], view: &dyn View, out: &mut String) -> fmt::Result {
    let role = view.role();
    match (word, role.served_mode()) {
        (Word::Ruok, _) => out.write_str("imok"),
        (Word::Gtmk, _) => write!(out, "{}", view.trace_mask()),
        (Word::Stmk, _) => set_trace_mask(argument, view, out),
        (Word::Envi, _) => listings::envi(view.environment(), out),
        (Word::TelnetClose, _) => Ok(()),

        (Word::Isro, None) => out.write_str("null"),
        // Other words answer with this text and a line end. Source: DigestCommand.
        (Word::Hash, None) => out.write_str(NOT_SERVING),
        (_, None) => writeln!(out, "{NOT_SERVING}"),

        (Word::Conf, Some(_)) => listings::conf(view, &role, out),
        (Word::Cons, Some(_)) => figures::cons(view, out),
        (Word::Crst, Some(_)) => reset_connections(view, out),
        (Word::Dirs, Some(_)) => listings::dirs(view, out),
        (Word::Dump, Some(_)) => listings::dump(view, out),
        (Word::Hash, Some(_)) => listings::hash(view, out),
        (Word::Isro, Some(Mode::ReadOnly)) => out.write_str("ro"),
        (Word::Isro, Some(_)) => out.write_str("rw"),
        (Word::Mntr, Some(_)) => figures::mntr(view, &role, out),
        (Word::Srst, Some(_)) => reset_server(view, out),
        (Word::Srvr, Some(mode)) => figures::srvr(view, mode, out),
        (Word::Stat, Some(mode)) => figures::stat(view, mode, out),
        (Word::Wchc, Some(_)) => listings::watches(&whole(|at| view.watches_by_session(at)), out),
        (Word::Wchp, Some(_)) => listings::watches(&whole(|at| view.watches_by_path(at)), out),
        (Word::Wchs, Some(_)) => listings::wchs(view, out),
    }
}

fn reset_connections(view: &dyn View, out: &mut String) -> fmt::Result {
    view.reset_connections();
    writeln!(out, "Connection stats reset.")
}

fn reset_server(view: &dyn View, out: &mut String) -> fmt::Result {
    view.stats().reset();
    view.reset_proposal_sizes();
    writeln!(out, "Server stats reset.")
}

fn set_trace_mask(argument: &[u8], view: &dyn View, out: &mut String) -> fmt::Result {
    let Ok(bytes) = argument.try_into() else {
        return Ok(());
    };
    let mask = i64::from_be_bytes(bytes);
    view.set_trace_mask(mask);
    write!(out, "{mask}")
}
