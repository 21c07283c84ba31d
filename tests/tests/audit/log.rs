//! A server's audit log as a test reads it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use proto::request::{Request, WriteRequest};
use tests::wait_until;

/// Time limit for a line to reach the file.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// The file, and the number of checked lines.
pub(crate) struct AuditLog {
    path: PathBuf,
    seen: usize,
}

impl AuditLog {
    /// Returns the log of the server that was started in `home`.
    pub(crate) fn of(home: &Path) -> AuditLog {
        AuditLog {
            path: home.join("zookeeper_audit.log"),
            seen: 0,
        }
    }

    /// Waits for exactly these masked lines. The order within a step with several lines is not
    /// compared, because the order of deleted ephemerals is that of a hash set.
    pub(crate) fn expect(&mut self, step: &str, expected: &[String]) {
        let read = || -> Vec<String> {
            let all = self.all();
            all.into_iter().skip(self.seen).collect()
        };
        wait_until(LIMIT, || (read().len() >= expected.len()).then_some(()));
        let (mut found, mut expected) = (read(), expected.to_vec());
        self.seen += found.len();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{step}");
    }

    /// Skips some lines.
    pub(crate) fn skip(&mut self, lines: usize) {
        self.seen += lines;
    }

    /// Returns all complete lines, masked.
    pub(crate) fn all(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(masked).collect()
    }
}

/// Returns the line with `<TIME>` in place of its date, which must be valid, and `<SESSION>` in
/// place of its session.
fn masked(line: &str) -> String {
    let (date, rest) = line.split_at(23);
    let digits = date.bytes().filter(u8::is_ascii_digit).count();
    let marks: String = date.chars().filter(|c| !c.is_ascii_digit()).collect();
    assert_eq!((digits, &*marks), (17, "-- ::,"), "{line}");
    let masked = rest.split('\t').map(|field| {
        let Some((before, _)) = field.split_once("session=0x") else {
            return field.to_owned();
        };
        format!("{before}session=<SESSION>")
    });
    format!("<TIME>{}", masked.collect::<Vec<_>>().join("\t"))
}

/// Returns the user as which servers of this test run.
pub(crate) fn user() -> String {
    let output = Command::new("id").arg("-un").output().expect("id -un");
    String::from_utf8(output.stdout)
        .expect("a name")
        .trim()
        .to_owned()
}

/// A request in either form.
pub(crate) trait Ask {
    /// Returns the request to send.
    fn request(self) -> Request;
}

impl Ask for Request {
    fn request(self) -> Request {
        self
    }
}

impl Ask for WriteRequest {
    fn request(self) -> Request {
        Request::Write(self)
    }
}
