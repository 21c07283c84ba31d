//! A visitor without a pointer creates, edits, compares and restores znodes.

use proto::response::GetDataResponse;
use serde_json::json;
use tests::requests::get_data;
use tests::{Browser, RawSession};

use super::{CLOSED, exists};
use crate::console::browser::{EDITOR, save, shows};

const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";
const SHIFT: &str = "\u{e008}";
const CONTROL: &str = "\u{e009}";
const HOME: &str = "\u{e011}";
const RIGHT: &str = "\u{e014}";

/// Maximum number of steps to an element of a page.
const STEPS_MAX: usize = 80;

/// Moves the focus with `keys` until it is at an element whose name begins with a text.
fn focus(browser: &Browser, keys: &[&str], name: &str) {
    let script = "const one = document.activeElement;\
        const name = one.ariaLabel ?? one.labels?.[0]?.firstChild.textContent ?? one.textContent;\
        return name.trim().startsWith(arguments[0]);";
    for _ in 0..STEPS_MAX {
        browser.chord(keys);
        if browser.run(script, &[json!(name)]) == true {
            return;
        }
    }
    panic!("the keys {keys:?} never reach {name:?}");
}

/// Moves the focus forward to an element.
fn next(browser: &Browser, name: &str) {
    focus(browser, &[TAB], name);
}

/// Moves the focus backward to an element.
fn previous(browser: &Browser, name: &str) {
    focus(browser, &[SHIFT, TAB], name);
}

fn press(browser: &Browser, name: &str) {
    next(browser, name);
    browser.press(&[ENTER]);
}

fn data_of(session: &mut RawSession, path: &str) -> String {
    let answer = session.call(&get_data(path)).expect("an answer");
    let read: GetDataResponse = answer.record();
    String::from_utf8(read.data.unwrap_or_default().to_vec()).expect("text")
}

/// Opens a znode by its path.
fn open(browser: &Browser, path: &str) {
    browser.chord(&[CONTROL, "k"]);
    browser.wait("document.activeElement.role === 'combobox'");
    browser.type_text(path);
    browser.press(&[ENTER]);
    browser.wait(&format!("location.hash === '#/tree{path}'"));
}

fn create(browser: &Browser, session: &mut RawSession) {
    press(browser, "Create below");
    browser.wait("document.activeElement?.name === 'name'");
    browser.type_text("keys/doc");
    next(browser, "Data, as text");
    browser.type_text("one");
    press(browser, "Create");
    browser.wait(CLOSED);
    assert!(exists(session, "/keys/doc"));
}

fn edit(browser: &Browser, session: &mut RawSession) {
    open(browser, "/keys/doc");
    browser.wait(&shows("one"));
    press(browser, "Edit data");
    browser.wait(EDITOR);
    browser.chord(&[CONTROL, "a"]);
    browser.type_text("two");
    save(browser);
    browser.wait(&shows("two"));
    assert_eq!(data_of(session, "/keys/doc"), "two");
    // The focus does not get lost together with the editor.
    browser.wait("document.activeElement?.id === 'edit-data'");
}

/// Compares the versions of the znode, and returns to the first one.
fn restore_a_version(browser: &Browser, session: &mut RawSession) {
    previous(browser, "History");
    browser.press(&[ENTER]);
    browser.wait("location.hash === '#/tree/keys/doc?history'");
    let rows = "document.querySelectorAll('[aria-label=\"Changes of this znode\"] tbody tr')";
    browser.wait(&format!("{rows}.length === 2"));
    press(browser, "set");
    browser.wait("document.querySelector('.diff')?.textContent.includes('removed: - one')");
    browser.wait("document.querySelector('.diff')?.textContent.includes('added: + two')");
    press(browser, "create");
    // The page shows the content after the browser has opened the element.
    browser.wait(&format!("{rows}[1].querySelector('details button')"));
    press(browser, "Edit with this version");
    browser.wait(EDITOR);
    browser.wait("location.hash === '#/tree/keys/doc'");
    browser.wait("document.querySelector('.edit .primary')?.disabled === false");
    save(browser);
    browser.wait(&shows("one"));
    assert_eq!(data_of(session, "/keys/doc"), "one");
}

/// Zooms and moves the time axis, and returns the subtree to an earlier moment.
fn restore_a_subtree(browser: &Browser, session: &mut RawSession) {
    previous(browser, "History");
    browser.press(&[ENTER]);
    press(browser, "Changes below this znode");
    browser.wait("location.hash === '#/history/keys/doc'");
    browser.wait("document.querySelectorAll('[aria-label=Changes] tbody tr').length === 3");
    next(browser, "Time axis from");
    let number = |name: &str| {
        let script =
            "return Number(document.querySelector('.axis-range').getAttribute(arguments[0]))";
        browser
            .run(script, &[json!(name)])
            .as_f64()
            .expect("a number")
    };
    let width = number("width");
    let wait_for = |name: &str, comparison: &str| {
        browser.wait(&format!(
            "document.querySelector('.axis-range').getAttribute('{name}') {comparison}"
        ));
    };
    browser.press(&["+"]);
    wait_for("width", &format!("> {width}"));
    let zoomed = number("x");
    browser.press(&[RIGHT]);
    wait_for("x", &format!("< {zoomed}"));
    browser.press(&["0"]);
    wait_for("width", &format!("< {width}"));
    // The tree after the second change.
    next(browser, "To");
    browser.press(&[HOME, RIGHT, RIGHT]);
    browser.wait("document.querySelectorAll('input[type=range]')[1].value === '2'");
    press(browser, "Restore this tree");
    let step = "document.querySelector('dialog[open] .plan code')?.textContent";
    assert_eq!(
        browser.wait(step),
        "set /keys/doc (3 bytes), if the data has version 2"
    );
    press(browser, "Restore");
    browser.wait(CLOSED);
    assert_eq!(data_of(session, "/keys/doc"), "two");
}

/// Uses only keys, from the login on.
pub(super) fn walk(browser: &Browser, session: &mut RawSession, base: &str) {
    browser.go("about:blank");
    browser.go(&format!("{base}#/tree/"));
    browser.wait("document.querySelector('.crumbs') !== null");
    press(browser, "Read only");
    browser.wait("document.activeElement?.name === 'user'");
    browser.type_text("ann");
    next(browser, "Password");
    browser.type_text("pw");
    browser.press(&[ENTER]);
    browser.wait("document.getElementById('identity').textContent === 'ann'");
    create(browser, session);
    edit(browser, session);
    restore_a_version(browser, session);
    restore_a_subtree(browser, session);
}
