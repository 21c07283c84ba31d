use super::*;

const OK: i32 = 0;

fn paths(list: &List) -> Vec<&str> {
    let list = list.as_deref().unwrap_or_default();
    list.iter().flatten().map(|path| &**path).collect()
}

/// Returns a registration for the session's listeners.
fn registration(effect: WatchEffect, path: &str) -> Registration {
    let path = path.into();
    Registration {
        effect,
        path,
        waiter: None,
    }
}

type Answer = oneshot::Receiver<Result<WatchEvent>>;

/// Returns a registration with a waiter.
fn waited_for(id: u64, effect: WatchEffect, path: &str) -> (Registration, Answer) {
    let (sender, answer) = oneshot::channel();
    let sink = Sink::Once(sender);
    let waiter = Some(Waiter { id, sink });
    let path = path.into();
    let registration = Registration {
        effect,
        path,
        waiter,
    };
    (registration, answer)
}

fn event(kind: EventType, path: &str) -> WatchEvent {
    let (path, zxid) = (path.into(), Zxid(9));
    WatchEvent { kind, path, zxid }
}

const RECURSIVE: WatchEffect = WatchEffect::Add(AddWatchMode::PersistentRecursive);
const PERSISTENT: WatchEffect = WatchEffect::Add(AddWatchMode::Persistent);

#[test]
fn a_watch_is_set_by_a_successful_reply() {
    let mut watches = Watches::default();
    let no_node = ErrorCode::NoNode.code();
    let no_auth = ErrorCode::NoAuth.code();
    for (effect, path, err) in [
        (WatchEffect::Data, "/a", OK),
        (WatchEffect::Data, "/missing", no_node),
        (WatchEffect::Exists, "/b", OK),
        (WatchEffect::Exists, "/later", no_node),
        (WatchEffect::Exists, "/secret", no_auth),
        (WatchEffect::Child, "/c", OK),
        (PERSISTENT, "/p", OK),
        (RECURSIVE, "/r", OK),
    ] {
        watches.handle_reply(registration(effect, path), err);
    }
    let [request] = &watches.set_again(Zxid(7))[..] else {
        panic!("few paths fit one request");
    };
    assert_eq!(request.relative_zxid, 7);
    assert_eq!(paths(&request.data), ["/a", "/b"]);
    assert_eq!(paths(&request.exist), ["/later"]);
    assert_eq!(paths(&request.child), ["/c"]);
    assert_eq!(paths(&request.persistent), ["/p"]);
    assert_eq!(paths(&request.persistent_recursive), ["/r"]);
}

#[test]
fn an_event_uses_standard_watches_up_and_leaves_persistent_ones() {
    for (kind, data, child) in [
        (EventType::NodeDataChanged, 0, 1),
        (EventType::NodeCreated, 0, 1),
        (EventType::NodeChildrenChanged, 1, 0),
        (EventType::NodeDeleted, 0, 0),
    ] {
        let mut watches = Watches::default();
        for effect in [WatchEffect::Data, WatchEffect::Child, PERSISTENT] {
            watches.handle_reply(registration(effect, "/a"), OK);
        }
        watches.handle_event(&event(kind, "/a"));
        let count = |table| usize::from(watches.interests.contains_key(&(table, "/a".into())));
        let counts = [WatchTable::Data, WatchTable::Child, WatchTable::Persistent].map(count);
        assert_eq!(counts, [data, child, 1], "{kind:?}");
    }
}

#[test]
fn removing_takes_the_kind_it_names() {
    let mut watches = Watches::default();
    watches.handle_reply(registration(WatchEffect::Data, "/a"), OK);
    let (child, mut answer) = waited_for(1, WatchEffect::Child, "/a");
    watches.handle_reply(child, OK);
    watches.handle_reply(
        registration(WatchEffect::Remove(WatchKind::Children), "/a"),
        OK,
    );
    assert_eq!(watches.interests.len(), 1);
    let error = answer.try_recv().unwrap().unwrap_err();
    assert!(matches!(error, Error::WatchRemoved { .. }), "{error}");
    watches.handle_reply(registration(WatchEffect::Remove(WatchKind::Any), "/a"), OK);
    assert!(watches.set_again(Zxid(1)).is_empty());
}

