use std::ops::ControlFlow;

use proptest::prelude::*;
use proto::request::{PathModeRequest, PathWatchRequest, ReadRequest, SetWatchesRequest};

use super::*;

const P: Option<&str> = Some("/p");

fn watcher(n: u64) -> WatcherId {
    WatcherId(n)
}

#[test]
fn row_206_each_type_finds_its_kind_only() {
    let one = watcher(1);
    let found = |kinds| {
        let mut watches = Watches::new();
        watches.add(one, P, kinds);
        (0..=6)
            .map(|number| Kinds::of_request(number).map(|kind| watches.has(one, P, kind)))
            .collect::<Vec<_>>()
    };
    let (yes, no) = (Some(true), Some(false));
    assert_eq!(found(Kinds::CHILD), [None, yes, no, yes, no, no, None]);
    assert_eq!(found(Kinds::DATA), [None, no, yes, yes, no, no, None]);
    assert_eq!(found(Kinds::PERSISTENT), [None, no, no, yes, yes, no, None]);
    assert_eq!(found(Kinds::RECURSIVE), [None, no, no, yes, no, yes, None]);
}

#[test]
fn row_314_removing_one_kind_leaves_the_others() {
    let mut watches = Watches::new();
    watches.add(watcher(1), P, Kinds::ANY);
    assert!(watches.remove(watcher(1), P, Kinds::PERSISTENT));
    assert!(!watches.remove(watcher(1), P, Kinds::PERSISTENT));
    for kinds in [Kinds::CHILD, Kinds::DATA, Kinds::RECURSIVE] {
        assert!(watches.has(watcher(1), P, kinds));
    }
    assert!(!watches.remove(watcher(2), P, Kinds::ANY));
    assert!(!watches.remove(watcher(1), Some("/p/q"), Kinds::ANY));
}

#[test]
fn counts_are_those_of_java() {
    let mut watches = Watches::new();
    watches.add(watcher(1), P, Kinds::DATA);
    watches.add(watcher(1), P, Kinds::DATA);
    watches.add(watcher(1), P, Kinds::CHILD);
    watches.add(watcher(2), P, Kinds::PERSISTENT);
    watches.add(watcher(2), Some("/q"), Kinds::CHILD);
    watches.add(watcher(1), None, Kinds::RECURSIVE);
    assert_eq!(watches.count(), 6);
    let summary = WatchSummary {
        watchers: 2,
        paths: 2,
        watches: 3,
    };
    assert_eq!(watches.summary(), summary);
    let mut listed = Vec::new();
    let is_complete = watches.visit_paths(&mut WatchedPaths::default(), |path, of| {
        listed.push((path.map(str::to_owned), of.len()));
        ControlFlow::Continue(())
    });
    listed.sort_unstable();
    assert!(is_complete);
    assert_eq!(listed, [(None, 1), (P.map(str::to_owned), 2)]);
    watches.remove_watcher(watcher(1));
    assert_eq!((watches.count(), watches.summary().watches), (3, 1));
    watches.remove_watcher(watcher(2));
    assert!(watches.is_empty() && watches.count() == 0);
    assert_eq!((watches.paths.len(), watches.watchers.len()), (0, 0));
}

#[derive(Debug, Clone)]
enum Action {
    Add(u64, usize, u8),
    Remove(u64, usize, u8),
    RemoveWatcher(u64),
    Delete(usize),
    Create(usize),
    SetData(usize),
}

const PATHS: [&str; 6] = ["/", "/a", "/a/b", "/a/b/c", "/b", "/b/c"];

fn action() -> impl Strategy<Value = Action> {
    let (who, path) = (0..4u64, 0..PATHS.len());
    prop_oneof![
        6 => (who.clone(), path.clone(), 0..5u8).prop_map(|(w, p, k)| Action::Add(w, p, k)),
        2 => (who.clone(), path.clone(), 1..6u8).prop_map(|(w, p, k)| Action::Remove(w, p, k)),
        1 => who.prop_map(Action::RemoveWatcher),
        2 => path.clone().prop_map(Action::Delete),
        2 => path.clone().prop_map(Action::Create),
        2 => path.prop_map(Action::SetData),
    ]
}

