//! Tests of watches. The number in a name is a row of the checklist that these tests were written
//! from.

use crate::common::host::*;
use proto::Acl;
use proto::request::{PathModeRequest, ReadRequest, SetWatchesRequest, WriteRequest, flags};
use proto::watch::EventType::{self, *};
use zoarium_tree::WatcherId;

fn kinds(events: &[Seen]) -> Vec<(EventType, &str)> {
    events
        .iter()
        .map(|(kind, path, ..)| (*kind, &**path))
        .collect()
}

#[test]
fn rows_191_to_194_and_227_one_shot_watches() {
    let mut host = Host::new();
    assert_eq!(host.read(get("/a", true)), Err(-101));
    assert!(host.events(create("/a")).is_empty());
    host.write(delete("/a"));
    assert_eq!(host.read(exists("/a", true)), Err(-101));
    assert_eq!(
        host.events(create("/a")),
        [(NodeCreated, "/a".into(), 3, vec![1])]
    );
    host.read(get("/a", true)).unwrap();
    host.read(children("/a", true)).unwrap();
    host.read(exists("/a", true)).unwrap();
    assert_eq!(
        host.events(set("/a", "x")),
        [(NodeDataChanged, "/a".into(), 4, vec![1])]
    );
    assert!(host.events(set("/a", "y")).is_empty());
    assert_eq!(host.watches.lock().count(), 1);
}

#[test]
fn rows_195_and_196_a_deletion_is_reported_once() {
    let mut host = Host::new();
    host.write(create("/a"));
    host.read(get("/a", true)).unwrap();
    host.read(children("/a", true)).unwrap();
    assert_eq!(kinds(&host.events(delete("/a"))), [(NodeDeleted, "/a")]);
    host.write(create("/a"));
    host.read(children("/a", true)).unwrap();
    assert_eq!(kinds(&host.events(delete("/a"))), [(NodeDeleted, "/a")]);
    assert!(host.watches.lock().is_empty());
}

#[test]
fn connections_are_notified_of_a_deletion_by_table() {
    let mut host = Host::new();
    host.write(create("/a"));
    for (watcher, read) in [
        (1, get("/a", true)),
        (2, children("/a", true)),
        (3, get("/a", true)),
        (3, children("/a", true)),
    ] {
        host.watcher = WatcherId(watcher);
        host.read(read).unwrap();
    }
    let events = host.events(delete("/a"));
    assert_eq!(
        events,
        [
            (NodeDeleted, "/a".into(), 2, vec![1, 3]),
            (NodeDeleted, "/a".into(), 2, vec![2])
        ]
    );
}

#[test]
fn rows_198_and_199_add_watch() {
    let host = Host::new();
    assert_eq!(host.read(add_watch("/a", 2)), Err(-5));
    assert_eq!(host.read(add_watch("/a", 0)), Ok(vec![0; 4]));
    assert_eq!(host.read(check_watches("/a", 4)), Ok(vec![]));
    let null = || PathModeRequest {
        path: None,
        mode: 1,
    };
    assert_eq!(host.read(ReadRequest::AddWatch(null())), Ok(vec![0; 4]));
    assert_eq!(
        host.read(ReadRequest::RemoveWatches(PathModeRequest {
            mode: 5,
            ..null()
        })),
        Ok(vec![])
    );
    assert_eq!(
        host.read(ReadRequest::CheckWatches(PathModeRequest {
            mode: 3,
            ..null()
        })),
        Err(-121)
    );
}

#[test]
fn rows_200_and_201_persistent() {
    let mut host = Host::new();
    host.write(create("/p"));
    host.read(add_watch("/p", 0)).unwrap();
    let mut all = Vec::new();
    for request in [
        set("/p", "x"),
        create("/p/c"),
        set("/p/c", "x"),
        delete("/p/c"),
        delete("/p"),
        create("/p"),
    ] {
        all.extend(host.events(request));
    }
    let expected = [
        NodeDataChanged,
        NodeChildrenChanged,
        NodeChildrenChanged,
        NodeDeleted,
        NodeCreated,
    ];
    assert_eq!(kinds(&all), expected.map(|kind| (kind, "/p")));
}

