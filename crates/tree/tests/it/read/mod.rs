//! Tests of reads and the permissions they need. The number in a name is a row of the checklist
//! that these tests were written from.

mod search;

use crate::common::host::*;
use jute::{Decode, Encode, Reader, Str};
use proto::multi::MultiRead;
use proto::request::{PathRequest, PathWatchRequest, ReadRequest, SetWatchesRequest, flags};
use proto::response::ClientInfo;
use proto::{Acl, SessionId, Stat};
use zoarium_tree::{Caller, ReadFailure};

fn path_request(path: Option<&str>) -> PathRequest {
    PathRequest {
        path: path.map(Into::into),
    }
}

fn names(body: Vec<u8>) -> Vec<Str> {
    let mut names: Vec<Str> = Vec::decode(&mut Reader::new(body)).unwrap();
    names.sort();
    names
}

/// Returns reads of one tree whose answers differ in length.
fn reads_of_lengths(host: &mut Host) -> Vec<ReadRequest> {
    host.write(create_data("/data", &"x".repeat(500)));
    for number in 0..30 {
        host.write(create_flags(
            &format!("/data/{number:09}"),
            flags::EPHEMERAL,
        ));
    }
    let acl: Vec<Acl> = (1..32)
        .map(|perms| Acl::new(perms, "world", "anyone"))
        .collect();
    host.write(create_acl("/data/acl", &acl));
    let of_data = |watch| PathWatchRequest {
        path: Some("/data".into()),
        watch,
    };
    let in_multi = [of_data(true), of_data(false)].map(ReadRequest::GetData);
    let mut in_multi = in_multi.to_vec();
    in_multi.push(ReadRequest::GetChildren(of_data(true)));
    vec![
        ReadRequest::GetData(of_data(true)),
        ReadRequest::GetChildren(of_data(true)),
        ReadRequest::GetChildren2(of_data(true)),
        get_acl("/data/acl"),
        ReadRequest::GetEphemerals(path_request(Some("/data"))),
        ReadRequest::MultiRead(MultiRead::Reads(in_multi)),
    ]
}

#[test]
fn a_read_without_room_only_reports_its_size() {
    let mut host = Host::new();
    for request in reads_of_lengths(&mut host) {
        let caller = Caller {
            session: host.session,
            watcher: host.watcher,
            identities: &host.identities,
        };
        let before = b"before".to_vec();
        let within = |room| {
            let mut out = before.clone();
            let watches = parking_lot::Mutex::default();
            let answered = host
                .tree
                .read_within(room, &request, &caller, &watches, &mut out);
            let is_watched = !watches.lock().is_empty();
            (answered, out.split_off(before.len()), is_watched)
        };
        let (answered, whole, is_watched) = within(usize::MAX);
        assert_eq!(answered, Ok(()), "{request:?}");
        for room in [0, 5, 100, whole.len() - 100] {
            let (refused, out, leaves_watch) = within(room);
            let Err(ReadFailure::TooLong { bytes }) = refused else {
                panic!("{request:?} within {room}: {refused:?}")
            };
            assert!(
                (whole.len()..whole.len() + 100).contains(&bytes),
                "{request:?}: {bytes}"
            );
            assert!(out.is_empty() && !leaves_watch, "{request:?}");
            assert_eq!(within(bytes), (Ok(()), whole.clone(), is_watched));
        }
    }
}

#[test]
fn a_multi_read_has_a_maximum_reply_size() {
    let mut host = Host::new();
    let max = host.tree.multi_read_bytes_max();
    host.write(create_data("/mega", &"x".repeat(1_000_000)));
    let times = |times| {
        let read = get("/mega", false);
        ReadRequest::MultiRead(MultiRead::Reads(vec![read; times]))
    };
    let longest = max / 1_000_100;
    assert_eq!(longest, 4);
    assert!(host.read(times(longest)).unwrap().len() <= max);
    for too_many in [longest + 1, 40_000] {
        assert_eq!(host.read(times(too_many)), Err(-8));
    }
}