/// Reference implementation of the tables as a set of (watcher, path, bit of the kind).
#[derive(Default)]
struct Model(std::collections::BTreeSet<(u64, usize, u8)>);

impl Model {
    fn fire(&mut self, path: usize, table: Kinds, one_shot: Kinds) -> Vec<u64> {
        let is_above =
            |p: usize| p != path && (p == 0 || PATHS[path].starts_with(&format!("{}/", PATHS[p])));
        let is_hit = |&&(_, p, bit): &&(u64, usize, u8)| {
            let kind = Kinds(1 << bit);
            (p == path && kind.meets(table))
                || (is_above(p) && kind.meets(Kinds::RECURSIVE) && table.meets(Kinds::RECURSIVE))
        };
        let mut hit: Vec<u64> = self.0.iter().filter(is_hit).map(|(w, ..)| *w).collect();
        hit.dedup();
        self.0
            .retain(|&(_, p, bit)| p != path || !Kinds(1 << bit).meets(one_shot));
        hit
    }

    fn parent(path: usize) -> Option<usize> {
        let (parent, _) = PATHS[path].rsplit_once('/')?;
        let parent = if parent.is_empty() { "/" } else { parent };
        PATHS.iter().position(|p| *p == parent)
    }

    fn change(&mut self, path: usize, change: ZnodeChange) -> Vec<Vec<u64>> {
        let (data, child) = (Kinds::DATA_TABLE, Kinds::CHILD_TABLE);
        let mut events = vec![self.fire(path, data, Kinds::DATA)];
        if matches!(change, ZnodeChange::Deleted) {
            let mut second = self.fire(path, child, Kinds::CHILD);
            second.retain(|w| !events[0].contains(w));
            events.push(second);
        }
        if !matches!(change, ZnodeChange::DataChanged) {
            events.push(self.fire(Self::parent(path).unwrap(), child, Kinds::CHILD));
        }
        events.retain(|event| !event.is_empty());
        events
    }
}

fn real_change(watches: &mut Watches, path: usize, change: ZnodeChange) -> Vec<Vec<u64>> {
    let mut events = Vec::new();
    let parent = (!matches!(change, ZnodeChange::DataChanged))
        .then(|| jute::Str::from(PATHS[Model::parent(path).unwrap()]));
    let mut firing = Firing {
        watches,
        events: &mut events,
        zxid: proto::Zxid(1),
    };
    firing.fire(
        change,
        &PATHS[path].into(),
        None,
        parent.as_ref().map(|p| (p, None)),
    );
    let sorted = |event: Event| {
        let mut ids: Vec<u64> = event.watchers.iter().map(|w| w.0).collect();
        ids.sort_unstable();
        ids
    };
    events.into_iter().map(sorted).collect()
}

