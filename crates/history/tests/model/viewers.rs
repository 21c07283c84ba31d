//! Who sees what.

use history::record::Operation;
use history::{Baseline, HistoryQuery, Index, Position, SnapshotAt};
use proto::{StatPersisted, Zxid};

use crate::generate::Generator;
use crate::plain::start_zxid;
use crate::{append_rest, create, settings, step_to_the_end};

/// Who may read a znode of which ACLs are for everybody.
struct Anyone;

impl history::Viewer for Anyone {
    fn may_read(&self, _: &str, acl: &[proto::Acl]) -> bool {
        acl.iter().any(|entry| &*entry.id.scheme == "world")
    }

    fn may_see_secrets(&self) -> bool {
        false
    }
}

/// What a feed remembers of a reader from page to page is what each change is looked up for.
#[test]
fn a_feed_shows_what_a_query_shows() {
    let made = Generator::make(81, 1500);
    for operations in [Vec::new(), vec![Operation::SetData]] {
        let dir = tempfile::tempdir().unwrap();
        let mut index = create(settings(dir.path()), &made);
        let reader = index.reader();
        let mut query = HistoryQuery::of("/");
        (query.recursive, query.operations) = (true, operations);
        let mut memory = history::FeedMemory::default();
        let mut position = Position::behind(Zxid(start_zxid(&made)));
        let (mut hidden, mut shown) = (0, 0);
        for count in (100..=made.len()).step_by(100) {
            append_rest(&mut index, &made[..count]);
            step_to_the_end(&mut index, 0);
            loop {
                let page = reader
                    .feed_on(&query, position, &Anyone, &mut memory)
                    .unwrap();
                // Looked up anew.
                let anew = reader.feed(&query, position, &Anyone).unwrap();
                assert_eq!((&page.results, page.hidden), (&anew.results, anew.hidden));
                let mut asked = query.clone();
                asked.after = Some(position.key());
                let mut wanted = Vec::new();
                loop {
                    let found = reader.history(&asked, &Anyone).unwrap();
                    wanted.extend(found.results);
                    match found.next {
                        Some(next) => asked.after = Some(next),
                        None => break,
                    }
                }
                wanted.retain(|found| {
                    Position::from(found.change.as_ref().unwrap().position()) <= page.position
                });
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

/// The addresses of the members, before, in and after a change of their list.
#[test]
fn the_member_list_is_for_those_who_may_see_secrets() {
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
        let owner = history::FileOwner { shows_secrets };
        let mut query = HistoryQuery::of(CONFIG);
        query.with_states = true;
        let now = history::Moment::Zxid(index.head());
        let begin = history::Moment::Zxid(Zxid(start_zxid(&made)));
        let after = Position::behind(Zxid(start_zxid(&made)));
        let changes = reader.history(&query, &owner).unwrap().results;
        let fed = reader.feed(&query, after, &owner).unwrap().results;
        assert_eq!((changes.len(), fed.len()), (3, 3));
        let blame = reader.blame(CONFIG, None, 10, &owner).unwrap();
        let tree = reader.tree_at("/", now, None, 10, &owner).unwrap().results;
        let diff = reader.diff("/", (begin, now), None, 10, &owner).unwrap();
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
