//! Standard output and error of all tools, protected against control characters in data.
//!
//! Znodes, logs and replies of servers may contain any characters. Some characters change the
//! terminal, or the input that it sends. [`stdout`] and [`stderr`] replace control characters with
//! their escapes if a terminal would receive them. Line ends and tabs remain. Files and pipes
//! receive all bytes unchanged.

mod keys;

use std::fmt::{Arguments, Write as _};
use std::fs::File;
use std::io::{self, IsTerminal, Stderr, Stdout, Write};
use std::os::fd::AsFd;

pub use keys::QuitKey;

/// Returns standard output.
pub fn stdout() -> Output<Stdout> {
    let out = io::stdout();
    Output::new(out.is_terminal(), out)
}

/// Returns standard error.
pub fn stderr() -> Output<Stderr> {
    let out = io::stderr();
    Output::new(out.is_terminal(), out)
}

/// Returns a second handle for standard error. A write that blocks on this handle does not hold a
/// lock that other messages of the process need. All bytes are written unchanged.
///
/// # Errors
/// If standard error is closed, or if the process has too many open file descriptors.
pub fn stderr_file() -> io::Result<File> {
    Ok(File::from(io::stderr().as_fd().try_clone_to_owned()?))
}

/// Prints a line to standard output. Errors are ignored, for example if the pipe is closed.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => { $crate::write_line($crate::stdout(), ::std::format_args!($($text)*)) };
}

/// Prints a line to standard error. Errors are ignored, for example if the pipe is closed.
#[macro_export]
macro_rules! complain {
    ($($text:tt)*) => { $crate::write_line($crate::stderr(), ::std::format_args!($($text)*)) };
}

#[doc(hidden)]
pub fn write_line(mut out: impl Write, text: Arguments<'_>) {
    let _ = out
        .write_all(format!("{text}\n").as_bytes())
        .and_then(|()| out.flush());
}

/// Returns the text with escapes for control characters, except line ends and tabs.
pub fn without_controls(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    put_text(text, &mut shown);
    shown
}

/// Output stream that may be a terminal.
#[derive(Debug)]
pub struct Output<W: Write> {
    out: W,
    is_terminal: bool,
    /// First bytes of a character whose remaining bytes have not arrived yet.
    begun: Vec<u8>,
}

impl<W: Write> Output<W> {
    fn new(is_terminal: bool, out: W) -> Self {
        Self {
            out,
            is_terminal,
            begun: Vec::new(),
        }
    }

    /// Returns whether the output is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Clears the terminal and moves the cursor to the upper left corner. Does nothing if the
    /// output is not a terminal.
    ///
    /// # Errors
    /// If the terminal cannot be written to.
    pub fn clear(&mut self) -> io::Result<()> {
        if self.is_terminal {
            self.out.write_all(b"\x1b[H\x1b[2J")
        } else {
            Ok(())
        }
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_terminal {
            return self.out.write(bytes);
        }
        self.begun.extend_from_slice(bytes);
        let mut shown = String::with_capacity(self.begun.len());
        let kept = put_bytes(&self.begun, &mut shown);
        self.begun.drain(..self.begun.len() - kept);
        self.out.write_all(shown.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<W: Write> Drop for Output<W> {
    fn drop(&mut self) {
        let mut shown = String::new();
        put_invalid(&self.begun, &mut shown);
        // A destructor cannot return an error.
        let _ = self.out.write_all(shown.as_bytes());
    }
}

/// Appends bytes to `shown` as text, with escapes. Returns the number of bytes at the end that may
/// begin a character and are therefore not appended.
fn put_bytes(mut bytes: &[u8], shown: &mut String) -> usize {
    loop {
        let error = match std::str::from_utf8(bytes) {
            Ok(text) => {
                put_text(text, shown);
                return 0;
            }
            Err(error) => error,
        };
        let (text, rest) = bytes.split_at(error.valid_up_to());
        put_text(&String::from_utf8_lossy(text), shown);
        let Some(invalid) = error.error_len() else {
            return rest.len();
        };
        let (invalid, rest) = rest.split_at(invalid);
        put_invalid(invalid, shown);
        bytes = rest;
    }
}

fn put_text(text: &str, shown: &mut String) {
    for c in text.chars() {
        if c.is_control() && !matches!(c, '\n' | '\t') {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
}

/// Writes escapes for bytes that are not a character, because a terminal without UTF-8 interprets
/// some of them as commands.
fn put_invalid(bytes: &[u8], shown: &mut String) {
    for byte in bytes {
        let _ = write!(shown, "\\x{byte:02x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(is_terminal: bool, pieces: &[&[u8]]) -> Vec<u8> {
        let mut written = Vec::new();
        let mut out = Output::new(is_terminal, &mut written);
        for piece in pieces {
            out.write_all(piece).unwrap();
            out.flush().unwrap();
        }
        drop(out);
        written
    }

    #[test]
    fn a_terminal_gets_no_commands_and_a_file_gets_every_byte() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(shown(false, &[&all]), all);
        let on_terminal = shown(true, &[&all]);
        let text = String::from_utf8(on_terminal).unwrap();
        let controls: Vec<char> = text.chars().filter(|c| c.is_control()).collect();
        assert_eq!(controls, ['\t', '\n']);
        assert!(text.starts_with("\\u{0}\\u{1}"));
        assert!(text.ends_with("\\xfe\\xff"));
        let data = "a\u{1b}[2J\r\u{9b}b\u{7f}\n\té".as_bytes();
        let wanted = "a\\u{1b}[2J\\u{d}\\u{9b}b\\u{7f}\n\té";
        assert_eq!(shown(true, &[data]), wanted.as_bytes());
        assert_eq!(without_controls("a\u{1b}"), "a\\u{1b}");
    }

    #[test]
    fn a_character_may_arrive_in_pieces() {
        let data = "é\u{9b}\u{1f980}".as_bytes();
        let bytes: Vec<&[u8]> = data.chunks(1).collect();
        assert_eq!(shown(true, &bytes), "é\\u{9b}\u{1f980}".as_bytes());
        assert_eq!(shown(true, &[b"a\xc2", b"b\xc2"]), b"a\\xc2b\\xc2");
    }

    #[test]
    fn the_screen_is_cleared_on_a_terminal_only() {
        for (is_terminal, wanted) in [(true, &b"\x1b[H\x1b[2J"[..]), (false, &b""[..])] {
            let mut written = Vec::new();
            Output::new(is_terminal, &mut written).clear().unwrap();
            assert_eq!(written, wanted);
        }
    }
}