proptest! {
    #[test]
    fn model_watches_vs_tables(actions in proptest::collection::vec(action(), 1..80)) {
        let (mut watches, mut model) = (Watches::new(), Model::default());
        for action in actions {
            match action {
                Action::Add(w, p, number) => {
                    let kinds = [Kinds::DATA, Kinds::CHILD, Kinds::PERSISTENT, Kinds::RECURSIVE, Kinds::ANY][number as usize];
                    watches.add(watcher(w), Some(PATHS[p]), kinds);
                    model.0.extend((0..5).filter(|bit| Kinds(1 << bit).meets(kinds)).map(|bit| (w, p, bit)));
                }
                Action::Remove(w, p, number) => {
                    let kinds = Kinds::of_request(number.into()).unwrap();
                    let before = model.0.len();
                    model.0.retain(|&(mw, mp, bit)| (mw, mp) != (w, p) || !Kinds(1 << bit).meets(kinds));
                    let removed = watches.remove(watcher(w), Some(PATHS[p]), kinds);
                    prop_assert_eq!(removed, model.0.len() < before);
                }
                Action::RemoveWatcher(w) => {
                    watches.remove_watcher(watcher(w));
                    model.0.retain(|(mw, ..)| *mw != w);
                }
                Action::Delete(p) | Action::Create(p) if p == 0 => {}
                Action::Delete(p) => prop_assert_eq!(
                    real_change(&mut watches, p, ZnodeChange::Deleted), model.change(p, ZnodeChange::Deleted)),
                Action::Create(p) => prop_assert_eq!(
                    real_change(&mut watches, p, ZnodeChange::Created), model.change(p, ZnodeChange::Created)),
                Action::SetData(p) => prop_assert_eq!(
                    real_change(&mut watches, p, ZnodeChange::DataChanged), model.change(p, ZnodeChange::DataChanged)),
            }
            let in_table = |table: Kinds| {
                let mut pairs: Vec<_> = model.0.iter().filter(|(.., bit)| Kinds(1 << bit).meets(table))
                    .map(|(w, p, _)| (*w, *p)).collect();
                pairs.dedup();
                pairs
            };
            let data = in_table(Kinds::DATA_TABLE);
            prop_assert_eq!(watches.count(), data.len() + in_table(Kinds::CHILD_TABLE).len());
            prop_assert_eq!(watches.summary().watches, data.len());
        let of_each: usize = watches.counts_by_watcher().map(|(_, count)| count).sum();
        prop_assert_eq!(of_each, watches.count());
            let mut listed = 0;
            watches.visit_watchers(&mut Watchers::default(), |_, _| {
                listed += 1;
                ControlFlow::Continue(())
            });
            prop_assert_eq!(listed, data.len());
        }
    }
}

#[test]
fn the_bytes_of_a_new_watch_are_known_before_it_is_set() {
    let mut watches = Watches::new();
    let (one, other) = (WatcherId(1), WatcherId(2));
    let request = |path: &str, watch| PathWatchRequest {
        path: Some(path.into()),
        watch,
    };
    let get = |path: &str| ReadRequest::GetData(request(path, true));
    let list = |path: &str| ReadRequest::GetChildren2(request(path, true));
    let add = |path: &str, mode| {
        let path = Some(path.into());
        ReadRequest::AddWatch(PathModeRequest { path, mode })
    };
    let unwatched = ReadRequest::Exists(request("/a", false));
    assert!(!Watches::may_grow_by(&unwatched) && Watches::may_grow_by(&get("/a")));
    assert_eq!(watches.added_by(one, &unwatched), 0);
    assert_eq!(watches.added_by(one, &get("/a")), 1);
    assert_eq!(watches.added_by(one, &add("/a", 0)), 2);
    assert_eq!(watches.added_by(one, &add("/a", 1)), 1);
    assert_eq!(
        watches.added_by(one, &add("/a", 7)),
        0,
        "there is no such mode"
    );

    watches.add(one, Some("/a"), Kinds::DATA);
    watches.add(one, Some("/b"), Kinds::PERSISTENT);
    assert_eq!((watches.count_of(one), watches.count_of(other)), (3, 0));
    assert_eq!(
        (
            watches.added_by(one, &get("/a")),
            watches.added_by(other, &get("/a"))
        ),
        (0, 1)
    );
    assert_eq!(
        (
            watches.added_by(one, &list("/a")),
            watches.added_by(one, &list("/b"))
        ),
        (1, 0)
    );
    assert_eq!(watches.added_by(one, &add("/a", 0)), 1);
    let paths = |paths: &[&str]| {
        let paths = paths.iter().map(|path| Some((*path).into()));
        Some(paths.collect::<Vec<_>>())
    };
    let all = ReadRequest::SetWatches(SetWatchesRequest {
        relative_zxid: 0,
        data: paths(&["/a", "/c"]),
        exist: None,
        child: paths(&["/a", "/b"]),
        persistent: paths(&["/d", "/a"]),
        persistent_recursive: paths(&["/b", "/e"]),
    });
    // The watches are "/c", "/a", twice "/d", "/a" and "/e". The repeated "/a" is not detected.
    assert_eq!(watches.added_by(one, &all), 6);
}
