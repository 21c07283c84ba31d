//! The history does not reveal anything to a client that the tree would hide from it.

use client::{Client, Create};
use proto::Acl;
use serde_json::Value;

use crate::site::{SUPER, Site, lines, stderr, zoarium};

const ANN: &str = "digest ann:pw";
const BOB: &str = "digest bob:pw";

/// The id that `generateDigest` returns for `ann:pw`.
const ANN_ID: &str = "ann:RYbu6l5aZwqon8VWmkcGvezdzfc=";

/// Creates four znodes. `/open` is open to everyone, and `/ann` is ann's. `/was` was open and is
/// now hers. `/is` was hers and is now open.
async fn write(client: &Client) -> i64 {
    let hers = vec![Acl::new(31, "digest", ANN_ID)];
    let open = vec![Acl::open()];
    let with = |acl: &[Acl]| Create::persistent().with_acl(acl.to_vec());
    for (path, acl) in [
        ("/open", &open),
        ("/ann", &hers),
        ("/was", &open),
        ("/is", &hers),
    ] {
        client
            .create(path, "secret-1", &with(acl))
            .await
            .expect("create");
        client.set_data(path, "secret-2", 0).await.expect("set");
    }
    client.set_acl("/was", hers, 0).await.expect("set ACL");
    client.set_acl("/is", open, 0).await.expect("set ACL");
    let last = client.set_data("/open", "end", 1).await.expect("set");
    last.mzxid
}

/// Returns every command, with its parameters for this path.
fn questions(path: &str, then: &str, now: &str) -> Vec<String> {
    vec![
        format!("history/changes?path={path}"),
        format!("history/changes?path={path}&diff=true"),
        format!("history/blame?path={path}"),
        format!("history/cat?path={path}&at={then}"),
        format!("history/tree?path={path}&at={then}"),
        format!("history/diff?path={path}&from={then}&to={now}"),
    ]
}

#[tokio::test]
async fn every_question_is_refused_without_permission_then_and_now() {
    let Some(site) = Site::start(&[]) else { return };
    let client = site.super_client().await;
    let last = write(&client).await;
    site.wait_until_recorded(last);
    let now = format!("{last:#x}");
    // Each znode exists from its first zxid on, which is before the final ACLs are set.
    let moment = |path: &str| -> String {
        let target = format!("history/changes?path={path}&oldest_first=true&limit=1");
        let found = site.json(&target, Some(SUPER));
        found["results"][0]["zxid"]
            .as_str()
            .expect("a zxid")
            .to_owned()
    };
    for path in ["/ann", "/was", "/is"] {
        let then = moment(path);
        for target in questions(path, &then, &now) {
            for who in [None, Some(BOB)] {
                let answer = site.get(&target, who);
                let text = answer.text();
                // For a znode that is open now, the changes since then are visible, and earlier
                // ones are hidden.
                let is_partly =
                    path == "/is" && (target.contains("changes") || target.contains("blame"));
                if is_partly {
                    assert_eq!(answer.status, 200, "{target}: {text}");
                } else {
                    assert_eq!(answer.status, 403, "{target}: {text}");
                    assert!(text.contains("no permission to read"), "{text}");
                }
                let secret = base64("secret-1");
                assert!(!text.contains(&secret), "{target} {who:?}: {text}");
            }
            let hers = site.get(&target, Some(ANN));
            assert_eq!(hers.status, 200, "{target}: {}", hers.text());
        }
    }
    for target in questions("/open", &moment("/open"), &now) {
        assert_eq!(site.get(&target, None).status, 200, "{target}");
        // A request with an invalid header is not treated like one without a header.
        assert_eq!(site.get(&target, Some("nonsense")).status, 401, "{target}");
    }
    // Below a visible path, hidden changes are left out and counted.
    let all = site.all_pages("history/changes?path=/&recursive=true&limit=1000", None);
    let paths: Vec<&str> = results(&all)
        .iter()
        .filter_map(|c| c["path"].as_str())
        .collect();
    assert!(
        paths.contains(&"/open") && !paths.contains(&"/ann"),
        "{paths:?}"
    );
    assert!(all["hidden"].as_u64().expect("a number") > 0);
    let tree = site.all_pages(&format!("history/tree?path=/&at={now}"), None);
    let paths: Vec<&str> = results(&tree)
        .iter()
        .filter_map(|z| z["path"].as_str())
        .collect();
    assert!(
        paths.contains(&"/is") && !paths.contains(&"/was"),
        "{paths:?}"
    );
    // A page does not begin after a guessed path, because `hidden` would show whether it exists.
    let target = format!("history/tree?path=/&at={now}&after=/an");
    assert_eq!(site.get(&target, None).status, 403);
    assert_eq!(site.get(&target, Some(SUPER)).status, 200);
}