#[test]
fn rows_137_to_142_paths_of_reads_are_not_validated() {
    let mut host = Host::new();
    host.write(create("/a"));
    for missing in ["foo", "/a/", "//a", "/missing", "a", "/a//", "/./a"] {
        for read in [
            get(missing, false),
            exists(missing, false),
            children(missing, false),
            get_acl(missing),
        ] {
            assert_eq!(host.read(read), Err(-101), "{missing}");
        }
    }
    assert_eq!(host.read(get("", false)), host.read(get("/", false)));
    assert_eq!(host.read(exists("/a\0", false)), Err(-8));
    assert_eq!(host.read(get("/a\0", false)), Err(-101));
    let null = PathWatchRequest {
        path: None,
        watch: true,
    };
    for read in [
        ReadRequest::Exists(null.clone()),
        ReadRequest::GetData(null.clone()),
        ReadRequest::GetChildren(null.clone()),
        ReadRequest::GetChildren2(null),
        ReadRequest::GetAcl(path_request(None)),
        ReadRequest::GetAllChildrenNumber(path_request(None)),
    ] {
        assert_eq!(host.read(read), Err(-5));
    }
    assert!(host.watches.lock().is_empty());
}

#[test]
fn rows_143_149_and_184_reads_need_read() {
    let mut host = Host::new();
    host.write(create_acl(
        "/closed",
        &[Acl::new(31 & !1, "world", "anyone")],
    ));
    for read in [
        exists("/closed", true),
        get("/closed", true),
        children("/closed", true),
        ReadRequest::GetAllChildrenNumber(path_request(Some("/closed"))),
    ] {
        assert_eq!(host.read(read), Err(-102));
    }
    assert!(host.watches.lock().is_empty());
    host.identities.push(id("super", ""));
    assert!(host.exists("/closed"));
}

fn acl_of(host: &Host, path: &str) -> Result<(Vec<Acl>, Stat), i32> {
    let mut body = Reader::new(host.read(get_acl(path))?);
    Ok((
        Vec::decode(&mut body).unwrap(),
        Stat::decode(&mut body).unwrap(),
    ))
}

#[test]
fn rows_144_to_146_get_acl() {
    let mut host = Host::new();
    let bob = Acl::new(31, "digest", "bob:secret=");
    let with = |perms| [bob.clone(), Acl::new(perms, "world", "anyone")];
    for (path, perms) in [("/read", 1), ("/admin", 16), ("/neither", 14)] {
        host.write(create_acl(path, &with(perms)));
    }
    let (acl, stat) = acl_of(&host, "/read").unwrap();
    assert_eq!(acl[0], Acl::new(31, "digest", "bob:x"));
    assert_eq!((&acl[1], stat), (&with(1)[1], host.stat("/read")));
    host.identities = vec![];
    assert_eq!(acl_of(&host, "/admin").unwrap().0, with(16));
    assert_eq!(acl_of(&host, "/neither"), Err(-102));
    host.identities = vec![id("digest", "bob:secret=")];
    assert_eq!(acl_of(&host, "/neither").unwrap().0, with(14));
    assert_eq!(acl_of(&host, "/").unwrap().0, [Acl::open()]);
}

#[test]
fn row_148_all_descendants_are_counted() {
    let mut host = Host::new();
    let count = |host: &Host, path| {
        let body = host.read(ReadRequest::GetAllChildrenNumber(path_request(Some(path))));
        Reader::new(body.unwrap()).i32().unwrap()
    };
    // By its second name, the empty path, the root counts itself.
    assert_eq!((count(&host, "/"), count(&host, "")), (3, 4));
    for path in ["/a", "/a/b", "/a/b/c", "/a/d", "/e"] {
        host.write(create(path));
    }
    assert_eq!(
        (count(&host, "/"), count(&host, "/a"), count(&host, "/e")),
        (8, 3, 0)
    );
}

#[test]
fn row_150_children_with_stat() {
    let host = Host::new();
    let request = PathWatchRequest {
        path: Some("/zookeeper".into()),
        watch: false,
    };
    let body = host.read(ReadRequest::GetChildren2(request)).unwrap();
    let mut expected = Vec::new();
    host.stat("/zookeeper").encode(&mut expected);
    assert!(body.ends_with(&expected));
    assert_eq!(names(body), ["config", "quota"]);
}

