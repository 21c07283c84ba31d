//! The secrets of all tests in one table, and the search for them in all output of a server.
//!
//! A server's output and its other logs are searched when its process ends ([`crate::Process`]).
//! Answers are searched when they arrive: to four-letter words, over HTTP, to clients. A secret
//! fails the test, also as an escaped string, in hexadecimal, in base64 or as a list of numbers.
//! The failure names its place. Tests must not use these texts for other purposes, and must not use
//! secrets outside this table, except those that they create at run time: see [`learn`].

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// Password of all stores with a password.
pub const STORE: &str = "changeit-so-long";
/// User and password of the digest super user.
pub const SUPER: &str = "super:secret";
/// Setting that makes this user the super user.
pub const SUPER_DIGEST: &str = "super:lK75jTNcA+U9vtVEw5vB51mj/w4=";
/// User and password with which carol authenticates.
pub const CAROL: &str = "carol:d1gestsecret";
/// Password of the SASL super user.
pub const SASL_SUPER: &str = "adm1nsecret";
/// Password of the SASL user bob.
pub const SASL_BOB: &str = "b0bsecret";
/// Password that has to be quoted.
pub const SASL_QUOTED: &str = "quot\"3d,secret\\";
/// Password with a Latin 1 letter.
pub const SASL_LATIN: &str = "\u{fc}ml4utsecret";
/// Password with a letter outside Latin 1.
pub const SASL_WIDE: &str = "\u{6587}w1desecret";
/// Password with which members log in with each other.
pub const MEMBER: &str = "m3mbersecret";
/// Password that belongs to no user.
pub const WRONG: &str = "wr0ngsecret";
/// Data of znodes that must not appear in a log.
pub const ZNODE_DATA: &str = "zn0ded4tasecret";

/// Names and secrets. The last ones are derived from passwords of recordings, which are too short
/// for a search.
const TABLE: &[(&str, &str)] = &[
    ("the password of a store", STORE),
    ("the superuser's credentials", SUPER),
    (DIGEST, "lK75jTNcA+U9vtVEw5vB51mj/w4="),
    ("carol's password", "d1gestsecret"),
    ("the SASL password of super", SASL_SUPER),
    ("the SASL password of bob", SASL_BOB),
    ("a quoted SASL password", SASL_QUOTED),
    ("a SASL password in Latin 1", SASL_LATIN),
    ("a wide SASL password", SASL_WIDE),
    ("the members' SASL password", MEMBER),
    ("a wrong password", WRONG),
    (DATA, ZNODE_DATA),
    ("bob's credentials", "bob:pw"),
    ("bob's other credentials", "bob:secret"),
    ("carol's short credentials", "carol:pw"),
    ("the admin's credentials", "admin:pw"),
    ("the owner's credentials", "owner:pw"),
];

const DATA: &str = "the data of a znode";
const DIGEST: &str = "the superuser's digest";

/// Maximum number of learnt secrets. A storm of sessions has many similar ones.
const LEARNT_MAX: usize = 256;

/// Minimum length. Shorter secrets would match everywhere.
const BYTES_MIN: usize = 6;

/// Audience of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// Any reader of a server's output and logs, or of its ports for operators.
    ByAnybody,
    /// A client, which may see data and ACLs of znodes.
    ByClient,
}

/// A form of a secret.
#[derive(Clone)]
struct Needle {
    name: String,
    form: &'static str,
    bytes: Vec<u8>,
}

/// All forms by their first two bytes. A hash per byte of a log would take too long. It would take
/// even longer for data that repeats one byte with which a form begins.
#[derive(Clone)]
struct Needles {
    by_pair: Vec<Vec<Needle>>,
    learnt: usize,
}

/// Shared forms. A search of a long answer must not delay other threads, whose times may be
/// measured.
static NEEDLES: Mutex<Option<Arc<Needles>>> = Mutex::new(None);

/// Adds a secret that a test has created to later searches.
pub fn learn(name: &str, secret: &[u8]) {
    with_needles(|needles| {
        if needles.learnt < LEARNT_MAX {
            let needles = Arc::make_mut(needles);
            needles.learnt += 1;
            needles.add(name, secret);
        }
    });
}

/// Panics if `shown` contains a secret. The message contains its name, its form and its place. Does
/// nothing in a test that has already failed.
pub fn search(place: &str, shown: &[u8]) {
    search_seen(place, Seen::ByAnybody, shown);
}

/// Searches an answer to a client.
pub(crate) fn search_answer(shown: &[u8]) {
    search_seen("an answer to a client", Seen::ByClient, shown);
}

fn search_seen(place: &str, seen: Seen, shown: &[u8]) {
    if std::thread::panicking() {
        return;
    }
    let needles = with_needles(|needles| needles.clone());
    let found = needles.find(seen, shown);
    assert!(found.is_empty(), "{place} shows {}", found.join("; "));
}

fn with_needles<T>(task: impl FnOnce(&mut Arc<Needles>) -> T) -> T {
    // A panicked thread has left the table intact.
    let mut needles = NEEDLES.lock().unwrap_or_else(|error| error.into_inner());
    task(needles.get_or_insert_with(|| Arc::new(Needles::of_table())))
}

