//! Creating and deleting znodes in a real browser, with the keyboard where a form is open.

mod keyboard;
mod transfer;

use proto::request::{PathWatchRequest, ReadRequest, Request, flags};
use proto::response::GetAclResponse;
use proto::{Acl, ErrorCode, data::perms};
use serde_json::json;
use tests::requests::{create, delete, get_acl, set_acl, set_data};
use tests::{Browser, RawSession, axe, or_skip};

use super::browser::{check, log_in};
use crate::site::Site;

fn exists(session: &mut RawSession, path: &str) -> bool {
    let exists = PathWatchRequest {
        path: Some(path.into()),
        watch: false,
    };
    let asked = session.call(&Request::Read(ReadRequest::Exists(exists)));
    let error = asked.expect("an answer").err;
    assert!(error == 0 || error == ErrorCode::NoNode.code(), "{error}");
    error == 0
}

const CLOSED: &str = "document.querySelector('dialog[open]') === null";

/// Creates a znode several levels below, and does not lose the form to Escape.
fn create_with_parents(browser: &Browser, axe: &str, session: &mut RawSession) {
    browser.click("Create below");
    browser.wait("document.activeElement?.name === 'name'");
    browser.type_text("a/b/c");
    check(browser, axe, "the dialog to create a znode");
    browser.press(&["\u{e00c}"]);
    browser.wait("document.querySelector('dialog[open] .question') !== null");
    browser.press(&["\u{e00c}"]);
    browser.click("Keep editing");
    browser.wait("document.querySelector('dialog[open] input[name=name]').value === 'a/b/c'");
    browser.run(
        "document.querySelector('dialog[open] input[name=name]').focus()",
        &[],
    );
    browser.press(&["\u{e007}"]);
    browser.wait(CLOSED);
    for path in ["/app/a", "/app/a/b", "/app/a/b/c"] {
        assert!(exists(session, path), "{path}");
    }
}

/// Builds an ACL in the dialog, and creates a znode with it.
fn create_with_an_acl(browser: &Browser, axe: &str, session: &mut RawSession, base: &str) {
    browser.go(&format!("{base}#/tree/app"));
    browser.click("Create below");
    browser.wait("document.activeElement?.name === 'name'");
    browser.type_text("built");
    let choose = "const acl = document.querySelector('dialog[open] select[name=acl]');\
        acl.value = 'custom'; acl.dispatchEvent(new Event('change', { bubbles: true }));";
    browser.run(choose, &[]);
    browser.wait("document.querySelectorAll('dialog[open] fieldset').length === 1");
    browser.click("Add an entry");
    browser.wait("document.querySelectorAll('dialog[open] fieldset').length === 2");
    check(browser, axe, "the dialog to create a znode with an ACL");
    let toggle = "const [own, all] = document.querySelectorAll('dialog[open] fieldset');\
        const box = (of, name) => [...of.querySelectorAll('.perms label')]\
            .find((one) => one.textContent.trim() === name).querySelector('input');\
        box(own, 'delete').click(); box(all, 'create').click();";
    browser.run(toggle, &[]);
    browser.click("Create");
    browser.wait(CLOSED);
    let answer = session.call(&get_acl("/app/built")).expect("an answer");
    let read: GetAclResponse = answer.record();
    // The server hides the hash of the password from this session.
    assert_eq!(
        read.acl,
        [
            Acl::new(perms::ALL & !perms::DELETE, "digest", "ann:x"),
            Acl::new(perms::CREATE | perms::READ, "world", "anyone"),
        ]
    );
}