#[test]
fn each_waiter_of_a_path_is_notified_once() {
    let mut watches = Watches::default();
    let (first, mut one) = waited_for(1, WatchEffect::Data, "/a");
    let (second, mut two) = waited_for(2, WatchEffect::Data, "/a");
    let (elsewhere, mut three) = waited_for(3, WatchEffect::Data, "/b");
    for registration in [first, second, elsewhere] {
        assert_eq!(watches.handle_reply(registration, OK), None);
    }
    let deleted = event(EventType::NodeDeleted, "/a");
    watches.handle_event(&deleted);
    assert_eq!(one.try_recv().unwrap().unwrap(), deleted);
    assert_eq!(two.try_recv().unwrap().unwrap(), deleted);
    assert!(three.try_recv().is_err());
    // Both waiters have been removed with their watches.
    assert_eq!(watches.forget(1), None);
    assert_eq!(watches.places.len(), 1);
}

#[test]
fn the_last_waiter_removes_the_watch_from_the_server() {
    let mut watches = Watches::default();
    let (first, _one) = waited_for(1, WatchEffect::Data, "/a");
    let (second, _two) = waited_for(2, WatchEffect::Exists, "/a");
    watches.handle_reply(first, OK);
    watches.handle_reply(second, ErrorCode::NoNode.code());
    assert_eq!(watches.forget(1), None, "the server has one table for both");
    let unwanted = UnwantedWatch {
        path: "/a".into(),
        kind: WatchKind::Data,
    };
    assert_eq!(watches.forget(2), Some(unwanted));

    // The watch is removed even if its waiter was dropped before the reply.
    let (late, gone) = waited_for(3, WatchEffect::Child, "/a");
    drop(gone);
    let unwanted = UnwantedWatch {
        path: "/a".into(),
        kind: WatchKind::Children,
    };
    assert_eq!(watches.handle_reply(late, OK), Some(unwanted));
    assert!(watches.interests.is_empty() && watches.places.is_empty());
}

#[test]
fn the_end_of_the_session_is_reported_to_all_waiters() {
    let mut watches = Watches::default();
    let (data, mut one) = waited_for(1, WatchEffect::Data, "/a");
    watches.handle_reply(data, OK);
    let queue = Arc::new(StreamQueue::default());
    let sink = Sink::Stream(Arc::clone(&queue));
    let waiter = Some(Waiter { id: 2, sink });
    let stream = Registration {
        waiter,
        ..registration(RECURSIVE, "/a")
    };
    watches.handle_reply(stream, OK);
    watches.handle_event(&event(EventType::NodeCreated, "/a/b/c"));
    assert_eq!(queue.len(), 1);
    watches.handle_event(&event(EventType::NodeCreated, "/ab"));
    assert_eq!(queue.len(), 1);
    let op = proto::OpCode::GetData;
    watches.end(&Error::Closed { op });
    assert!(one.try_recv().unwrap().is_err());
    assert!(watches.set_again(Zxid(1)).is_empty());
}

#[test]
fn many_paths_are_split_and_none_is_lost() {
    let mut watches = Watches::default();
    for number in 0..10_000 {
        let path = format!("/a/rather/long/path/to/watch/{number:010}");
        watches.handle_reply(registration(WatchEffect::Data, &path), OK);
    }
    let requests = watches.set_again(Zxid(1));
    let bytes = |request: &SetWatchesRequest| paths(&request.data).iter().map(|p| p.len()).sum();
    let sizes: Vec<usize> = requests.iter().map(bytes).collect();
    assert!(
        sizes.iter().all(|size| *size <= SET_WATCHES_BYTES_MAX),
        "{sizes:?}"
    );
    let count: usize = requests.iter().map(|r| paths(&r.data).len()).sum();
    assert_eq!(count, 10_000);
}