fn index(pair: [u8; 2]) -> usize {
    usize::from(u16::from_be_bytes(pair))
}

impl Needles {
    fn of_table() -> Needles {
        let mut needles = Needles {
            by_pair: vec![Vec::new(); 1 << 16],
            learnt: 0,
        };
        for (name, secret) in TABLE {
            needles.add(name, secret.as_bytes());
        }
        needles
    }

    fn add(&mut self, name: &str, secret: &[u8]) {
        let mut forms = vec![("in clear", secret.to_vec())];
        let mut push = |form, text: String| {
            let bytes = text.into_bytes();
            if forms.iter().all(|(_, known)| *known != bytes) {
                forms.push((form, bytes));
            }
        };
        push("escaped", secret.escape_ascii().to_string());
        if let Ok(text) = std::str::from_utf8(secret) {
            push("escaped as text", text.escape_debug().to_string());
            push("escaped as ASCII", text.escape_default().to_string());
        }
        push("in base64", BASE64_STANDARD.encode(secret));
        let (mut hexadecimal, mut numbers) = (String::new(), String::new());
        for byte in secret {
            write!(hexadecimal, "{byte:02x}").expect("a string takes everything");
            write!(numbers, "{byte}, ").expect("a string takes everything");
        }
        push("in hexadecimal", hexadecimal.clone());
        push("in upper hexadecimal", hexadecimal.to_uppercase());
        push(
            "as numbers",
            numbers.trim_end_matches([',', ' ']).to_owned(),
        );
        for (form, bytes) in forms {
            let Some(pair) = bytes.first_chunk().filter(|_| secret.len() >= BYTES_MIN) else {
                continue;
            };
            let name = name.to_owned();
            let needle = Needle {
                name,
                form,
                bytes: bytes.clone(),
            };
            self.by_pair[index(*pair)].push(needle);
        }
    }

    fn find(&self, seen: Seen, shown: &[u8]) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        let mut line = 1;
        for (at, pair) in shown.windows(2).enumerate() {
            line += usize::from(pair[0] == b'\n');
            for needle in &self.by_pair[index([pair[0], pair[1]])] {
                let is_theirs = seen == Seen::ByClient && [DATA, DIGEST].contains(&&*needle.name);
                if shown[at..].starts_with(&needle.bytes) && !is_theirs {
                    found.push(format!("{} {} in line {line}", needle.name, needle.form));
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(shown: &[u8]) -> Vec<String> {
        Needles::of_table().find(Seen::ByAnybody, shown)
    }

    #[test]
    fn every_form_of_a_secret_is_found_with_its_line() {
        for (shown, form) in [
            ("b0bsecret".to_owned(), "in clear"),
            ("YjBic2VjcmV0".to_owned(), "in base64"),
            ("623062736563726574".to_owned(), "in hexadecimal"),
            (format!("{:?}", SASL_BOB.as_bytes()), "as numbers"),
        ] {
            let text = format!("one\ntwo password={shown}!\nthree");
            let expected = format!("the SASL password of bob {form} in line 2");
            assert_eq!(found(text.as_bytes()), [expected]);
        }
        let escaped = format!("{SASL_QUOTED:?}");
        assert_eq!(found(escaped.as_bytes()).len(), 1, "{escaped}");
        let escaped = format!("{:?}", bytes::Bytes::from(SASL_LATIN));
        assert_eq!(found(escaped.as_bytes()).len(), 1, "{escaped}");
        let twice = "b0bsecret\nwr0ngsecret";
        assert_eq!(found(twice.as_bytes()).len(), 2);
    }

    #[test]
    fn other_text_is_not_found_as_a_secret() {
        let text = "b0bsecre b0bSecret bob session=0x1000060 62306273 wr0ng\0secret";
        assert!(found(text.as_bytes()).is_empty());
        assert!(found(b"").is_empty());
    }

    #[test]
    fn znode_data_is_not_searched_for_secrets() {
        let needles = Needles::of_table();
        let shown = ZNODE_DATA.as_bytes();
        assert_eq!(needles.find(Seen::ByAnybody, shown).len(), 1);
        assert!(needles.find(Seen::ByClient, shown).is_empty());
    }

    /// Other threads measure the response time of a server.
    #[test]
    fn the_search_in_a_long_answer_does_not_block_others() {
        let needles = with_needles(|needles| needles.clone());
        let before = needles.learnt;
        learn("one that is learnt meanwhile", b"learnt-meanwhile");
        search("an answer", b"a short one");
        assert!(
            needles
                .find(Seen::ByAnybody, b"learnt-meanwhile")
                .is_empty()
        );
        assert_eq!(needles.learnt, before);
        assert!(with_needles(|needles| needles.learnt) > before);
    }

    #[test]
    fn secrets_created_by_a_test_are_searched() {
        learn("a session's password", &[1, 2, 0xfe, 4, 5, 6, 7]);
        let shown = std::panic::catch_unwind(|| {
            search("the log", b"a\npassword 0102fe04050607\n");
        });
        let said = *shown.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(
            said,
            "the log shows a session's password in hexadecimal in line 2"
        );
        search("the log", b"password 0102fe04050608");
    }
}