#[test]
fn rows_151_and_152_own_ephemerals() {
    let mut host = Host::new();
    host.write(create("/a"));
    for path in ["/a/x", "/a/xy", "/b"] {
        host.write(create_flags(path, flags::EPHEMERAL));
    }
    let find = |host: &Host, prefix| {
        names(
            host.read(ReadRequest::GetEphemerals(path_request(prefix)))
                .unwrap(),
        )
    };
    let blank = ["", "  ", "/", " / ", "\u{1}", "/\u{1f}"].map(Some);
    for all in [None].into_iter().chain(blank) {
        assert_eq!(find(&host, all), ["/a/x", "/a/xy", "/b"], "{all:?}");
    }
    // Whitespace in Unicode, but not for Java's trim.
    for prefix in ["\u{3000}", "/\u{a0}", "\u{85}"] {
        assert_eq!(find(&host, Some(prefix)), [""; 0], "{prefix:?}");
    }
    assert_eq!(find(&host, Some("/a/x")), ["/a/x", "/a/xy"]);
    assert_eq!(find(&host, Some("/c")), [""; 0]);
    host.session = SessionId(77);
    assert_eq!(find(&host, None), [""; 0]);
}

#[test]
fn rows_153_and_243_who_am_i() {
    let mut host = Host::new();
    let own_ids = ["bob:1", "bob:1", "bob:2"].map(|user| id("digest", user));
    host.identities.extend(own_ids);
    host.identities.push(id("super", ""));
    let body = host.read(ReadRequest::WhoAmI).unwrap();
    let clients: Vec<ClientInfo> = Vec::decode(&mut Reader::new(body)).unwrap();
    let clients: Vec<_> = clients
        .iter()
        .map(|client| (&*client.scheme, &*client.user))
        .collect();
    // In the order of Java's hash set.
    let expected = [
        ("digest", "bob"),
        ("digest", "bob"),
        ("super", ""),
        ("ip", "127.0.0.1"),
    ];
    assert_eq!(clients, expected);
}

#[test]
fn row_154_the_config_znode_of_a_standalone_server_is_empty() {
    let host = Host::new();
    assert_eq!(host.data("/zookeeper/config"), Some(vec![]));
}

#[test]
fn ping_has_an_empty_reply_and_set_watches_a_separate_path() {
    let host = Host::new();
    assert_eq!(host.read(ReadRequest::Ping), Ok(vec![]));
    assert_eq!(
        host.read(ReadRequest::SetWatches(SetWatchesRequest::default())),
        Err(-6)
    );
}

#[test]
fn a_tree_of_twenty_thousand_levels_does_not_overflow() {
    let mut loader = zoarium_tree::TreeLoader::new(std::sync::Arc::new(settings()));
    let stat = proto::StatPersisted::default();
    loader.znode("", None, -1, stat).unwrap();
    let mut path = String::new();
    for _ in 0..20_000 {
        path.push_str("/d");
        loader.znode(&path, None, -1, stat).unwrap();
    }
    let mut host = Host::of(loader.finish(proto::Zxid(1)).unwrap());
    let body = host.read(ReadRequest::GetAllChildrenNumber(path_request(Some("/d"))));
    assert_eq!(Reader::new(body.unwrap()).i32(), Ok(19_999));
    host.read(add_watch("/", 1)).unwrap();
    let deepest = format!("{path}/e");
    assert_eq!(
        host.events(create_flags(&deepest, flags::EPHEMERAL)).len(),
        1
    );
    assert_eq!(host.events(delete(&deepest)).len(), 1);
    let (mut cursor, mut out, mut len) = (host.tree.start_snapshot(), Vec::new(), 0);
    // The whole snapshot is 400 MB of paths; the first levels are sufficient.
    while len < 1 << 24 && host.tree.snapshot_chunk(&mut cursor, 1 << 20, &mut out) {
        len += out.len();
        out.clear();
    }
    drop(host);
}