#[test]
fn rows_202_203_and_205_recursive() {
    let mut host = Host::new();
    host.write(create("/p"));
    host.read(add_watch("/p", 1)).unwrap();
    let mut all = Vec::new();
    for request in [
        create("/p/c"),
        create("/p/c/d"),
        set("/p/c/d", ""),
        delete("/p/c/d"),
        create("/px"),
    ] {
        all.extend(host.events(request));
    }
    let expected = [
        (NodeCreated, "/p/c"),
        (NodeCreated, "/p/c/d"),
        (NodeDataChanged, "/p/c/d"),
        (NodeDeleted, "/p/c/d"),
    ];
    assert_eq!(kinds(&all), expected);
    host.read(children("/p", true)).unwrap();
    let events = host.events(create("/p/e"));
    assert_eq!(
        kinds(&events),
        [(NodeCreated, "/p/e"), (NodeChildrenChanged, "/p")]
    );
    host.watcher = WatcherId(2);
    host.read(add_watch("/", 1)).unwrap();
    let events = host.events(create("/zookeeper/x"));
    assert_eq!(
        events[0],
        (NodeCreated, "/zookeeper/x".into(), host.zxid.0, vec![2])
    );
    assert_eq!(kinds(&host.events(set("/", "x"))), [(NodeDataChanged, "/")]);
}

#[test]
fn row_204_one_event_for_one_connection_however_many_watches() {
    let mut host = Host::new();
    host.write(create("/a"));
    host.write(create("/a/b"));
    for (path, mode) in [("/", 1), ("/a", 1), ("/a/b", 0), ("/a/b", 1)] {
        host.read(add_watch(path, mode)).unwrap();
    }
    host.read(get("/a/b", true)).unwrap();
    assert_eq!(
        host.events(set("/a/b", "x")),
        [(NodeDataChanged, "/a/b".into(), 3, vec![1])]
    );
}

#[test]
fn rows_206_to_210_and_314_to_316_check_and_remove() {
    let mut host = Host::new();
    host.write(create("/n"));
    for bad in [0, 6] {
        assert_eq!(host.read(check_watches("/n", bad)), Err(-5));
        assert_eq!(host.read(remove_watches("/n", bad)), Err(-5));
    }
    assert_eq!(host.read(check_watches("/n", 3)), Err(-121));
    let checks = |host: &Host| {
        (1..=5)
            .map(|kind| host.read(check_watches("/n", kind)).is_ok())
            .collect::<Vec<_>>()
    };
    host.read(add_watch("/n", 0)).unwrap();
    assert_eq!(checks(&host), [false, false, true, true, false]);
    host.read(add_watch("/n", 1)).unwrap();
    host.read(get("/n", true)).unwrap();
    host.read(children("/n", true)).unwrap();
    assert_eq!(checks(&host), [true; 5]);
    assert_eq!(host.read(remove_watches("/n", 4)), Ok(vec![]));
    assert_eq!(checks(&host), [true, true, true, false, true]);
    assert_eq!(host.read(remove_watches("/n", 4)), Err(-121));
    assert_eq!(host.read(remove_watches("/n/below", 5)), Err(-121));
    host.watcher = WatcherId(2);
    assert_eq!(host.read(remove_watches("/n", 3)), Err(-121));
    host.watcher = WATCHER;
    assert_eq!(host.read(remove_watches("/n", 3)), Ok(vec![]));
    assert!(host.watches.lock().is_empty());
}

