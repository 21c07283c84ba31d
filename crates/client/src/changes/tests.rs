use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::*;

/// Time limit of a step on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Admin server that answers each connection with the next answer of a list, and records the
/// requests.
struct Scripted {
    address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    async fn start(answers: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let notes = requests.clone();
        tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let head = String::from_utf8(head).unwrap();
                let target = head.split(' ').nth(1).unwrap();
                notes.lock().await.push(target.to_owned());
                // The reader may already have closed the connection.
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        Self { address, requests }
    }
}

fn change(position: &str) -> String {
    format!(
        "{{\"position\":\"{position}\",\"path\":\"/a\",\"operation\":\"set\",\"session\":\"0x9\",\
         \"version\":3,\"data\":{{\"size\":2,\"base64\":\"aGk=\"}}}}\n"
    )
}

fn progress(position: &str) -> String {
    format!("{{\"progress\":\"{position}\",\"hidden\":0}}\n")
}

/// Returns an answer whose connection breaks after these lines.
fn feed(lines: &[String]) -> String {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\n\
                transfer-encoding: chunked\r\n\r\n";
    let chunks = lines
        .iter()
        .map(|line| format!("{:x}\r\n{line}\r\n", line.len()));
    head.to_owned() + &chunks.collect::<String>()
}

fn refusal(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn follow(servers: &[&Scripted], start: Start) -> Changes {
    let list: Vec<&str> = servers.iter().map(|server| &*server.address).collect();
    Changes::new(ChangeOptions::new(&list.join(","), "/a").with_start(start))
}

async fn positions(changes: &mut Changes, count: usize) -> Vec<String> {
    let mut found = Vec::new();
    for _ in 0..count {
        let change = timeout(LIMIT, changes.next()).await.unwrap().unwrap();
        found.push(change.position().to_string());
    }
    found
}

#[tokio::test]
async fn a_feed_resumes_at_another_member() {
    // The first server closes the connection after half of a line.
    let cut = change("0x3.0")[..20].to_owned();
    let one = Scripted::start(vec![feed(&[
        progress("0x0"),
        change("0x1.0"),
        change("0x1.1"),
        cut,
    ])])
    .await;
    // The second server repeats a change, which is an error. The reader tries the next server.
    let two = Scripted::start(vec![feed(&[change("0x1.1"), change("0x1.2")])]).await;
    let three = Scripted::start(vec![feed(&[
        change("0x1.2"),
        progress("0x7"),
        change("0x8.0"),
    ])])
    .await;
    let mut changes = follow(&[&one, &two, &three], Start::From(Zxid(1)));
    let found = positions(&mut changes, 4).await;
    assert_eq!(found, ["0x1.0", "0x1.1", "0x1.2", "0x8.0"]);
    assert_eq!(changes.position().unwrap().to_string(), "0x8.0");
    let requests = |server: &Scripted| server.requests.clone();
    assert_eq!(
        *requests(&one).lock().await,
        ["/commands/history/feed?path=%2Fa&from=0x1"]
    );
    for server in [&two, &three] {
        let expected = "/commands/history/feed?path=%2Fa&after=0x1.1";
        assert_eq!(*requests(server).lock().await, [expected]);
    }
}

#[tokio::test]
async fn a_change_is_parsed_from_its_line() {
    let server = Scripted::start(vec![feed(&[change("0x1.0")])]).await;
    let mut changes = follow(&[&server], Start::Now);
    let change = timeout(LIMIT, changes.next()).await.unwrap().unwrap();
    assert_eq!((change.path(), change.operation()), ("/a", "set"));
    assert_eq!((change.session().0, change.version()), (9, 3));
    assert_eq!(change.data(), ChangeData::Bytes("hi".into()));
    assert!(change.line().ends_with(b"}\n"));
    assert_eq!(change.json()["data"]["size"], 2);
}

#[tokio::test]
async fn removed_changes_are_an_error_with_the_next_position() {
    let gone = |zxid: &str| {
        refusal(
            "410 Gone",
            &format!("{{\"error\":\"gone\",\"resume_after\":\"{zxid}\"}}"),
        )
    };
    let one = Scripted::start(vec![gone("0x50"), gone("0x50")]).await;
    let two = Scripted::start(vec![gone("0x40"), feed(&[change("0x41.0")])]).await;
    let mut changes = follow(&[&one, &two], Start::From(Zxid(2)));
    let error = timeout(LIMIT, changes.next()).await.unwrap().unwrap_err();
    let ChangesError::NotKept { resume_after, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(resume_after.to_string(), "0x40");
    // One server that keeps the change is enough.
    assert_eq!(positions(&mut changes, 1).await, ["0x41.0"]);
}

#[tokio::test]
async fn a_feed_that_ends_before_a_hole_counts_as_not_kept_and_moves_on() {
    let gone = || refusal("410 Gone", "{\"error\":\"gone\",\"resume_after\":\"0x50\"}");
    let end = "{\"end\":{\"reason\":\"hole\",\"text\":\"a gap\",\"position\":\"0x15\",\
               \"resume_after\":\"0x30\"}}\n";
    let one = Scripted::start(vec![feed(&[progress("0x1"), end.to_owned()])]).await;
    let two = Scripted::start(vec![gone(), feed(&[change("0x31.0")])]).await;
    let start = Start::After(Position::parse("0x1").unwrap());
    let mut changes = follow(&[&one, &two], start);
    let error = timeout(LIMIT, changes.next()).await.unwrap().unwrap_err();
    let ChangesError::NotKept { resume_after, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(resume_after.to_string(), "0x30");
    assert_eq!(
        *two.requests.lock().await,
        ["/commands/history/feed?path=%2Fa&after=0x15"]
    );
}

#[tokio::test]
async fn a_lagging_member_is_not_followed() {
    let lagging = "{\"progress\":\"0x50\",\"head\":\"0x41\",\"hidden\":0}\n".to_owned();
    let one = Scripted::start(vec![feed(&[lagging])]).await;
    let current = "{\"progress\":\"0x50\",\"head\":\"0x50\",\"hidden\":0}\n".to_owned();
    let two = Scripted::start(vec![feed(&[current, change("0x51.0")])]).await;
    let start = Start::After(Position::parse("0x50").unwrap());
    let mut changes = follow(&[&one, &two], start);
    let event = timeout(LIMIT, changes.next_event()).await.unwrap().unwrap();
    let ChangesEvent::Lost(error) = event else {
        panic!("{event:?}");
    };
    let text = "its last transaction 0x41 is before the position 0x50 of the feed";
    assert!(error.to_string().ends_with(text), "{error}");
    assert_eq!(positions(&mut changes, 1).await, ["0x51.0"]);
}

#[tokio::test]
async fn a_feed_without_any_usable_member_ends_with_an_error() {
    let off = "{\"command\":\"history/feed\",\"error\":\"Unknown command: history/feed\"}";
    let one = Scripted::start(vec![refusal("200 OK", off)]).await;
    let two = Scripted::start(vec![refusal("200 OK", off)]).await;
    let mut changes = follow(&[&one, &two], Start::Now);
    let error = timeout(LIMIT, changes.next()).await.unwrap().unwrap_err();
    assert!(matches!(error, ChangesError::NoHistory { .. }), "{error}");

    // This server acts like a client port, which closes the connection because the request is not a
    // frame.
    let client_port = Scripted::start(vec![String::new()]).await;
    // A bound socket that does not listen refuses connections, and nothing else can use its port.
    let nobody = TcpSocket::new_v4().unwrap();
    nobody.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = nobody.local_addr().unwrap().to_string();
    let servers = format!("{},{address}", client_port.address);
    let options = ChangeOptions::new(&servers, "/a").with_failure_limit(Some(Duration::ZERO));
    let mut changes = Changes::new(options);
    let event = timeout(LIMIT, changes.next_event()).await.unwrap().unwrap();
    let ChangesEvent::Lost(error) = event else {
        panic!("{event:?}");
    };
    assert!(
        error.to_string().contains("may not be an admin port"),
        "{error}"
    );
    let error = timeout(LIMIT, changes.next()).await.unwrap().unwrap_err();
    let ChangesError::Unreachable { last } = &error else {
        panic!("{error}");
    };
    assert!(last.to_string().starts_with(&address), "{last}");
}

#[tokio::test]
async fn a_refusal_common_to_all_members_is_not_retried() {
    let no = refusal("401 Unauthorized", "{\"error\":\"who are you\"}");
    let one = Scripted::start(vec![no]).await;
    let two = Scripted::start(Vec::new()).await;
    let mut changes = follow(&[&one, &two], Start::Now);
    let error = timeout(LIMIT, changes.next()).await.unwrap().unwrap_err();
    assert!(matches!(error, ChangesError::Refused(_)), "{error}");
    assert!(error.to_string().contains("who are you"), "{error}");
    let mut nobody = Changes::new(ChangeOptions::new(" ,", "/"));
    let error = nobody.next().await.unwrap_err();
    assert!(matches!(error, ChangesError::NoServers), "{error}");
}

#[tokio::test]
async fn rubbish_and_ends_of_feeds_are_losses_with_a_reason() {
    let end = "{\"end\":{\"reason\":\"slow\",\"text\":\"too slow\"}}\n".to_owned();
    let other = refusal("200 OK", "{\"error\":\"This server is not serving\"}");
    let incomplete = "{\"position\":\"0x5.0\",\"path\":\"/a\"}\n".to_owned();
    let answers = [
        feed(&[end]),
        other,
        feed(&["rubbish\n".into()]),
        feed(&[incomplete]),
    ];
    let reasons = [
        "too slow",
        "not serving",
        "sent an invalid line",
        "\"operation\"",
    ];
    let server = Scripted::start(answers.to_vec()).await;
    let mut changes = follow(&[&server], Start::Now);
    for reason in reasons {
        let event = timeout(LIMIT, changes.next_event()).await.unwrap().unwrap();
        let ChangesEvent::Lost(error) = event else {
            panic!("{event:?}");
        };
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn a_line_is_bounded_and_assembled_from_any_pieces() {
    let text = change("0x1.0") + &progress("0x1") + &change("0x2.0");
    for size in [1, 7, 64, 4096] {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        for piece in text.as_bytes().chunks(size) {
            lines.put(piece);
            while let Some(line) = lines.next(None).unwrap() {
                found.push(line.position().unwrap().to_string());
            }
        }
        assert_eq!(found, ["0x1.0", "0x1", "0x2.0"], "{size}");
    }
    let mut lines = Lines::default();
    for _ in 0..=crate::limits::LINE_BYTES_MAX >> 20 {
        lines.put(&vec![b' '; 1 << 20]);
    }
    assert!(lines.next(None).unwrap_err().contains("more than"));
}

#[test]
fn debug_output_contains_no_password() {
    let options = ChangeOptions::new("a:1", "/").with_authorization("digest ann:secret");
    let text = format!("{options:?} {:?}", Changes::new(options.clone()));
    assert!(!text.contains("secret"), "{text}");
}

/// Starts an admin server that accepts one connection and sends the answers of a channel.
async fn slow() -> (String, tokio::sync::mpsc::UnboundedSender<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, mut answers) = tokio::sync::mpsc::unbounded_channel::<String>();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        while let Some(answer) = answers.recv().await {
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        // The connection stays open. The reader must detect the silence by itself.
        std::future::pending::<()>().await;
    });
    (address, sender)
}

#[tokio::test]
async fn dropped_calls_continue_on_one_connection_and_detect_its_silence() {
    let (address, answers) = slow().await;
    let options = ChangeOptions::new(&address, "/a");
    let mut changes = Changes::new(options);
    // The server does not accept a second connection.
    for _ in 0..50 {
        let waited = timeout(Duration::from_millis(2), changes.next()).await;
        assert!(waited.is_err(), "{waited:?}");
    }
    answers.send(feed(&[change("0x1.0")])).unwrap();
    assert_eq!(positions(&mut changes, 1).await, ["0x1.0"]);
    tokio::time::pause();
    let mut calls = 0;
    let event = loop {
        calls += 1;
        match timeout(SILENCE_LIMIT / 10, changes.next_event()).await {
            Ok(event) => break event.unwrap(),
            Err(_) => assert!(calls < 20, "nobody has noticed"),
        }
    };
    assert!(matches!(event, ChangesEvent::Lost(_)), "{event:?}");
    assert!(calls > 5, "given up after {calls}");
}

/// The future of a feed must be `Send`, because a runtime with several threads moves tasks between
/// them.
#[tokio::test]
async fn a_feed_may_be_followed_by_a_task() {
    let options = ChangeOptions::new("", "/");
    let task = tokio::spawn(async move { Changes::new(options).next().await });
    let ended = timeout(LIMIT, task).await.unwrap().unwrap();
    assert!(matches!(ended, Err(ChangesError::NoServers)), "{ended:?}");
}
