//! Each directory that Java wrote loads to the content that Java reports.
use crate::common::db::Db;
use serde_json::Value;
use testkit::vectors::{self, Vector, number};
use zoarium_storage::{DataDirs, RealDisk, RecoverySettings, recover};

/// Loads a copy of `<vector>/<sub>` and compares the result with `state`.
fn compare(name: &str, vector: &Vector, sub: &str, log_sub: &str, state: &Value) {
    let snap = vectors::copy(&vector.dir.join(sub));
    let log = (sub != log_sub).then(|| vectors::copy(&vector.dir.join(log_sub)));
    let log_dir = log.as_ref().unwrap_or(&snap);
    let dirs = DataDirs::unlocked(snap.path(), log_dir.path());
    let settings = RecoverySettings {
        trust_empty: name == "log-only",
        ..RecoverySettings::new(testkit::LIMITS)
    };
    let mut db = Db::default();
    let recovered = recover(&RealDisk, &dirs, &settings, &mut db)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(recovered.last_zxid.0, number(&state["last_zxid"]), "{name}");
    assert_eq!(recovered.last_zxid.0, db.last_zxid, "{name}");
    if name != "fuzzy" {
        assert_eq!(
            db.mismatches, [0i64; 0],
            "{name}: digests of single transactions"
        );
    }
    let digest = number(&state["digest"]);
    if digest != 0 {
        assert_eq!(db.digest(), digest, "{name}: digest");
    }
    db.kill_orphans();
    let sessions = state["sessions"].as_object().unwrap();
    assert_eq!(db.sessions.len(), sessions.len(), "{name}: sessions");
    for (id, session) in sessions {
        let id = number(&Value::from(id.clone()));
        assert_eq!(
            i64::from(db.sessions[&id]),
            number(&session["timeout"]),
            "{name}"
        );
    }
    compare_nodes(name, &db, state);
}

fn compare_nodes(name: &str, db: &Db, state: &Value) {
    let nodes = state["nodes"].as_object().unwrap();
    assert_eq!(db.nodes.len(), nodes.len(), "{name}: znodes");
    for (path, expected) in nodes {
        let key = if path == "/" { "" } else { path };
        let node = &db.nodes[key];
        let at = format!("{name}: {path}");
        // A server recomputes the quota statistics, so their length may differ.
        let is_quota = path.ends_with("/zookeeper_stats");
        if !is_quota {
            let data = expected["data"].as_str().map(vectors::bytes);
            assert_eq!(node.data, data, "{at}");
        }
        let (stat, wanted) = (&node.stat, &expected["stat"]);
        let children = i32::try_from(node.children.len()).unwrap();
        let owner = if stat.ephemeral_owner >> 56 == -1 || stat.ephemeral_owner == i64::MIN {
            let stored = number(&state["stored_owner"][path.as_str()]);
            assert_eq!(stat.ephemeral_owner, stored, "{at}");
            0
        } else {
            stat.ephemeral_owner
        };
        for (field, value) in [
            ("czxid", stat.czxid),
            ("mzxid", stat.mzxid),
            ("pzxid", stat.pzxid),
            ("ctime", stat.ctime),
            ("mtime", stat.mtime),
            ("version", stat.version.into()),
            ("cversion", (2 * stat.cversion - children).into()),
            ("aversion", stat.aversion.into()),
            ("ephemeralOwner", owner),
            ("numChildren", children.into()),
        ] {
            assert_eq!(value, number(&wanted[field]), "{at}: {field}");
        }
        let acl: Vec<Value> = node
            .acl
            .iter()
            .flatten()
            .map(|acl| serde_json::json!([acl.perms, &*acl.id.scheme, &*acl.id.id]))
            .collect();
        assert_eq!(Value::from(acl), expected["acl"], "{at}: acl");
    }
}

#[test]
fn every_recorded_directory_loads_to_the_recorded_state() {
    let mut compared = 0;
    for (name, vector) in vectors::all() {
        let first = match name.as_str() {
            // These vectors contain only results.
            "epoch-files" | "initialize" | "prealloc" => continue,
            "ensemble" => {
                let opened = vector.expected["opened_standalone"]
                    .as_object()
                    .unwrap()
                    .clone();
                for (member, state) in &opened {
                    compare(&name, &vector, member, member, state);
                    compared += 1;
                }
                continue;
            }
            "dirs-split" => {
                compare(&name, &vector, "data", "datalog", &vector.expected["state"]);
                compared += 1;
                continue;
            }
            "log-damaged" => "single",
            "snap-damaged" => "with-older",
            "snap-sections" => "both",
            _ => "data",
        };
        if name == "log-only" {
            continue;
        }
        compare(&name, &vector, first, first, &vector.expected["state"]);
        compared += 1;
    }
    assert!(vectors::root().is_none() || compared >= 18, "{compared}");
}
