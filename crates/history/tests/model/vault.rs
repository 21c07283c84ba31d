//! Protected znodes, as seen by clients without permission to read them.

use std::path::Path;

use proto::{Id, StatPersisted, Zxid};
use zoarium_history::{
    Baseline, ClientPatience, CostLimit, HistoryError, HistoryQuery, Index, Moment, Position,
    SnapshotAt,
};

use crate::generate::{Generator, Made};
use crate::plain::start_zxid;
use crate::viewers::{Site, fed};
use crate::{append_rest, settings};

fn id(scheme: &str, id: &str) -> Id {
    let (scheme, id) = (scheme.into(), id.into());
    Id { scheme, id }
}

/// A change of `/vault`.
#[derive(Clone, Copy)]
enum Step {
    Set(i32),
    SetAcl(&'static str),
    Delete,
}

const DELETE: Step = Step::Delete;
const PRIVATE: &str = "digest";
const OPEN: &str = "world";

fn set(version: i32) -> Step {
    Step::Set(version)
}

fn acl(scheme: &str) -> Vec<proto::Acl> {
    match scheme {
        OPEN => vec![proto::Acl::open()],
        _ => vec![proto::Acl::new(31, scheme, "ann:hash")],
    }
}

/// Returns transactions of a known client, in sequence.
fn of_vault(steps: &[Step]) -> Vec<Made> {
    use proto::txn::{SetAclTxn, SetDataTxn, Txn};
    let mut made = Generator::make(17, 40);
    made.retain(|(_, origin)| !origin.client.is_empty());
    made.truncate(steps.len());
    let start = made[0].0.header.zxid.0 - 1;
    for (number, ((record, _), step)) in (1..).zip(made.iter_mut().zip(steps)) {
        record.header.zxid = Zxid(start + number);
        let path = "/vault".into();
        record.txn = match *step {
            Step::Set(version) => Txn::SetData(SetDataTxn {
                path,
                data: Some("secret".into()),
                version,
            }),
            Step::SetAcl(scheme) => Txn::SetAcl(SetAclTxn {
                path,
                acl: acl(scheme),
                version: 1,
            }),
            Step::Delete => Txn::Delete { path },
        };
    }
    made
}

/// Creates a history that begins with a `/vault` with this ACL, from a snapshot that may contain
/// the first `covered` changes.
fn vault(dir: &Path, made: &[Made], scheme: &str, covered: i64) -> (Index, i64) {
    let start = start_zxid(made);
    let mut baseline = Baseline::new(&settings(dir)).unwrap();
    baseline.acl(7, &acl(scheme));
    let stat = StatPersisted::default();
    baseline.znode("/vault", Some(b"secret"), 7, &stat).unwrap();
    let at = SnapshotAt {
        zxid: Zxid(start),
        covers: Some(Zxid(start + covered)),
    };
    let mut index = Index::create(settings(dir), baseline, at).unwrap();
    append_rest(&mut index, made);
    (index, start)
}

/// A private znode is written while a snapshot is taken, and deleted later. The ACL that protected
/// the writes is unknown, which differs from an ACL that permits everything.
#[test]
fn only_super_users_see_changes_with_an_unknown_acl() {
    let (dir, made) = (
        tempfile::tempdir().unwrap(),
        of_vault(&[set(1), set(2), set(3), DELETE]),
    );
    // The first two are written while the snapshot is taken.
    let (index, start) = vault(dir.path(), &made, PRIVATE, 2);
    let site = Site::new();
    let reader = index.reader();
    let query = HistoryQuery::of("/vault");
    for identities in [Vec::new(), vec![id("digest", "a:b")]] {
        let refused = reader.history(&query, &site.client(&identities));
        assert!(
            matches!(refused, Err(HistoryError::NoPermission { .. })),
            "{refused:?}"
        );
        let fed = fed(&index, &query, start, &site.client(&identities)).0;
        assert_eq!(fed, [0; 0]);
    }
    // The owner could read the znode while the ACL is known: at that time, and before the deletion.
    let ann = [id("digest", "ann:hash")];
    let hers = reader.history(&query, &site.client(&ann)).unwrap();
    assert_eq!((hers.results.len(), hers.hidden), (3, 1));
    let supers = [id("super", "")];
    let all = reader.history(&query, &site.client(&supers)).unwrap();
    assert_eq!((all.results.len(), all.hidden), (4, 0));
}

/// A znode was open for some time, then closed, then deleted.
#[test]
fn a_deletion_does_not_widen_access() {
    let close = Step::SetAcl(PRIVATE);
    let dir = tempfile::tempdir().unwrap();
    let made = of_vault(&[set(1), close, set(2), DELETE]);
    let (index, start) = vault(dir.path(), &made, OPEN, 0);
    let site = Site::new();
    let reader = index.reader();
    let now = Moment::Zxid(index.head());
    let then = Moment::Zxid(Zxid(start + 1));
    let nobody = site.client(&[]);
    let is_refused = |error: HistoryError| matches!(error, HistoryError::NoPermission { .. });
    let query = HistoryQuery::of("/vault");
    assert!(is_refused(reader.history(&query, &nobody).unwrap_err()));
    assert!(is_refused(
        reader.znode_at("/vault", then, &nobody).unwrap_err()
    ));
    assert!(is_refused(
        reader.blame("/vault", None, 9, &nobody).unwrap_err()
    ));
    assert!(is_refused(
        reader
            .tree_at("/vault", then, None, 9, &nobody)
            .unwrap_err()
    ));
    assert!(is_refused(
        reader
            .diff("/vault", then, now, None, 9, &nobody)
            .unwrap_err()
    ));
    assert_eq!(fed(&index, &query, start, &nobody).0, [0; 0]);
    let ann = [id("digest", "ann:hash")];
    assert_eq!(
        reader
            .history(&query, &site.client(&ann))
            .unwrap()
            .results
            .len(),
        4
    );
}

/// Only administrators may see the origin of a change or select changes by it.
#[test]
fn only_administrators_see_the_origin_of_a_change() {
    let dir = tempfile::tempdir().unwrap();
    let made = of_vault(&[set(1)]);
    let (index, start) = vault(dir.path(), &made, OPEN, 0);
    let (site, reader) = (Site::new(), index.reader());
    let supers = [id("super", "")];
    for (identities, is_shown) in [(&[][..], false), (&supers[..], true)] {
        let viewer = site.client(identities);
        let mut query = HistoryQuery::of("/vault");
        for with_states in [false, true] {
            query.with_states = with_states;
            let queried = reader.history(&query, &viewer).unwrap().results;
            let after = Position::after(Zxid(start));
            let fed = reader.feed(&query, after, &viewer).unwrap().results;
            let blamed = reader.blame("/vault", None, 9, &viewer).unwrap().data;
            for found in queried.into_iter().chain(fed).chain(blamed) {
                let change = found.change.unwrap();
                assert_eq!(change.client.is_empty(), !is_shown);
                assert_eq!(change.identities.is_empty(), !is_shown);
                assert_eq!((change.session, change.cxid) == (0, 0), !is_shown);
                assert_eq!(found.is_origin_hidden, !is_shown);
            }
        }
        query.by = Some("10.0.0.2".to_owned());
        assert_eq!(reader.history(&query, &viewer).is_ok(), is_shown);
        (query.by, query.session) = (None, Some(1));
        assert_eq!(reader.history(&query, &viewer).is_ok(), is_shown);
        let after = Position::after(Zxid(start));
        assert_eq!(reader.feed(&query, after, &viewer).is_ok(), is_shown);
    }
}

/// Creates a history with these znodes below `/`, each of which is then set once.
fn set_once(dir: &Path, znodes: &[(&str, &str)]) -> Index {
    use proto::txn::Txn;
    let mut made = of_vault(&vec![set(1); znodes.len()]);
    let mut baseline = Baseline::new(&settings(dir)).unwrap();
    let stat = StatPersisted::default();
    for (number, scheme) in [(7, OPEN), (8, PRIVATE)] {
        baseline.acl(number, &acl(scheme));
    }
    baseline.znode("/", None, 7, &stat).unwrap();
    for ((name, scheme), (record, _)) in znodes.iter().zip(&mut made) {
        let number = if *scheme == OPEN { 7 } else { 8 };
        baseline.znode(name, Some(b"old"), number, &stat).unwrap();
        if let Txn::SetData(txn) = &mut record.txn {
            txn.path = (*name).into();
        }
    }
    let at = SnapshotAt {
        zxid: Zxid(start_zxid(&made)),
        covers: None,
    };
    let mut index = Index::create(settings(dir), baseline, at).unwrap();
    append_rest(&mut index, &made);
    index
}

/// Returns the paths on a page, and the position of the next page.
type Question<'a> = &'a dyn Fn(Option<&str>) -> Result<PathPage, HistoryError>;
type PathPage = (Vec<String>, Option<String>);

/// Pages may end at a znode that the viewer may not see, and the viewer chooses where a page
/// begins.
#[test]
fn the_positions_of_pages_do_not_reveal_hidden_znodes() {
    let dir = tempfile::tempdir().unwrap();
    let znodes = [
        ("/a", OPEN),
        ("/secret-1", PRIVATE),
        ("/secret-2", PRIVATE),
        ("/z", OPEN),
    ];
    let index = set_once(dir.path(), &znodes);
    let site = Site::new();
    let nobody = site.client(&[]);
    let now = index.head();
    let (begin, end) = (Moment::Zxid(Zxid(now.0 - 4)), Moment::Zxid(now));
    // Each page ends after one path.
    let reader = index.reader();
    let reader = reader.within(CostLimit::new(|| ClientPatience::Spent));
    let tree = |after: Option<&str>| {
        let page = reader.tree_at("/", end, after, 9, &nobody)?;
        let paths: Vec<String> = page.results.into_iter().map(|one| one.path).collect();
        Ok((paths, page.next.map(String::from)))
    };
    let diff = |after: Option<&str>| {
        let page = reader.diff("/", begin, end, after, 9, &nobody)?;
        let paths: Vec<String> = page.results.into_iter().map(|one| one.path).collect();
        Ok((paths, page.next.map(String::from)))
    };
    let blame = |after: Option<&str>| {
        let page = reader.blame("/", after, 9, &nobody)?;
        let paths = page
            .children
            .into_iter()
            .map(|one| format!("/{}", one.name));
        Ok((paths.collect(), page.next.map(String::from)))
    };
    let questions: [(Question<'_>, &str); 3] = [(&tree, "/"), (&diff, "/"), (&blame, "")];
    for (question, prefix) in questions {
        let (mut found, mut positions) = (Vec::new(), Vec::new());
        loop {
            let after = positions.last().map(String::as_str);
            let (paths, next) = question(after).unwrap();
            found.extend(paths);
            let Some(next) = next else { break };
            positions.push(next);
        }
        found.retain(|path| path != "/");
        assert_eq!(found, ["/a", "/z"]);
        assert!(positions.contains(&format!("{prefix}a")), "{positions:?}");
        let revealed = positions.iter().find(|next| next.contains("secret"));
        assert_eq!(revealed, None);
        // The number of hidden results after a guess would reveal names letter by letter.
        for guess in ["secret-1", "secret-", "s"] {
            let refused = question(Some(&format!("{prefix}{guess}"))).unwrap_err();
            assert!(matches!(refused, HistoryError::NoPermission { .. }));
        }
        let forged = question(Some("//00ff")).unwrap_err();
        assert!(matches!(forged, HistoryError::BadPath { .. }));
    }
}
