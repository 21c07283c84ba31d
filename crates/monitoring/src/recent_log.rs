//! The newest lines of the log, for who cannot read the process's output.
//!
//! There is one, as there is one log of a process.

use std::collections::VecDeque;
use std::io;

use parking_lot::Mutex;

/// Lines that are kept.
const LINES_MAX: usize = 1000;

/// Bytes of a line that are kept.
const LINE_BYTES_MAX: usize = 2 << 10;

/// The newest lines. What is written to it should be whole lines.
#[derive(Debug)]
pub struct RecentLog(Mutex<Kept>);

#[derive(Debug)]
struct Kept {
    lines: VecDeque<String>,
    /// Older lines, which are gone.
    lost: u64,
}

/// Those of this process.
pub static RECENT_LOG: RecentLog = RecentLog::new();

impl RecentLog {
    const fn new() -> Self {
        Self(Mutex::new(Kept {
            lines: VecDeque::new(),
            lost: 0,
        }))
    }

    /// The lines, oldest first, and how many older ones there were.
    pub fn lines(&self) -> (Vec<String>, u64) {
        let kept = self.0.lock();
        (kept.lines.iter().cloned().collect(), kept.lost)
    }

    fn add(&self, line: &str) {
        let mut kept = self.0.lock();
        if kept.lines.len() == LINES_MAX {
            kept.lines.pop_front();
            kept.lost += 1;
        }
        kept.lines.push_back(plain(line));
    }
}

/// A line without the colours of a terminal, and no longer than is kept.
fn plain(line: &str) -> String {
    let mut out = String::with_capacity(line.len().min(LINE_BYTES_MAX));
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        if c == '\u{1b}' {
            // Up to the letter that ends it.
            let _ = rest.by_ref().find(char::is_ascii_alphabetic);
            continue;
        }
        if out.len() >= LINE_BYTES_MAX {
            out.push('…');
            break;
        }
        out.push(c);
    }
    out
}

impl io::Write for &RecentLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        text.lines().for_each(|line| self.add(line));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_newest_lines_are_kept() {
        let log = RecentLog::new();
        for number in 0..LINES_MAX + 5 {
            // As a layer of tracing does: a line with one write.
            let line = format!("\u{1b}[32mINFO\u{1b}[0m {number}\n");
            (&log).write_all(line.as_bytes()).expect("it takes all");
        }
        let (lines, lost) = log.lines();
        assert_eq!((lines.len(), lost), (LINES_MAX, 5));
        assert_eq!(lines.last().map(String::as_str), Some("INFO 1004"));
    }

    #[test]
    fn a_long_line_is_cut() {
        let log = RecentLog::new();
        (&log)
            .write_all("é".repeat(LINE_BYTES_MAX).as_bytes())
            .expect("it takes all");
        let (lines, _) = log.lines();
        assert_eq!(lines[0].chars().count(), LINE_BYTES_MAX / 2 + 1);
    }
}