/// A znode that was open, then closed, and then deleted stays closed.
#[tokio::test]
async fn a_deletion_reveals_nothing_and_origins_need_an_administrator() {
    let Some(site) = Site::start(&[]) else { return };
    let client = site.super_client().await;
    let written = write(&client).await;
    site.wait_until_recorded(written);
    let then = site.json("history/changes?path=/was&oldest_first=true", Some(SUPER));
    let then = results(&then)[0]["zxid"]
        .as_str()
        .expect("a zxid")
        .to_owned();
    client.delete("/was", -1).await.expect("delete");
    let last = client.set_data("/open", "end", -1).await.expect("set");
    site.wait_until_recorded(last.mzxid);
    let now = format!("{:#x}", last.mzxid);
    for target in questions("/was", &then, &now) {
        for who in [None, Some(BOB)] {
            let refused = site.get(&target, who);
            assert_eq!(refused.status, 403, "{target}: {}", refused.text());
        }
        assert_eq!(site.get(&target, Some(ANN)).status, 200, "{target}");
    }
    // The author of a change is not public. A filter cannot reveal it either.
    let target = "history/changes?path=/open&diff=true";
    let session = format!("{:#x}", client.session_id().0);
    for who in [None, Some(BOB)] {
        let text = site.get(target, who).text();
        assert!(
            !text.contains(&session) && !text.contains("127.0.0.1"),
            "{text}"
        );
        let page = site.json(target, who);
        let change = &results(&page)[0];
        for name in ["session", "cxid", "client", "identities"] {
            assert_eq!(change[name], Value::Null, "{name}");
        }
        for choice in ["by=127.0.0.1".to_owned(), format!("session={session}")] {
            let refused = site.get(&format!("{target}&{choice}"), who);
            assert_eq!(refused.status, 403, "{choice}: {}", refused.text());
        }
    }
    let supers = site.get(target, Some(SUPER)).text();
    assert!(
        supers.contains(&session) && supers.contains("127.0.0.1"),
        "{supers}"
    );
}

#[tokio::test]
async fn commands_and_the_feed_are_refused_equally() {
    let Some(site) = Site::start(&[]) else { return };
    let client = site.super_client().await;
    let last = write(&client).await;
    site.wait_until_recorded(last);
    let now = format!("{last:#x}");
    for words in [
        vec!["history", "/ann"],
        vec!["history", "blame", "/ann"],
        vec!["cat", "/ann", "--at", &now],
        vec!["tree", "/ann", "--at", &now],
        vec!["diff", "/was", "--from", "0x7", "--to", &now],
        vec![
            "restore-path",
            "/ann",
            "--at",
            &now,
            "--dry-run",
            "--connect",
            "127.0.0.1:1",
        ],
    ] {
        let refused = site.tool(&words);
        assert_eq!(refused.status.code(), Some(5), "{words:?}");
        let text = stderr(&refused);
        assert!(text.contains("no permission to read"), "{words:?}: {text}");
    }
    // The feed leaves out hidden changes. The last change is open to everyone.
    let address = site.admin_address();
    let watch = |who: &[&str], limit: &str| {
        let words = [
            "watch", "/", "--from", "0x1", "--output", "json", "--limit", limit,
        ];
        lines(&zoarium(
            &[&words[..], &["--server", &address], who].concat(),
        ))
    };
    // Three changes of /open, and the last change of /is.
    let seen = watch(&[], "4");
    let paths: Vec<&str> = seen.iter().filter_map(|c| c["path"].as_str()).collect();
    assert_eq!(paths, ["/open", "/open", "/is", "/open"]);
    let hers = watch(&["--auth", ANN], "11");
    assert_eq!(hers.len(), 11);
}

#[tokio::test]
async fn only_super_users_see_password_hashes_and_the_member_list() {
    let Some(site) = Site::start(&[]) else { return };
    let client = site.super_client().await;
    let last = write(&client).await;
    site.wait_until_recorded(last);
    let hash = ANN_ID.split_once(':').expect("two parts").1;
    let target = "history/changes?path=/ann&diff=true";
    let hers = site.get(target, Some(ANN)).text();
    assert!(hers.contains("ann:***") && !hers.contains(hash), "{hers}");
    let supers = site.get(target, Some(SUPER)).text();
    assert!(supers.contains(hash), "{supers}");
    // A plan from an ACL that is only partly visible would damage the ACL.
    let connect = site.server.address();
    let now = format!("{last:#x}");
    client.delete("/ann", -1).await.expect("delete");
    let words = [
        "restore-path",
        "/ann",
        "--at",
        &now,
        "--connect",
        &connect,
        "--yes",
    ];
    let refused = site.tool(&[&words[..], &["--auth", ANN]].concat());
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        stderr(&refused).contains("super user"),
        "{}",
        stderr(&refused)
    );
    let done = site.tool(&[&words[..], &["--auth", SUPER]].concat());
    assert!(done.status.success(), "{}", stderr(&done));
    let acl = client.get_acl("/ann").await.expect("an ACL").0;
    assert_eq!(acl, [Acl::new(31, "digest", ANN_ID)]);
}

fn results(page: &Value) -> &[Value] {
    page["results"].as_array().expect("results")
}

fn base64(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}
