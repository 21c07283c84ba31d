//! Long lists, themes and a narrow window in a real browser. Requests and bytes are counted, and
//! time is not measured.

use proto::request::{Request, flags};
use serde_json::json;
use tests::requests::create;
use tests::{Browser, RawSession, or_skip};

use super::browser::log_in;
use super::reported::{edit_large_data, write_changes};
use crate::site::Site;

/// Number of children of the large znode.
const CHILDREN: usize = 20_000;
/// Number of changes of the long history.
const CHANGES: usize = 100_000;
/// Requests that are in flight at a time while the children are created.
const BATCH: usize = 1_000;

/// Creates `/big` and its children, with as many digits as the largest number has.
pub(super) fn fill(session: &mut RawSession, children: usize) {
    let digits = children.to_string().len();
    let root = create("/big", "", flags::PERSISTENT);
    assert_eq!(
        session.call(&Request::Write(root)).expect("an answer").err,
        0
    );
    for first in (0..children).step_by(BATCH) {
        for number in first..first + BATCH {
            let path = format!("/big/item-{number:0digits$}");
            session.put(&Request::Write(create(&path, "", flags::PERSISTENT)));
        }
        session.flush().expect("sent");
        for _ in 0..BATCH {
            assert_eq!(session.take().expect("an answer").err, 0);
        }
    }
}

/// Returns the number of requests that match an expression since the last call, and the bytes of
/// their answers.
fn requests(browser: &Browser, expression: &str) -> (u64, u64) {
    let script = "const wanted = new RegExp(`/console/(${arguments[0]})`);\
        const all = performance.getEntriesByType('resource').filter((one) => wanted.test(one.name));\
        performance.clearResourceTimings();\
        return [all.length, all.reduce((sum, one) => sum + one.encodedBodySize, 0)];";
    let found = browser.run(script, &[json!(expression)]);
    let number = |at: usize| found[at].as_u64().expect("a number");
    (number(0), number(1))
}

fn names() -> &'static str {
    "[...document.querySelectorAll('.tree .name')].map((one) => one.textContent)"
}

#[test]
#[ignore = "drives a browser"]
fn a_long_list_scrolls_and_loads_only_what_it_shows() {
    let Some(browser) = or_skip("a long list in a browser", Browser::start()) else {
        return;
    };
    let Some(site) = Site::start(&[("maxSessionTimeout", "600000")]) else {
        return;
    };
    let mut session = RawSession::open(&site.server.address(), None, 600_000).expect("a session");
    fill(&mut session, CHILDREN);
    let base = format!("http://127.0.0.1:{}/", site.port);
    // A link selects its row, wherever it is.
    browser.go(&format!("{base}#/tree/big/item-09000"));
    browser.wait(
        "document.querySelector('[role=treeitem][aria-selected=true]')?.ariaLabel === 'item-09000'",
    );
    let row = "document.querySelector('[aria-selected=true]')";
    let visible = format!(
        "return (() => {{ const box = document.querySelector('.tree').getBoundingClientRect();\
         const row = {row}.getBoundingClientRect();\
         return row.top >= box.top && row.bottom <= box.bottom; }})()"
    );
    assert_eq!(browser.run(&visible, &[]), true);
    let (count, bytes) = requests(&browser, "children");
    assert!(
        count <= 8 && bytes < 200_000,
        "{count} requests, {bytes} bytes"
    );
    let place = format!("return [{row}.ariaSetSize, {row}.ariaPosInSet]");
    assert_eq!(
        browser.run(&place, &[]),
        json!([CHILDREN.to_string(), "9001"])
    );

    // Few rows exist, although the list is long.
    let rows = "return document.querySelectorAll('[role=treeitem]').length";
    assert!(
        browser
            .run(rows, &[])
            .as_u64()
            .is_some_and(|rows| rows < 100)
    );
    // The last row, with the keyboard.
    browser.run("document.querySelector('.tree').focus()", &[]);
    browser.press(&["\u{e010}"]);
    browser.wait(&format!("{}.at(-1) === 'zookeeper'", names()));
    browser.press(&["\u{e013}"]);
    browser.wait(&format!("{}.includes('item-19999')", names()));
    browser.press(&["\u{e007}"]);
    browser.wait("location.hash === '#/tree/big/item-19999'");
    let (count, bytes) = requests(&browser, "children");
    assert!(
        count <= 4 && bytes < 100_000,
        "{count} requests, {bytes} bytes"
    );

    filter(&browser, &mut session);
}

