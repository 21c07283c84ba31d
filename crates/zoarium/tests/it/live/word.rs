//! Four-letter words from the command line.

use crate::support::{RunningServer, stderr, stdout, zoarium};

#[test]
fn a_word_is_answered_and_its_refusal_too() {
    let server = RunningServer::start();
    let answer = zoarium(["word", &server.address, "srvr"]);
    assert!(answer.status.success(), "{}", stderr(&answer));
    assert!(
        stdout(&answer).contains("Mode: standalone"),
        "{}",
        stdout(&answer)
    );
    let refused = zoarium(["word", &server.address, "mntr"]);
    assert_eq!(refused.status.code(), Some(5), "{}", stdout(&refused));
    let expected = "mntr is not executed because it is not in the whitelist";
    assert!(stderr(&refused).contains(expected) && stdout(&refused).is_empty());
}

#[test]
fn a_closed_port_and_a_silent_server_are_failures() {
    let server = RunningServer::start();
    let unknown = zoarium(["word", &server.address, "abcd"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(!stderr(&unknown).is_empty() && stdout(&unknown).is_empty());
    let nobody = zoarium(["word", "127.0.0.1:1", "ruok"]);
    assert_eq!(nobody.status.code(), Some(7));
    assert!(
        stderr(&nobody).contains("127.0.0.1:1: "),
        "{}",
        stderr(&nobody)
    );
}