#[test]
fn row_211_a_closed_connection_loses_its_watches() {
    let mut host = Host::new();
    for path in ["/", "/zookeeper", ""] {
        host.read(get(path, true)).unwrap();
        host.read(add_watch(path, 1)).unwrap();
    }
    host.watches.lock().remove_watcher(WATCHER);
    assert!(host.events(create("/a")).is_empty());
    assert!(host.watches.lock().is_empty());
}

#[test]
fn rows_306_and_228_watches_that_never_fire() {
    let mut host = Host::new();
    host.read(get("", true)).unwrap();
    assert!(host.events(set("/", "x")).is_empty());
    host.write(create("/a"));
    host.read(get("/a", true)).unwrap();
    assert!(
        host.events(set_acl("/a", &[Acl::new(31, "world", "anyone")], -1))
            .is_empty()
    );
}

#[test]
fn row_317_persistent_and_recursive_together() {
    let mut host = Host::new();
    host.write(create("/p"));
    for mode in [0, 1] {
        host.read(add_watch("/p", mode)).unwrap();
    }
    let mut all = Vec::new();
    for request in [
        create("/p/c"),
        set("/p/c", ""),
        set("/p", ""),
        delete("/p/c"),
    ] {
        all.extend(host.events(request));
    }
    let expected = [
        (NodeCreated, "/p/c"),
        (NodeChildrenChanged, "/p"),
        (NodeDataChanged, "/p/c"),
        (NodeDataChanged, "/p"),
        (NodeDeleted, "/p/c"),
        (NodeChildrenChanged, "/p"),
    ];
    assert_eq!(kinds(&all), expected);
}

#[test]
fn row_318_a_persistent_watch_outlives_one_shot_watches() {
    let mut host = Host::new();
    host.write(create("/p"));
    host.read(add_watch("/p", 0)).unwrap();
    host.read(get("/p", true)).unwrap();
    host.read(children("/p", true)).unwrap();
    for name in ["a", "b"] {
        assert_eq!(
            kinds(&host.events(set("/p", name))),
            [(NodeDataChanged, "/p")]
        );
        let events = host.events(create(&format!("/p/{name}")));
        assert_eq!(kinds(&events), [(NodeChildrenChanged, "/p")]);
    }
}

#[test]
fn row_320_failed_writes_fire_nothing() {
    let mut host = Host::new();
    host.write(create("/a"));
    host.read(get("/a", true)).unwrap();
    for request in [
        set_version("/a", "x", 9),
        WriteRequest::Multi(Ok(vec![set("/a", "x"), delete("/missing")])),
    ] {
        assert!(host.write(request).1.is_empty());
    }
    assert_eq!(host.events(set("/a", "x")).len(), 1);
}

#[test]
fn rows_221_224_and_319_events_carry_the_list_that_filters_them() {
    let mut host = Host::new();
    let closed = [
        Acl::new(31 & !1, "world", "anyone"),
        Acl::new(1, "digest", "bob:x"),
    ];
    host.read(add_watch("/", 1)).unwrap();
    host.read(add_watch("/a", 0)).unwrap();
    let may_see = |host: &Host, event: &zoarium_tree::Event, ids: &[proto::Id]| {
        host.tree.may_see(event.acl.as_deref(), ids)
    };
    let bob = [id("digest", "bob:x")];
    for request in [
        create_acl("/a", &closed),
        set("/a", ""),
        create("/a/c"),
        delete("/a/c"),
        delete("/a"),
    ] {
        let (_, events) = host.write(request);
        for event in events {
            let is_hidden = &*event.path == "/a";
            assert_eq!(may_see(&host, &event, &[]), !is_hidden, "{event:?}");
            assert!(may_see(&host, &event, &bob) && may_see(&host, &event, &[id("super", "")]));
        }
    }
    assert!(!host.tree.may_see(None, &bob) && host.tree.may_see(None, &[id("super", "")]));
}

