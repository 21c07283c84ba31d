//! Tests of permissions.

use std::sync::Arc;

use parking_lot::RwLock;
use proto::{Id, StatPersisted, Zxid};
use tree::{Tree, TreeSettings};
use zoarium_history::record::Operation;
use zoarium_history::{Baseline, HistoryError, HistoryQuery, Index, Position, SnapshotAt, Viewer};

use crate::generate::Generator;
use crate::plain::start_zxid;
use crate::{append_rest, create, settings, step_to_the_end};

/// A server whose tree contains none of the recorded znodes: only the history knows their ACLs.
pub(crate) struct Site(RwLock<Tree>);

impl Site {
    pub(crate) fn new() -> Self {
        Self(RwLock::new(Tree::new(Arc::new(TreeSettings::new(
            testkit::LIMITS,
        )))))
    }

    /// Returns a client with these identities.
    pub(crate) fn client<'a>(&'a self, identities: &'a [Id]) -> Viewer<'a> {
        Viewer::Client {
            tree: &self.0,
            identities,
        }
    }
}

/// The permissions that a feed remembers from page to page equal a lookup for each change.
#[test]
fn a_feed_shows_what_a_query_shows() {
    let made = Generator::make(81, 1500);
    for operations in [Vec::new(), vec![Operation::SetData]] {
        let dir = tempfile::tempdir().unwrap();
        let mut index = create(settings(dir.path()), &made);
        let reader = index.reader();
        let mut query = HistoryQuery::of("/");
        (query.recursive, query.operations) = (true, operations);
        let site = Site::new();
        let anyone = site.client(&[]);
        let mut memory = zoarium_history::FeedMemory::default();
        let mut position = Position::after(Zxid(start_zxid(&made)));
        let (mut hidden, mut shown) = (0, 0);
        for count in (100..=made.len()).step_by(100) {
            append_rest(&mut index, &made[..count]);
            step_to_the_end(&mut index, 0);
            loop {
                let page = reader
                    .feed_with_memory(&query, position, &anyone, &mut memory)
                    .unwrap();
                // The permissions are looked up again, without the memory.
                let anew = reader.feed(&query, position, &anyone).unwrap();
                assert_eq!((&page.results, page.hidden), (&anew.results, anew.hidden));
                let mut asked = query.clone();
                asked.after = Some(position);
                let mut wanted = Vec::new();
                loop {
                    let found = reader.history(&asked, &anyone).unwrap();
                    wanted.extend(found.results);
                    match found.next {
                        Some(next) => asked.after = Some(next),
                        None => break,
                    }
                }
                wanted.retain(|found| found.change.as_ref().unwrap().position() <= page.position);
                assert_eq!(page.results, wanted, "{position}");
                (hidden, shown) = (hidden + page.hidden, shown + page.results.len());
                position = page.position;
                if !page.has_more {
                    break;
                }
            }
        }
        assert!(hidden > 50 && shown > 200, "{hidden} hidden, {shown} shown");
    }
}

/// After a snapshot that may contain parts of later transactions, the ACLs of that time are
/// unknown.
#[test]
fn unknown_permission_is_an_error_and_not_a_hidden_result() {
    use proto::txn::{CreateTxn, SetDataTxn, Txn};
    let of_znode = |path: &str, version| {
        Txn::SetData(SetDataTxn {
            path: path.into(),
            data: Some("1".into()),
            version,
        })
    };
    let create = Txn::Create(CreateTxn {
        path: "/b".into(),
        data: None,
        acl: vec![proto::Acl::open()],
        ephemeral: false,
        parent_cversion: 1,
    });
    let dir = tempfile::tempdir().unwrap();
    let mut made = Generator::make(91, 12);
    let start = start_zxid(&made);
    for ((record, _), version) in made.iter_mut().zip(1..) {
        record.header.zxid = Zxid(start + i64::from(version));
        record.txn = of_znode("/a", version);
    }
    made[0].0.txn = create;
    let from = |at: usize, covers: i64| {
        let mut baseline = Baseline::new(&settings(dir.path())).unwrap();
        let stat = StatPersisted::default();
        for path in ["/a", "/b"] {
            baseline.znode(path, None, -1, &stat).unwrap();
        }
        let zxid = made[at].0.header.zxid.0 - 1;
        let at = SnapshotAt {
            zxid: Zxid(zxid),
            covers: Some(Zxid(zxid + covers)),
        };
        (baseline, at)
    };
    let (baseline, at) = from(0, 3);
    let mut index = Index::create(settings(dir.path()), baseline, at).unwrap();
    append_rest(&mut index, &made[..5]);
    // The history misses the next three transactions.
    let (baseline, at) = from(8, 2);
    index.begin_era(baseline, at).unwrap();
    append_rest(&mut index, &made[8..]);
    let mut query = HistoryQuery::of("/");
    query.recursive = true;
    for with_states in [false, true] {
        query.with_states = with_states;
        let (seen, refused) = fed_to_anyone(&index, &query, start);
        // The create has its own ACL. The end of the hole depends on the viewer: the first error
        // contains the position from which changes are recorded.
        assert_eq!(seen, [1, 4, 5, 11, 12]);
        assert_eq!(refused, [(0, 3), (5, 8), (5, 10)]);
        // No ACL applies to the owner of the files.
        let owner = Viewer::FileOwner {
            shows_secrets: false,
        };
        let after = Position::after(Zxid(start));
        let page = index.reader().feed(&query, after, &owner).unwrap();
        assert_eq!((page.results.len(), page.hidden), (5, 0));
    }
}

