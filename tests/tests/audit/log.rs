//! A server's audit log as a test reads it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use proto::request::{Request, WriteRequest};
use tests::wait_until;

/// How long a line may take into the file.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// The file, and how much of it was looked at.
pub(crate) struct AuditLog {
    path: PathBuf,
    seen: usize,
}

impl AuditLog {
    /// The log of the server that was started in `home`.
    pub(crate) fn of(home: &Path) -> AuditLog {
        AuditLog {
            path: home.join("zookeeper_audit.log"),
            seen: 0,
        }
    }

    /// Waits for these lines, masked, and no other. The order within a step that has several is
    /// not looked at: which ephemeral goes first is the order of a hash set.
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

    /// Leaves so many lines out.
    pub(crate) fn skip(&mut self, lines: usize) {
        self.seen += lines;
    }

    /// All whole lines, masked.
    pub(crate) fn all(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(masked).collect()
    }
}

/// The line with `<TIME>` for its date, which must be one, and `<SESSION>` for its session.
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

/// The user that servers of this test run as.
pub(crate) fn user() -> String {
    let output = Command::new("id").arg("-un").output().expect("id -un");
    String::from_utf8(output.stdout)
        .expect("a name")
        .trim()
        .to_owned()
}

/// What a session can be asked.
pub(crate) trait Ask {
    /// As the request that goes out.
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
