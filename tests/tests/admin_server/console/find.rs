//! Searches and filters of the console.

use proto::Acl;
use proto::data::perms;
use proto::request::{Request, flags};
use serde_json::{Value, json};
use tests::RawSession;
use tests::requests::{create, set_acl};

use super::{Visit, found};
use crate::site::Site;

/// More results than a page contains.
const MANY: usize = 130;

/// Returns the pages of a search, each as the paths and places of its results.
fn search(visit: &Visit, parameters: &str) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    let mut from = json!(0);
    while !from.is_null() {
        let target = format!("/console/search?{parameters}&from={from}");
        let page = found(&visit.ask("GET", &target, None));
        let results = page["results"].as_array().expect("results").iter();
        let texts = results.map(|result| {
            let part = |name: &str| result[name].as_str().expect("a text");
            format!("{} {}", part("path"), part("in"))
        });
        pages.push(texts.collect());
        from = page["next"].clone();
    }
    pages
}

#[test]
fn a_search_finds_znodes_that_its_visitor_may_read() {
    let Some(site) = Site::start::<&str>(&[]) else {
        return;
    };
    let mut session = RawSession::open(&site.server.address(), None, 30_000).expect("a session");
    let mut write = |write| {
        let answer = session.call(&Request::Write(write)).expect("an answer");
        assert_eq!(answer.err, 0);
    };
    for (path, data) in [
        ("/app", ""),
        ("/app/Needle", ""),
        ("/app/hay", "a NEEDLE in the hay"),
        ("/closed", "needle"),
        ("/closed/needle", ""),
        ("/many", ""),
    ] {
        write(create(path, data, flags::PERSISTENT));
    }
    let nobody_else = [Acl::new(perms::READ, "ip", "10.0.0.1")];
    write(set_acl("/closed", &nobody_else, -1));
    for number in 0..MANY {
        write(create(
            &format!("/many/item-{number:03}"),
            "",
            flags::PERSISTENT,
        ));
    }
    let nobody = Visit::begin(site.port);
    let wanted = [["/app/Needle name", "/app/hay data"]];
    assert_eq!(search(&nobody, "text=needle"), wanted);
    assert_eq!(
        search(&nobody, "text=needle&in=names"),
        [["/app/Needle name"]]
    );
    assert_eq!(search(&nobody, "text=needle&path=/many"), [[""; 0]]);
    let operator = Visit::begin(site.port);
    found(&operator.log_in("super", "secret"));
    let all = search(&operator, "text=needle").concat();
    assert_eq!(all.len(), 4, "{all:?}");

    let pages = search(&nobody, "text=item-&path=/many");
    assert!(pages.len() > 1 && pages.iter().all(|page| page.len() <= 100));
    assert_eq!(pages.concat().len(), MANY);

    for wrong in [
        "",
        "text=",
        "text=x&from=y",
        &format!("text={}", "x".repeat(257)),
    ] {
        let target = format!("/console/search?{wrong}");
        let answer = nobody.ask("GET", &target, None);
        assert_eq!(answer.status, 400, "{wrong}: {}", answer.text());
    }
    // A filter of children, and completion.
    let filtered = nobody.ask("GET", "/console/children?path=/many&like=TEM-12", None);
    let filtered = found(&filtered);
    assert_eq!(filtered["total"], 10);
    let names = filtered["children"].as_array().expect("children").iter();
    let names: Vec<&Value> = names.map(|child| &child["name"]).collect();
    assert_eq!((names.len(), names[0]), (10, &json!("item-120")));
}