fn fed_to_anyone(index: &Index, query: &HistoryQuery, start: i64) -> (Vec<i64>, Vec<(i64, i64)>) {
    let (seen, refused, hidden) = fed(index, query, start, &Site::new().client(&[]));
    assert_eq!(hidden, 0);
    (seen, refused)
}

/// Returns the changes of a feed of the whole history, the holes at which it stops and continues,
/// and the number of hidden changes; counted from `start`.
pub(crate) fn fed(
    index: &Index,
    query: &HistoryQuery,
    start: i64,
    viewer: &Viewer<'_>,
) -> (Vec<i64>, Vec<(i64, i64)>, u64) {
    let mut hidden = 0;
    let mut memory = zoarium_history::FeedMemory::default();
    let mut position = Position::after(Zxid(start));
    let (mut seen, mut refused) = (Vec::new(), Vec::new());
    while position < Position::after(index.head()) {
        let page = index
            .reader()
            .feed_with_memory(query, position, viewer, &mut memory);
        let (from, to) = match page {
            Ok(page) => {
                hidden += page.hidden;
                let changes = page.results.iter().flat_map(|found| &found.change);
                seen.extend(changes.map(|change| change.zxid - start));
                position = page.position;
                continue;
            }
            Err(HistoryError::NotKept { oldest, .. }) => (Zxid(start), oldest),
            Err(HistoryError::Hole { from, to }) => (from, to),
            Err(other) => panic!("{other}"),
        };
        refused.push((from.0 - start, to.0 - start));
        position = Position::after(to);
    }
    (seen, refused, hidden)
}

/// The addresses of the members before, in and after a change of their list.
#[test]
fn only_viewers_of_secrets_see_the_member_list() {
    use proto::txn::{SetDataTxn, Txn};
    const CONFIG: &str = "/zookeeper/config";
    let dir = tempfile::tempdir().unwrap();
    let mut made = Generator::make(71, 3);
    for ((record, _), version) in made.iter_mut().zip(1..) {
        record.txn = Txn::Reconfig(SetDataTxn {
            path: CONFIG.into(),
            data: Some(format!("server.1=10.1.2.{version}:2888").into()),
            version,
        });
    }
    let mut baseline = Baseline::new(&settings(dir.path())).unwrap();
    let stat = StatPersisted::default();
    baseline
        .znode(CONFIG, Some(b"server.1=10.1.2.0"), -1, &stat)
        .unwrap();
    let at = SnapshotAt {
        zxid: Zxid(start_zxid(&made)),
        covers: None,
    };
    let mut index = Index::create(settings(dir.path()), baseline, at).unwrap();
    append_rest(&mut index, &made);
    let reader = index.reader();
    let answers = |shows_secrets: bool| {
        let owner = Viewer::FileOwner { shows_secrets };
        let mut query = HistoryQuery::of(CONFIG);
        query.with_states = true;
        let now = zoarium_history::Moment::Zxid(index.head());
        let begin = zoarium_history::Moment::Zxid(Zxid(start_zxid(&made)));
        let after = Position::after(Zxid(start_zxid(&made)));
        let changes = reader.history(&query, &owner).unwrap().results;
        let fed = reader.feed(&query, after, &owner).unwrap().results;
        assert_eq!((changes.len(), fed.len()), (3, 3));
        let blame = reader.blame(CONFIG, None, 10, &owner).unwrap();
        let tree = reader.tree_at("/", now, None, 10, &owner).unwrap().results;
        let diff = reader.diff("/", begin, now, None, 10, &owner).unwrap();
        let znode = reader.znode_at(CONFIG, now, &owner).unwrap().unwrap();
        [
            format!("{changes:?}"),
            format!("{fed:?}"),
            format!("{blame:?}"),
            format!("{tree:?}"),
            format!("{:?}", diff.results),
            format!("{znode:?}"),
        ]
    };
    for text in answers(true) {
        assert!(text.contains("10.1.2."), "{text}");
    }
    for text in answers(false) {
        assert!(!text.contains("10.1.2."), "{text}");
    }
}

/// A znode was deleted, and created again while only its creator could read it.
#[test]
fn an_existing_znode_is_not_blamed_as_deleted() {
    use proto::txn::{CreateTxn, SetAclTxn, Txn};
    let dir = tempfile::tempdir().unwrap();
    let path = || "/a".into();
    let create = |acl: proto::Acl| {
        Txn::Create(CreateTxn {
            path: path(),
            data: None,
            acl: vec![acl],
            ephemeral: false,
            parent_cversion: 1,
        })
    };
    let txns = [
        create(proto::Acl::open()),
        Txn::Delete { path: path() },
        create(proto::Acl::new(31, "digest", "ann:hash")),
        Txn::SetAcl(SetAclTxn {
            path: path(),
            acl: vec![proto::Acl::open()],
            version: 1,
        }),
    ];
    let mut made = Generator::make(61, txns.len());
    for ((record, _), txn) in made.iter_mut().zip(txns) {
        record.txn = txn;
    }
    let mut index = crate::create(settings(dir.path()), &made);
    append_rest(&mut index, &made);
    let site = Site::new();
    let blame = index.reader().blame("/a", None, 9, &site.client(&[]));
    let blame = blame.unwrap();
    assert_eq!((blame.created, blame.deleted), (None, None));
    assert!(blame.acl.is_some());
}