/// Deletes a subtree after its number of znodes was shown and its name was typed.
fn delete_a_subtree(browser: &Browser, axe: &str, session: &mut RawSession, base: &str) {
    browser.go(&format!("{base}#/tree/app/a"));
    browser.click("Delete");
    browser.wait("document.querySelector('dialog[open] input[name=confirmed]') !== null");
    browser.wait(
        "document.querySelector('dialog[open] [role=status]').textContent.startsWith('Deletes 3 znodes.')",
    );
    check(browser, axe, "the dialog to delete a subtree");
    let focus = "document.querySelector('dialog[open] input[name=confirmed]').focus()";
    browser.run(focus, &[]);
    browser.type_text("b");
    browser.press(&["\u{e007}"]);
    browser.wait("document.querySelector('dialog[open] .wrong') !== null");
    assert!(exists(session, "/app/a/b/c"));
    browser.run(focus, &[]);
    browser.press(&["\u{e003}", "a", "\u{e007}"]);
    browser.wait(CLOSED);
    browser.wait("location.hash === '#/tree/app'");
    assert!(!exists(session, "/app/a"));
    assert!(exists(session, "/app"));
}

/// The page shows the permissions of the visitor, and the ACL builder changes them.
fn permissions(browser: &Browser, axe: &str, base: &str) {
    browser.go(&format!("{base}#/tree/readable"));
    let text =
        "[...document.querySelectorAll('.pane p')].some((one) => one.textContent === arguments[0])";
    let says = |wanted: &str| text.replace("arguments[0]", &json!(wanted).to_string());
    browser.wait(&says(
        "Your permissions: read, admin. The ACL does not give you: create, delete, write.",
    ));
    browser.click("Edit ACL");
    browser.wait("document.querySelector('dialog[open] fieldset') !== null");
    check(browser, axe, "the dialog to change an ACL");
    let toggle = "[...document.querySelectorAll('dialog[open] .perms label')]\
        .find((one) => one.textContent.trim() === 'write').querySelector('input').click()";
    browser.run(toggle, &[]);
    browser.click("Save");
    browser.wait(&says(
        "Your permissions: read, write, admin. The ACL does not give you: create, delete.",
    ));
}

#[test]
#[ignore = "drives a browser"]
fn a_visitor_creates_and_deletes_subtrees() {
    let Some(axe) = or_skip("dialogs in a browser", axe()) else {
        return;
    };
    let Some(browser) = or_skip("dialogs in a browser", Browser::start()) else {
        return;
    };
    let Some(site) = Site::start(&[("maxSessionTimeout", "600000")]) else {
        return;
    };
    let mut session = RawSession::open(&site.server.address(), None, 600_000).expect("a session");
    let read_and_admin = Acl::new(perms::READ | perms::ADMIN, "world", "anyone");
    for write in [
        create("/app", "", flags::PERSISTENT),
        create("/readable", "", flags::PERSISTENT),
        set_acl("/readable", &[read_and_admin], -1),
    ] {
        let answer = session.call(&Request::Write(write)).expect("an answer");
        assert_eq!(answer.err, 0);
    }
    let base = format!("http://127.0.0.1:{}/", site.port);
    browser.go(&format!("{base}#/tree/app"));
    log_in(&browser);
    create_with_parents(&browser, &axe, &mut session);
    create_with_an_acl(&browser, &axe, &mut session, &base);
    transfer::all(&browser, &axe, &mut session, &site);
    delete_a_subtree(&browser, &axe, &mut session, &base);
    permissions(&browser, &axe, &base);
    let complaints: Vec<String> = browser
        .complaints()
        .into_iter()
        .filter(|line| !line.contains("status of 4"))
        .collect();
    assert!(complaints.is_empty(), "{complaints:?}");
}

/// Moves the sliders to the time from before the first change up to this change.
fn move_to(browser: &Browser, at: u32) {
    let slide = "const all = document.querySelectorAll('input[type=range]');\
        [0, arguments[0]].forEach((at, index) => {\
        all[index].value = at; all[index].dispatchEvent(new Event('input')); });";
    browser.run(slide, &[json!(at)]);
}

