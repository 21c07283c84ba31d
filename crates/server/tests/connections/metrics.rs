//! Tests of the metrics of requests.

use std::collections::BTreeMap;
use std::io::Read;

use crate::raw::{TestServer, create, op, path, put_buffer, set};

const WORDS: &str = "4lw.commands.whitelist=*\n";

/// Returns the answer to a four-letter word.
fn word(server: &TestServer, word: &str) -> String {
    let mut raw = server.connect();
    raw.send(word.as_bytes());
    let mut answer = String::new();
    raw.stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The output of `mntr` by name, without `zk_`.
struct Monitor(BTreeMap<String, String>);

impl Monitor {
    fn of(server: &TestServer) -> Self {
        Self::from(word(server, "mntr").as_str())
    }

    fn count(&self, name: &str) -> u64 {
        let figure = self.0.get(name).unwrap_or_else(|| panic!("no {name}"));
        figure.parse().unwrap()
    }
}

impl From<&str> for Monitor {
    fn from(text: &str) -> Self {
        let pairs = text.lines().filter_map(|line| line.split_once('\t'));
        Self(
            pairs
                .map(|(name, figure)| (name[3..].to_owned(), figure.to_owned()))
                .collect(),
        )
    }
}

/// Returns `lop=` of the connection with this session in `cons`.
fn last_operation(server: &TestServer, session: i64) -> String {
    let text = word(server, "cons");
    let line = text
        .lines()
        .find(|line| line.contains(&format!("sid={session:#x},")))
        .unwrap();
    let (_, behind) = line.split_once("lop=").unwrap();
    behind.split(',').next().unwrap().to_owned()
}

#[test]
fn each_request_is_counted_where_it_belongs() {
    let server = TestServer::start(WORDS);
    let mut raw = server.session();
    assert_eq!(raw.call(op::CREATE, &create("/app", b"12345", 0)).err, 0);
    assert_eq!(raw.call(op::SET_DATA, &set("/app", b"1")).err, 0);
    assert_eq!(raw.call(op::CREATE, &create("/app", b"", 0)).err, -110);
    assert_eq!(raw.call(op::GET_DATA, &path("/app")).err, 0);
    assert_eq!(raw.call(op::EXISTS, &path("/other")).err, -101);
    let told = Monitor::of(&server);
    let figures = [
        // createSession, two writes and a refused one.
        ("cnt_updatelatency", 4),
        ("cnt_readlatency", 2),
        ("cnt_propagation_latency", 4),
        ("prep_processor_request_queued", 4),
        ("cnt_prep_process_time", 4),
        ("cnt_prep_processor_queue_time_ms", 4),
        ("sync_processor_request_queued", 4),
        ("cnt_sync_process_time", 4),
        ("cnt_sync_processor_queue_time_ms", 4),
        ("cnt_sync_processor_queue_and_flush_time_ms", 4),
        ("cnt_app_write_per_namespace", 2),
        ("sum_app_write_per_namespace", (4 + 5) + (4 + 1)),
        ("cnt_app_read_per_namespace", 1),
        ("sum_app_read_per_namespace", 4 + 1 + 68),
        ("cnt_dbinittime", 1),
        ("cnt_startup_snap_load_time", 1),
        ("cnt_startup_txns_loaded", 0),
        ("connection_revalidate_count", 0),
        ("cnt_close_session_prep_time", 0),
    ];
    for (name, figure) in figures {
        assert_eq!(told.count(name), figure, "{name}");
    }
    let flushes = told.count("cnt_sync_processor_queue_flush_time_ms");
    assert_eq!(flushes, told.count("cnt_sync_processor_batch_size"));
    assert!(!told.0.contains_key("cnt_other_read_per_namespace"));

    assert_eq!(raw.call(op::CLOSE, &[]).err, 0);
    assert!(raw.is_closed_in_silence());
    let directory = server.stop();
    let server = TestServer::start_in(directory, WORDS);
    let told = Monitor::of(&server);
    assert_eq!(told.count("cnt_startup_txns_loaded"), 1);
    assert_eq!(told.count("sum_startup_txns_loaded"), 5);
}

/// A client that queries the metrics right after its reply finds its request among them.
#[test]
fn an_answered_request_is_counted_and_not_in_progress() {
    const WRITES: u64 = 400;
    let server = TestServer::start(WORDS);
    let mut raw = server.session();
    assert_eq!(raw.call(op::CREATE, &create("/app", b"", 0)).err, 0);
    for write in 1..=WRITES {
        // Connected before the write, so that only the word itself is between reply and answer.
        let mut asking = server.connect();
        assert_eq!(raw.call(op::SET_DATA, &set("/app", b"1")).err, 0);
        asking.send(b"mntr");
        let mut answer = String::new();
        asking.stream.read_to_string(&mut answer).unwrap();
        let told = Monitor::from(answer.as_str());
        // createSession and create came earlier.
        assert_eq!(told.count("cnt_updatelatency"), 2 + write);
        assert_eq!(told.count("outstanding_requests"), 0);
    }
}

#[test]
fn events_are_counted_by_their_kind() {
    let server = TestServer::start(WORDS);
    let (mut watcher, mut raw) = (server.session(), server.session());
    let watch = |path: &str| {
        let mut record = Vec::new();
        put_buffer(&mut record, path.as_bytes());
        record.push(1);
        record
    };
    watcher.call(op::EXISTS, &watch("/w"));
    raw.call(op::CREATE, &create("/w", b"", 0));
    assert!(watcher.frame().is_some());
    watcher.call(op::GET_DATA, &watch("/w"));
    raw.call(op::GET_DATA, &watch("/w"));
    raw.request(op::SET_DATA, &set("/w", b"1"));
    // The connection receives its own event, then the reply.
    assert!(raw.frame().is_some() && raw.frame().is_some());
    assert!(watcher.frame().is_some());
    let told = Monitor::of(&server);
    let figures = [
        ("cnt_node_created_watch_count", 1),
        ("sum_node_created_watch_count", 1),
        ("cnt_node_changed_watch_count", 1),
        ("sum_node_changed_watch_count", 2),
        ("cnt_node_deleted_watch_count", 0),
    ];
    for (name, figure) in figures {
        assert_eq!(told.count(name), figure, "{name}");
    }
}

#[test]
fn connections_are_told_apart_by_how_they_end() {
    let server = TestServer::start(WORDS);
    let mut closing = server.session();
    assert_eq!(closing.call(op::CLOSE, &[]).err, 0);
    assert!(closing.is_closed_in_silence());
    let lost = server.session();
    let (session, password) = (lost.session, lost.password.clone());
    drop(lost);
    let dropped = || Monitor::of(&server).count("connection_drop_count") == 1;
    // Counted as soon as the server has read the end of the stream.
    assert!((0..10_000).any(|_| dropped()));
    let mut again = server.connect();
    assert_eq!(again.handshake(session, &password), session);
    let told = Monitor::of(&server);
    assert_eq!(told.count("connection_revalidate_count"), 1);
    assert_eq!(told.count("cnt_close_session_prep_time"), 1);
    assert_eq!(told.count("connection_drop_count"), 1);
}

#[test]
fn requests_above_a_quota_are_counted_by_namespace() {
    let server = TestServer::start(&format!("{WORDS}enforceQuota=true\n"));
    let mut raw = server.session();
    assert_eq!(raw.call(op::CREATE, &create("/app", b"", 0)).err, 0);
    let limits = "/zookeeper/quota/app";
    assert_eq!(raw.call(op::CREATE, &create(limits, b"", 0)).err, 0);
    for (name, data) in [
        (
            "zookeeper_limits",
            &b"count=-1,bytes=-1=;byteHardLimit=10;countHardLimit=-1"[..],
        ),
        ("zookeeper_stats", b"count=1,bytes=0"),
    ] {
        let request = create(&format!("{limits}/{name}"), data, 0);
        assert_eq!(raw.call(op::CREATE, &request).err, 0);
    }
    assert_eq!(raw.call(op::SET_DATA, &set("/app", &[0; 11])).err, -125);
    assert_eq!(raw.call(op::SET_DATA, &set("/app", &[0; 9])).err, 0);
    let told = Monitor::of(&server);
    assert_eq!(told.count("app_quota_exceeded_error_per_namespace"), 1);
}

#[test]
fn cons_names_the_operation_that_was_carried_out_last() {
    let server = TestServer::start(WORDS);
    let mut raw = server.session();
    let session = raw.session;
    assert_eq!(last_operation(&server, session), "SESS");
    raw.call(op::CREATE, &create("/a", b"", 0));
    assert_eq!(last_operation(&server, session), "CREA");
    assert_eq!(raw.call(op::CREATE, &create("/a", b"", 0)).err, -110);
    assert_eq!(last_operation(&server, session), "NA");
    assert_eq!(raw.call(op::EXISTS, &path("/none")).err, -101);
    assert_eq!(last_operation(&server, session), "EXIS");
    let mut ip = Vec::from(0i32.to_be_bytes());
    put_buffer(&mut ip, b"ip");
    put_buffer(&mut ip, b"");
    assert_eq!(raw.call(op::AUTH, &ip).err, 0);
    assert_eq!(last_operation(&server, session), "EXIS");
    let mut count = Vec::new();
    put_buffer(&mut count, b"/");
    assert_eq!(raw.call(ALL_CHILDREN_NUMBER, &count).err, 0);
    assert_eq!(last_operation(&server, session), "GETACN");
}

/// The opcode of getAllChildrenNumber.
const ALL_CHILDREN_NUMBER: i32 = 104;

#[test]
fn clients_of_another_ensemble_are_closed_in_silence() {
    let provider = "org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider";
    let server = TestServer::start(&format!(
        "{WORDS}authProvider.1={provider}\nensembleAuthName=blue,green\n"
    ));
    let mut outcomes = Vec::new();
    for name in [&b"green"[..], b"", b"red"] {
        let mut raw = server.session();
        let mut packet = Vec::from(0i32.to_be_bytes());
        put_buffer(&mut packet, b"ensemble");
        put_buffer(&mut packet, name);
        raw.request(op::AUTH, &packet);
        outcomes.push(raw.reply().map(|reply| reply.err));
    }
    assert_eq!(outcomes, [Some(0), Some(0), None]);
    let told = Monitor::of(&server);
    for outcome in ["success", "skip", "fail"] {
        assert_eq!(told.count(&format!("ensemble_auth_{outcome}")), 1);
    }
}

/// A client that sees the end of a connection may query the count immediately. The connection must
/// not be counted any more.
#[test]
fn a_connection_that_has_ended_is_not_counted() {
    // The session is silent, and must not expire while a busy machine runs the test.
    let server = TestServer::start(&format!(
        "{WORDS}minSessionTimeout=60000\nmaxSessionTimeout=60000\n"
    ));
    let _session = server.session();
    for _ in 0..500 {
        let told = Monitor::of(&server);
        assert_eq!(
            told.count("num_alive_connections"),
            2,
            "one and that of the word"
        );
    }
    for _ in 0..100 {
        let mut refused = server.connect();
        assert_eq!(refused.handshake(7, &[0; 16]), 0);
        assert_eq!(refused.stream.read(&mut [0]).unwrap(), 0);
        let told = Monitor::of(&server);
        assert_eq!(
            told.count("num_alive_connections"),
            2,
            "one and that of the word"
        );
    }
}

#[test]
fn pauses_are_looked_for_where_that_is_switched_on() {
    let server = TestServer::start(&format!(
        "{WORDS}jvm.pause.monitor=true\njvm.pause.sleep.time.ms=1\n"
    ));
    while Monitor::of(&server).count("cnt_jvm_pause_time_ms") == 0 {
        std::thread::yield_now();
    }
    let without = TestServer::start(WORDS);
    assert_eq!(Monitor::of(&without).count("cnt_jvm_pause_time_ms"), 0);
}