/// The filter runs on the server, and follows the changes of other clients.
fn filter(browser: &Browser, session: &mut RawSession) {
    browser.run("document.querySelector('.filter').focus()", &[]);
    browser.type_text("M-0123");
    let wanted: Vec<String> = (1_230..1_240).map(|at| format!("item-{at:05}")).collect();
    let is_wanted = format!(
        "JSON.stringify({}.filter((name) => name.startsWith('item'))) === JSON.stringify({})",
        names(),
        json!(wanted)
    );
    browser.wait(&is_wanted);
    let (count, bytes) = requests(browser, "children");
    assert!(
        count <= 8 && bytes < 100_000,
        "{count} requests, {bytes} bytes"
    );
    // Another client creates a matching child and a different one.
    for name in ["item-01230-new", "other"] {
        let write = create(&format!("/big/{name}"), "", flags::PERSISTENT);
        let answer = session.call(&Request::Write(write)).expect("an answer");
        assert_eq!(answer.err, 0);
    }
    browser.wait(&format!("{}.includes('item-01230-new')", names()));
    assert_eq!(
        browser.run(&format!("return {}.includes('other')", names()), &[]),
        false
    );
}

#[test]
#[ignore = "drives a browser"]
fn a_large_value_and_a_long_history_take_few_requests() {
    let Some(browser) = or_skip("large data in a browser", Browser::start()) else {
        return;
    };
    let settings = [
        ("history.enabled", "true"),
        ("history.minFreeMegabytes", "0"),
        ("maxSessionTimeout", "600000"),
    ];
    let Some(site) = Site::start(&settings) else {
        return;
    };
    let mut session = RawSession::open(&site.server.address(), None, 600_000).expect("a session");
    browser.go(&format!("http://127.0.0.1:{}/", site.port));
    log_in(&browser);
    browser.run("performance.clearResourceTimings()", &[]);
    edit_large_data(&browser, &mut session);
    // The znode, its data for the editor, the change, and the znode again.
    let (count, bytes) = requests(&browser, "node|data");
    assert!(
        count <= 5 && bytes < 1_300_000,
        "{count} requests, {bytes} bytes"
    );

    write_changes(&mut session, site.port, CHANGES);
    browser.run("location.hash = '#/history/app'", &[]);
    let rows =
        |name: &str| format!("document.querySelectorAll('[aria-label=\"{name}\"] tbody tr')");
    browser.wait(&format!("{}.length === 100", rows("Changes")));
    browser.wait(&format!("{}.length === 1", rows("Differences")));
    browser.wait(&format!("{}.length === 1", rows("The tree at that moment")));
    let (count, bytes) = requests(&browser, "history");
    assert!(
        count <= 4 && bytes < 100_000,
        "{count} requests, {bytes} bytes"
    );
    browser.click("Load older changes");
    browser.wait(&format!("{}.length === 200", rows("Changes")));
    let (count, bytes) = requests(&browser, "history");
    assert!(
        count == 1 && bytes < 100_000,
        "{count} requests, {bytes} bytes"
    );
}

#[test]
#[ignore = "drives a browser"]
fn the_theme_is_kept_and_a_phone_shows_all_views() {
    let Some(browser) = or_skip("themes in a browser", Browser::start()) else {
        return;
    };
    let Some(site) = Site::start(&[("history.enabled", "true"), ("maxSessionTimeout", "600000")])
    else {
        return;
    };
    let base = format!("http://127.0.0.1:{}/", site.port);
    browser.go(&base);
    browser.prefer("light");
    let colour = "return getComputedStyle(document.body).backgroundColor";
    let light = browser.run(colour, &[]);
    browser.prefer("dark");
    let dark = browser.run(colour, &[]);
    assert_ne!(light, dark, "the theme of the system applies first");
    browser.wait("document.querySelector('.theme select') !== null");
    let choose = "const theme = document.querySelector('.theme select'); theme.value = arguments[0];\
        theme.dispatchEvent(new Event('change'));";
    browser.run(choose, &[json!("light")]);
    assert_eq!(browser.run(colour, &[]), light);
    browser.run("location.reload()", &[]);
    browser.wait("document.querySelector('.theme select')?.value === 'light'");
    assert_eq!(browser.run(colour, &[]), light, "the choice is kept");
    browser.run(choose, &[json!("system")]);
    assert_eq!(browser.run(colour, &[]), dark);

    browser.size(390, 844);
    for view in [
        "ensemble",
        "tree/zookeeper",
        "sessions",
        "clients",
        "history/",
        "log",
    ] {
        browser.go(&format!("{base}#/{view}"));
        browser.wait("document.querySelector('main h1') !== null");
        browser.wait("document.getElementById('verdict').textContent !== ''");
        let wide =
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
        assert_eq!(browser.run(wide, &[]), 0, "{view} is wider than a phone");
    }
}