#[test]
fn rows_225_and_226_an_ending_session_notifies_its_connection() {
    let mut host = Host::new();
    host.write(create("/p"));
    for name in 0..4 {
        host.write(create_flags(&format!("/p/{name}"), flags::EPHEMERAL));
        host.read(get(&format!("/p/{name}"), true)).unwrap();
    }
    host.read(children("/p", true)).unwrap();
    let events = host.events(WriteRequest::CloseSession);
    assert!(events.iter().all(|event| event.2 == host.zxid.0));
    let of = |kind| events.iter().filter(|event| event.0 == kind).count();
    assert_eq!((of(NodeDeleted), of(NodeChildrenChanged)), (4, 1));
    assert_eq!(events[1].0, NodeChildrenChanged);
}

fn lists(data: &[&str], exist: &[&str], child: &[&str]) -> SetWatchesRequest {
    let list = |paths: &[&str]| Some(paths.iter().map(|path| Some((*path).into())).collect());
    SetWatchesRequest {
        relative_zxid: 2,
        data: list(data),
        exist: list(exist),
        child: list(child),
        persistent: list(&[]),
        persistent_recursive: list(&[]),
    }
}

fn set_watches(
    host: &Host,
    request: &SetWatchesRequest,
) -> (Result<(), i32>, Vec<(EventType, String)>) {
    let mut missed = Vec::new();
    let result = host
        .tree
        .set_watches(request, host.watcher, &host.watches, &mut missed);
    let missed = missed
        .into_iter()
        .map(|(kind, path)| (kind, path.to_string()))
        .collect();
    (result.map_err(|code| code.code()), missed)
}

/// Creates two znodes before the client disconnects, of which one is changed later, and a child of
/// the other.
fn reconnected() -> Host {
    let mut host = Host::new();
    for request in [create("/a"), create("/b"), set("/b", "x"), create("/a/c")] {
        host.write(request);
    }
    host
}

#[test]
fn rows_212_to_218_missed_events() {
    let mut host = reconnected();
    let request = lists(
        &["/gone", "/a", "/b"],
        &["/a", "/gone"],
        &["/gone", "/a", "/b"],
    );
    let (result, missed) = set_watches(&host, &request);
    let expected = [
        (NodeDeleted, "/gone"),
        (NodeDataChanged, "/b"),
        (NodeCreated, "/a"),
        (NodeDeleted, "/gone"),
        (NodeChildrenChanged, "/a"),
    ];
    assert_eq!(missed, expected.map(|(kind, path)| (kind, path.to_owned())));
    assert_eq!((result, host.watches.lock().count()), (Ok(()), 3));
    let events = [
        set("/a", ""),
        set("/b", ""),
        create("/gone"),
        create("/b/c"),
    ]
    .map(|request| host.events(request).len());
    assert_eq!(events, [1, 0, 1, 1]);
}

#[test]
fn row_219_persistent_watches_are_set_without_a_check() {
    let mut host = reconnected();
    let mut request = lists(&[], &[], &[]);
    request.persistent = Some(vec![Some("/b".into()), None]);
    request.persistent_recursive = Some(vec![Some("/gone".into()), None]);
    assert_eq!(set_watches(&host, &request), (Ok(()), vec![]));
    assert_eq!(host.events(set("/b", "")).len(), 1);
    host.write(create("/gone"));
    assert_eq!(host.events(create("/gone/x")).len(), 1);
}

#[test]
fn rows_47_and_327_nulls_end_the_request_at_their_position() {
    let host = reconnected();
    let mut request = lists(&["/b"], &["/a"], &["/a"]);
    request.data.as_mut().unwrap().push(None);
    let changed = vec![(NodeDataChanged, "/b".to_owned())];
    assert_eq!(set_watches(&host, &request), (Err(-5), changed));
    let mut request = lists(&["/a"], &[], &["/a"]);
    request.exist = None;
    assert_eq!(set_watches(&host, &request), (Err(-5), vec![]));
    assert_eq!(host.watches.lock().count(), 1);
}
