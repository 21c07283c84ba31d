//! The end of a session whose list of ephemerals is too long for one record of the log.
//!
//! Apache ZooKeeper logs the list nevertheless, and then refuses its own log (ZOOKEEPER-4306).

use proto::request::Request;
use tests::requests::create;
use tests::{Flavour, Missing, RawSession, ServerBuilder, or_skip};

use crate::round_trip::check_digests;
use crate::state::{State, TIMEOUT_MS, builder};

/// Maximum size of a record in bytes.
const MAX_BUFFER: usize = 4096;
const EXTRA_SIZE: usize = 1024;
/// The total length of the paths is more than twice as large.
const EPHEMERALS: usize = 150;
const NAME: &str = "/an-ephemeral-with-a-name-of-some-length-and-a-number-";

fn limited(flavour: Flavour) -> ServerBuilder {
    builder(flavour)
        .property("jute.maxbuffer", &MAX_BUFFER.to_string())
        .property(
            "zookeeper.jute.maxbuffer.extrasize",
            &EXTRA_SIZE.to_string(),
        )
}

fn session(address: &str) -> RawSession {
    RawSession::open(address, None, TIMEOUT_MS).expect("a session")
}

fn write(session: &mut RawSession, path: &str, flags: i32) {
    let answer = session.call(&Request::Write(create(path, "", flags)));
    assert_eq!(answer.expect("an answer").err, 0, "{path}");
}

#[test]
#[ignore = "runs other people's programs"]
fn both_servers_replay_a_close_session_without_its_list() {
    const { assert!(EPHEMERALS * NAME.len() > MAX_BUFFER + EXTRA_SIZE) };
    let dir = tempfile::tempdir().expect("a directory");
    let start = |flavour| limited(flavour).data_dir(dir.path()).start();
    let mut server = start(Flavour::Zoarium).expect("our server");
    let mut others = session(&server.address());
    write(&mut others, "/others", 1);
    let mut ending = session(&server.address());
    for number in 0..EPHEMERALS {
        write(&mut ending, &format!("{NAME}{number}"), 1);
    }
    ending.close().expect("the end of a session");
    write(&mut others, "/after", 0);
    let written = State::of(&server, true);
    let paths = written.dump().znodes.keys();
    assert_eq!(paths.filter(|path| path.starts_with("/an-")).count(), 0);

    server.crash_and_restart();
    let replayed = State::of(&server, true);
    check_digests(&server);
    replayed.assert_same(&written, "Zoarium's own log");
    server.kill();

    let in_java = || -> Result<(), Missing> {
        let server = start(Flavour::Apache)?;
        State::of(&server, true).assert_same(&replayed, "Zoarium's log in Java");
        check_digests(&server);
        Ok(())
    };
    or_skip("Zoarium's log in Java", in_java());
}
