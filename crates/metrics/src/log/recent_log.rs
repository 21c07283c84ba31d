//! Newest lines of the log, for operators without access to the process's output.
//!
//! There is one global instance, because a process has one log.

use std::collections::VecDeque;
use std::io;

use parking_lot::Mutex;

/// Maximum number of lines to keep.
const LINES_MAX: usize = 1000;

/// Length at which a line is truncated, bytes.
const LINE_BYTES_MAX: usize = 2 << 10;

/// Buffer of the newest lines. Each write should consist of whole lines.
#[derive(Debug)]
pub struct RecentLog(Mutex<RecentLines>);

#[derive(Debug)]
struct RecentLines {
    lines: VecDeque<String>,
    /// Number of older lines that were dropped.
    lost: u64,
}

/// Newest lines of this process.
pub static RECENT_LOG: RecentLog = RecentLog::new();

impl RecentLog {
    const fn new() -> Self {
        Self(Mutex::new(RecentLines {
            lines: VecDeque::new(),
            lost: 0,
        }))
    }

    /// Returns the lines, oldest first, and the number of dropped lines.
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

/// Removes terminal colours from a line and truncates it.
fn plain(line: &str) -> String {
    let mut out = String::with_capacity(line.len().min(LINE_BYTES_MAX));
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        if c == '\u{1b}' {
            // Skips the escape sequence up to its final letter.
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
            // Writes each line with one call, like a layer of tracing.
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
