//! Comparison of answers as text.

use super::*;

#[test]
fn srvr_prints_version_figures_and_mode() {
    let view = fake(Some(Mode::Standalone));
    view.stats.packets_received(147);
    view.stats.packets_sent(150);
    [0, 1, 2]
        .into_iter()
        .for_each(|ms| view.stats.read_answered(ms));
    view.stats.update_answered(67);
    let rest = "\
Latency min/avg/max: 0/17.5/67
Received: 147
Sent: 150
Connections: 2
Outstanding: 0
Zxid: 0x31
Mode: standalone
Node count: 12
";
    assert_eq!(
        ask(Word::Srvr, &view),
        format!("Zookeeper version: {}\n{rest}", version::FULL)
    );
}

#[test]
fn srvr_has_an_additional_line_at_the_leader_and_in_read_only_mode() {
    let text = ask(Word::Srvr, &fake(Some(leader())));
    assert!(
        text.ends_with("Node count: 12\nProposal sizes last/min/max: 94/48/94\n"),
        "{text}"
    );
    let text = ask(Word::Srvr, &fake(Some(Mode::ReadOnly)));
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[1], "READ-ONLY mode; serving only read-only clients");
    assert_eq!(
        lines[7..],
        ["Zxid: 0x31", "Mode: read-only", "Node count: 12"]
    );
}

#[test]
fn stat_lists_clients_between_version_and_figures() {
    let text = ask(Word::Stat, &fake(Some(Mode::Standalone)));
    let clients = "\
Clients:
 /127.0.0.1:48818[0](queued=0,recved=1,sent=0)
 /127.0.0.1:48800[1](queued=0,recved=1,sent=1)

Latency min/avg/max: 0/0.0/0
";
    assert!(text.contains(clients), "{text}");
}

#[test]
fn cons_prints_more_for_connections_with_a_session() {
    let mut view = fake(Some(Mode::Standalone));
    assert_eq!(
        ask(Word::Cons, &view),
        " /127.0.0.1:48818[0](queued=0,recved=1,sent=0)\n \
         /127.0.0.1:48800[1](queued=0,recved=1,sent=1,sid=0x100000f53f00002,lop=GETC,\
         est=1795296237648,to=30000,lcxid=0x4,lzxid=0x31,lresp=8000,llat=28,minlat=0,avglat=28,\
         maxlat=28)\n\n"
    );

    let stats = ConnectionStats::new(5);
    stats.reset();
    view.connections = vec![ConnectionInfo {
        figures: stats.get(),
        ..view.connections[1]
    }];
    assert_eq!(
        ask(Word::Cons, &view),
        " /127.0.0.1:48800[1](queued=0,recved=0,sent=0,sid=0x100000f53f00002,lop=NA,est=5,\
         to=30000,lzxid=0xffffffffffffffff,lresp=0,llat=0,minlat=0,avglat=0,maxlat=0)\n\n"
    );
}

#[test]
fn conf_of_a_standalone_server() {
    let text = "\
clientPort=2181
secureClientPort=-1
dataDir=/data/version-2
dataDirSize=600
dataLogDir=/log/version-2
dataLogSize=67109358
tickTime=2000
maxClientCnxns=60
minSessionTimeout=4000
maxSessionTimeout=40000
clientPortListenBacklog=-1
serverId=0
";
    assert_eq!(ask(Word::Conf, &fake(Some(Mode::Standalone))), text);
}

#[test]
fn conf_of_a_member_ends_with_the_membership_unless_read_only() {
    let member = MemberConfiguration {
        init_limit: 10,
        sync_limit: 5,
        election_alg: 3,
        election_ports: vec![3911, 3921],
        quorum_ports: vec![2911],
        observer: true,
        membership: "server.1=h:1:2:participant;0.0.0.0:3\nversion=100000000".to_owned(),
    };
    let fields = "serverId=0\ninitLimit=10\nsyncLimit=5\nelectionAlg=3\n\
                  electionPort=3911|3921\nquorumPort=2911\npeerType=1\n";
    let mut view = fake(Some(observer()));
    view.member = Some(member);
    let membership = "membership: \nserver.1=h:1:2:participant;0.0.0.0:3\nversion=100000000";
    assert!(ask(Word::Conf, &view).ends_with(&format!("{fields}{membership}")));

    view.mode = Some(Mode::ReadOnly);
    assert!(ask(Word::Conf, &view).ends_with(fields));
}