/// Writes the seven changes from which the visitor returns to the third.
fn write_history(session: &mut RawSession) {
    let mut write = |write| {
        let answer = session.call(&Request::Write(write)).expect("an answer");
        assert_eq!(answer.err, 0);
    };
    write(create("/app", "old", flags::PERSISTENT));
    write(create("/app/gone", "1", flags::PERSISTENT));
    write(create("/app/gone/below", "2", flags::PERSISTENT));
    write(set_data("/app", "new", 0));
    for path in ["/app/gone/below", "/app/gone"] {
        write(delete(path, 0));
    }
    write(create("/app/added", "", flags::PERSISTENT));
}

/// The page shows the plan of a subtree first, and then executes it with the visitor's permissions.
#[test]
#[ignore = "drives a browser"]
fn a_visitor_restores_a_subtree_after_its_plan_was_shown() {
    let Some(axe) = or_skip("a restore in a browser", axe()) else {
        return;
    };
    let Some(browser) = or_skip("a restore in a browser", Browser::start()) else {
        return;
    };
    let Some(site) = Site::start(&[("history.enabled", "true"), ("maxSessionTimeout", "600000")])
    else {
        return;
    };
    let mut session = RawSession::open(&site.server.address(), None, 600_000).expect("a session");
    write_history(&mut session);
    let base = format!("http://127.0.0.1:{}/", site.port);
    browser.go(&format!("{base}#/history/app"));
    log_in(&browser);
    browser.wait("document.querySelectorAll('[aria-label=Changes] tbody tr').length === 7");
    browser.wait("document.querySelector('main .chip')?.textContent === 'live'");
    browser.run("performance.clearResourceTimings()", &[]);
    move_to(&browser, 3);
    browser.wait("document.querySelectorAll('[aria-label=\"The tree at that moment\"] tbody tr').length === 3");
    browser.click("Restore this tree");
    let steps =
        "[...document.querySelectorAll('dialog[open] .plan code')].map((one) => one.textContent)";
    browser.wait(&format!("{steps}.length > 0"));
    assert_eq!(
        browser.run(&format!("return {steps}"), &[]),
        json!([
            "set /app (3 bytes), if the data has version 1",
            "create /app/gone (1 bytes)",
            "create /app/gone/below (1 bytes)",
            "delete /app/added, if the znode has version 0",
        ])
    );
    check(&browser, &axe, "the plan of a restore");
    assert!(exists(&mut session, "/app/added"), "only a plan");

    // Another client writes in the meantime: the version of the plan protects its data.
    let newer = Request::Write(set_data("/app", "newer", 1));
    assert_eq!(session.call(&newer).expect("an answer").err, 0);
    browser.click("Restore");
    browser.wait("document.querySelector('dialog[open] .wrong')?.textContent.includes('Steps executed before: 0')");
    browser.click("Cancel");
    browser.wait("document.querySelectorAll('[aria-label=Changes] tbody tr').length === 8");
    // The feed delivered the change: the page did not request it.
    let requests = "return performance.getEntriesByType('resource')\
        .filter((one) => /history.changes.*limit=100/.test(one.name)).length";
    assert_eq!(browser.run(requests, &[]), 0);
    move_to(&browser, 3);
    browser.click("Restore this tree");
    browser.wait(&format!(
        "{steps}[0] === 'set /app (3 bytes), if the data has version 2'"
    ));
    browser.click("Restore");
    browser.wait(CLOSED);
    assert!(exists(&mut session, "/app/gone/below") && !exists(&mut session, "/app/added"));

    // Without the permission, the server refuses the first step.
    let read_only = Acl::new(perms::READ, "world", "anyone");
    let closed = Request::Write(set_acl("/app", &[read_only], -1));
    assert_eq!(session.call(&closed).expect("an answer").err, 0);
    let again = "document.querySelectorAll('[aria-label=Changes] tbody tr').length >= 13";
    browser.wait(again);
    move_to(&browser, 4);
    browser.click("Restore this tree");
    browser.wait(&format!("{steps}.length > 0"));
    browser.click("Restore");
    browser.wait(
        "document.querySelector('dialog[open] .wrong')?.textContent.includes('does not permit')",
    );
    browser.click("Cancel");
    keyboard::walk(&browser, &mut session, &base);
}
