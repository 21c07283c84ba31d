//! Copies, moves, exports and imports of subtrees in a real browser.

use std::process::Command;

use proto::request::{Request, flags};
use serde_json::json;
use tests::requests::create;
use tests::{Browser, RawSession, zoarium_binary};

use super::{CLOSED, exists};
use crate::console::browser::{check, shows, write};
use crate::site::Site;

/// Returns the lines that the command `export` writes.
fn exported(address: &str, path: &str) -> String {
    let mut command = Command::new(zoarium_binary());
    command.args(["cli", "-server", address, "export", path]);
    let output = command.output().expect("run zoarium export");
    String::from_utf8(output.stdout).expect("text")
}

/// Shows a znode.
fn show(browser: &Browser, base: &str, path: &str) {
    browser.go(&format!("{base}#/tree{path}"));
    browser.wait(&format!(
        "document.querySelector('.crumbs')?.textContent === '{path}'"
    ));
}

/// Replaces the path in the open dialog, and confirms it.
fn enter_path(browser: &Browser, path: &str) {
    browser.wait("document.activeElement?.name === 'to'");
    browser.chord(&["\u{e009}", "a"]);
    browser.type_text(path);
    browser.press(&["\u{e007}"]);
}

/// Copies `/app/a` and moves the copy.
fn copy_and_move(browser: &Browser, session: &mut RawSession, base: &str) {
    show(browser, base, "/app/a");
    browser.click("Copy");
    browser.wait("document.activeElement?.value === '/app/a-copy'");
    enter_path(browser, "/app/a/below");
    browser
        .wait("document.querySelector('dialog[open] .wrong')?.textContent.includes('or below it')");
    enter_path(browser, "/app/copied");
    browser.wait(CLOSED);
    assert!(exists(session, "/app/a/b/c") && exists(session, "/app/copied/b/c"));
    show(browser, base, "/app/copied");
    browser.click("Move");
    enter_path(browser, "/app/moved");
    browser.wait("location.hash === '#/tree/app/moved'");
    assert!(exists(session, "/app/moved/b/c") && !exists(session, "/app/copied"));
    // A refusal names the reason, and nothing is lost.
    show(browser, base, "/app/a");
    browser.click("Move");
    enter_path(browser, "/app/moved");
    browser.wait(
        "document.querySelector('dialog[open] .wrong')?.textContent.includes('Nothing was deleted')",
    );
    browser.click("Cancel");
    browser.click("Discard the text");
    browser.wait(CLOSED);
}

/// Selects both subtrees in the tree.
fn select(browser: &Browser) {
    browser.click("Select several");
    for name in ["a", "moved"] {
        let row = format!("document.querySelector('[role=treeitem][aria-label^=\"{name},\"]')");
        browser.wait(&format!("{row} !== null"));
        browser.run(&format!("{row}.click()"), &[]);
        browser.wait(&format!("{row}.ariaChecked === 'true'"));
    }
    browser.wait("document.querySelector('.marked')?.textContent.includes('2 subtrees selected')");
}

/// Exports both subtrees, deletes them, and imports them again.
fn export_and_import(browser: &Browser, axe: &str, session: &mut RawSession, address: &str) {
    select(browser);
    check(browser, axe, "a selection of several znodes");
    // The file is not written to the disk.
    let keep = "HTMLAnchorElement.prototype.click = () => {};\
        URL.createObjectURL = (file) => { window.file = file; return 'blob:none'; };";
    browser.run(keep, &[]);
    browser.click("Export selected");
    browser.wait("window.file !== undefined");
    let read = "const done = arguments[0]; window.file.text().then(done, done);";
    let text = browser.run_to_its_end(read);
    let wanted = exported(address, "/app/a") + &exported(address, "/app/moved");
    assert_eq!(text, wanted);

    browser.click("Delete selected");
    browser.wait("document.querySelector('dialog[open] input[name=confirmed]') !== null");
    let focus = "document.querySelector('dialog[open] input[name=confirmed]').focus()";
    browser.run(focus, &[]);
    browser.type_text("2");
    browser.press(&["\u{e007}"]);
    browser.wait(CLOSED);
    assert!(!exists(session, "/app/a") && !exists(session, "/app/moved"));

    browser.click("Import");
    browser.wait("document.querySelector('dialog[open] input[type=file]') !== null");
    let choose = "const list = new DataTransfer();\
        list.items.add(new File([arguments[0]], 'export.jsonl'));\
        document.querySelector('dialog[open] input[type=file]').files = list.files;";
    browser.run(choose, &[json!(wanted)]);
    check(browser, axe, "the dialog to import a file");
    browser.click("Import");
    browser.wait(CLOSED);
    assert_eq!(
        exported(address, "/app/a") + &exported(address, "/app/moved"),
        wanted
    );
}

/// Works below `/app`, which contains `a/b/c`.
pub(super) fn all(browser: &Browser, axe: &str, session: &mut RawSession, site: &Site) {
    let (base, address) = (
        format!("http://127.0.0.1:{}/", site.port),
        site.server.address(),
    );
    write(session, create("/app/a/b/data", "ü\n", flags::PERSISTENT));
    copy_and_move(browser, session, &base);
    browser.go(&format!("{base}#/tree/app/moved/b/data"));
    browser.wait(&shows("ü\n"));
    show(browser, &base, "/");
    export_and_import(browser, axe, session, &address);
    let delete = tests::requests::delete("/app/a/b/data", 0);
    assert_eq!(
        session
            .call(&Request::Write(delete))
            .expect("an answer")
            .err,
        0
    );
}