#[test]
fn dump_lists_sessions_ephemerals_and_connections() {
    let text = "\
SessionTracker dump:
Session Sets (2)/(1):
0 expire at Sat Nov 21 21:24:27 UTC 2026:
1 expire at Sat Nov 21 21:24:29 UTC 2026:
\t0x100000f53f00002
ephemeral nodes dump:
Sessions with Ephemerals (1):
0x100000f53f00002:
\t/live/eph
Connections dump:
Connections Sets (1)/(1):
1 expire at Sat Nov 21 21:24:30 UTC 2026:
\tip: /127.0.0.1:48800 sessionId: 0x100000f53f00002
";
    assert_eq!(ask(Word::Dump, &fake(Some(Mode::Standalone))), text);
}

#[test]
fn dump_distinguishes_local_and_global_sessions() {
    let mut view = fake(Some(follower(None)));
    view.expiry = None;
    let none = ExpirySets { sets: Vec::new() };
    view.sessions = Sessions {
        local: Some(none.clone()),
        global: GlobalSessions::Known(vec![(SESSION, 4000)]),
    };
    let text = ask(Word::Dump, &view);
    let learner = "SessionTracker dump:\nLocal Session Sets (0)/(0):\nGlobal Sessions(1):\n\
                   0x100000f53f00002\t4000ms\nephemeral nodes dump:\n";
    assert!(text.starts_with(learner), "{text}");
    assert!(text.ends_with("Connections dump:\n"), "{text}");

    view.mode = Some(leader());
    view.sessions = Sessions {
        local: Some(none.clone()),
        global: GlobalSessions::Expired(none),
    };
    let text = ask(Word::Dump, &view);
    assert!(
        text.contains("Local Session Sets (0)/(0):\nGlobal Session Sets (0)/(0):\n"),
        "{text}"
    );
}

#[test]
fn listings_have_their_shape() {
    let view = fake(Some(Mode::Standalone));
    for (word, text) in [
        (Word::Dirs, "datadir_size: 600\nlogdir_size: 67109358\n"),
        (
            Word::Wchs,
            "2 connections watching 3 paths\nTotal watches:4\n",
        ),
        (Word::Wchc, "0x100000f53f00002\n\t/live\n\t/other\n\n"),
        (Word::Wchp, "/live\n\t0x100000f53f00002\n\n"),
        (Word::Hash, "80: 8046098329\n100: -5\n"),
        (Word::Ruok, "imok"),
        (Word::Isro, "rw"),
        (Word::Gtmk, "306"),
    ] {
        assert_eq!(ask(word, &view), text);
    }
    assert_eq!(ask(Word::Isro, &fake(Some(Mode::ReadOnly))), "ro");
}

#[test]
fn stmk_sets_a_complete_mask() {
    let view = fake(None);
    assert_eq!(answer(Word::Stmk, &(-2_i64).to_be_bytes(), &view), "-2");
    assert_eq!(ask(Word::Gtmk, &view), "-2");
    assert_eq!(answer(Word::Stmk, &[0, 0], &view), "");
    assert_eq!(view.trace_mask.get(), -2);
}

#[test]
fn a_server_without_service_reports_it() {
    let view = fake(None);
    for word in Word::ALL {
        let text = ask(*word, &view);
        match word {
            Word::Ruok => assert_eq!(text, "imok"),
            Word::Gtmk => assert_eq!(text, "306"),
            Word::Envi => {
                assert!(text.starts_with("Environment:\nzookeeper.version="));
                assert!(text.ends_with("MB\n"));
            }
            Word::Stmk | Word::TelnetClose => assert_eq!(text, ""),
            Word::Isro => assert_eq!(text, "null"),
            Word::Hash => assert_eq!(text, NOT_SERVING),
            _ => assert_eq!(text, format!("{NOT_SERVING}\n"), "{}", word.text()),
        }
    }
    assert!(view.calls.borrow().is_empty());
}

#[test]
fn reset_words_reset_their_counters() {
    let view = fake(Some(leader()));
    view.stats.packets_received(3);
    view.metrics.commit_count.inc();
    assert_eq!(ask(Word::Srst, &view), "Server stats reset.\n");
    assert_eq!(view.stats.get(0).packets_received, 0);
    assert_eq!(view.metrics.commit_count.get(), 0);
    assert_eq!(ask(Word::Crst, &view), "Connection stats reset.\n");
    assert_eq!(
        *view.calls.borrow(),
        ["reset proposal sizes", "reset connections"]
    );
}

#[test]
fn a_refusal_names_the_word() {
    let text = "cons is not executed because it is not in the whitelist.\n";
    assert_eq!(refusal(Word::Cons), text);
    let text = "telnet close is not executed because it is not in the whitelist.\n";
    assert_eq!(refusal(Word::TelnetClose), text);
}
