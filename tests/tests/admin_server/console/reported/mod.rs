//! Figures of faults, and with large data: `ZOARIUM_CONSOLE_FIGURES=<changes>` with a release build prints them. The
//! value is the number of changes in the history. With a value below 1,000,000, the large znode has
//! only this number of children.

mod faults;
mod screenshots;

use std::time::{Duration, Instant};

use proto::request::{Request, flags};
use serde_json::{Value, json};
use tests::requests::{create, set_data};
use tests::{Browser, RawSession, or_skip, wait_for};

use super::browser::log_in;
use super::lists::fill;
use super::{Visit, found};
use crate::site::Site;

/// Maximum number of children of the large znode.
const CHILDREN_MAX: usize = 1_000_000;
/// Size of the edited data, in bytes.
const DATA_BYTES: usize = 1_000_000;
/// Requests that are in flight at a time while the history is written.
const BATCH: usize = 2_000;
/// Time limit for the history to record all changes.
const RECORDED_LIMIT: Duration = Duration::from_secs(1_800);

/// Returns the value of the variable, with which a person runs these tests.
fn asked() -> Option<usize> {
    let value = std::env::var_os("ZOARIUM_CONSOLE_FIGURES")?;
    let value = value.to_str().and_then(|text| text.parse().ok());
    Some(value.expect("the number of changes"))
}

/// Runs statements in the page, and returns the milliseconds until an expression is true.
fn measure(browser: &Browser, statements: &str, until: &str) -> u64 {
    let script = format!(
        "const done = arguments[0]; const start = performance.now();\
         const elapsed = () => Math.round(performance.now() - start); {statements};\
         const look = () => (({until}) ? requestAnimationFrame(() => done(elapsed()))\
         : requestAnimationFrame(look)); look();"
    );
    browser.run_to_its_end(&script).as_u64().expect("a time")
}

/// Prints the requests for znodes and changes since the last call: their number, the bytes of all
/// answers, and the time until the slowest answer.
fn report_requests(browser: &Browser, name: &str) {
    let script = "const all = performance.getEntriesByType('resource')\
        .filter((one) => /console\\/(children|node|data|stat|history)/.test(one.name));\
        performance.clearResourceTimings();\
        return [all.length, all.reduce((sum, one) => sum + one.encodedBodySize, 0),\
            Math.round(Math.max(0, ...all.map((one) => one.duration)))];";
    let found = browser.run(script, &[]);
    report(
        &format!("{name}: requests, bytes, ms of the slowest"),
        found,
    );
}

/// Prints a figure.
fn report(name: &str, value: impl Into<Value>) {
    println!("{}", json!({ "figure": name, "value": value.into() }));
}

/// Reports the first visit to a server in a browser that has shown the console of another server.
fn first_paint(browser: &Browser, base: &str) {
    let Some(other) = Site::start::<&str>(&[]) else {
        return;
    };
    browser.go(&format!("http://127.0.0.1:{}/", other.port));
    browser.wait("document.querySelectorAll('.chart canvas').length === 8");
    browser.go(base);
    browser.wait("document.querySelectorAll('.chart canvas').length === 8");
    let paint =
        "return Math.round(performance.getEntriesByName('first-contentful-paint')[0].startTime)";
    report("first paint, ms", browser.run(paint, &[]));
    let bytes = "return [...performance.getEntriesByType('resource'), ...performance.getEntriesByType('navigation')]\
        .filter((one) => /\\.(js|css|svg)$|\\/$/.test(new URL(one.name).pathname))\
        .reduce((sum, one) => sum + one.encodedBodySize, 0)";
    report("page weight, compressed bytes", browser.run(bytes, &[]));
}

fn many_children(browser: &Browser, session: &mut RawSession, children: usize) {
    fill(session, children);
    browser.run("performance.clearResourceTimings()", &[]);
    let digits = children.to_string().len();
    let number = |of_million: usize| format!("{:0digits$}", children * of_million / 1_000_000);
    let named = |number: &str| {
        format!(
            "[...document.querySelectorAll('.tree .name')]\
             .some((one) => one.textContent === 'item-{number}')"
        )
    };
    let first = number(0);
    let rows = measure(
        browser,
        &format!("location.hash = '#/tree/big/item-{first}'"),
        &named(&first),
    );
    report(&format!("first rows of {children} children, ms"), rows);
    report_requests(browser, "first rows");
    let jump = measure(
        browser,
        &format!("location.hash = '#/tree/big/item-{}'", number(900_000)),
        &format!(
            "document.querySelector('[role=treeitem][aria-selected=true]')?.ariaLabel === 'item-{}'",
            number(900_000)
        ),
    );
    report("jump to a row, ms", jump);
    report_requests(browser, "jump");
    let wanted = number(12_345);
    let filter = measure(
        browser,
        &format!(
            "const box = document.querySelector('.filter'); box.value = '{wanted}';\
             box.dispatchEvent(new Event('input'))"
        ),
        &format!(
            "{} && document.querySelectorAll('.tree .name').length < 10",
            named(&wanted)
        ),
    );
    report("filter, ms", filter);
    report_requests(browser, "filter");
    let heap = browser.run("return performance.memory.usedJSHeapSize", &[]);
    report("heap of the browser, bytes", heap);
}

pub(super) fn edit_large_data(browser: &Browser, session: &mut RawSession) {
    let line = "0123456789 0123456789 0123456789 0123456789 0123456789 01234567\n";
    let data = line.repeat(DATA_BYTES / line.len());
    let write = Request::Write(create("/large", data, flags::PERSISTENT));
    assert_eq!(session.call(&write).expect("an answer").err, 0);
    browser.run("location.hash = '#/tree/large'", &[]);
    browser.wait("document.querySelector('pre.data') !== null && document.getElementById('edit-data') !== null");
    let content = "document.querySelector('.editor')?.shadowRoot?.querySelector('.cm-content')";
    let opened = measure(
        browser,
        "document.getElementById('edit-data').click()",
        &format!("Boolean({content})"),
    );
    report("open the editor with 1 MB, ms", opened);
    browser.press(&["x"]);
    browser.wait("document.querySelector('.edit .primary').disabled === false");
    let saved = measure(
        browser,
        "document.querySelector('.edit .primary').click()",
        "document.querySelector('.editor') === null && document.querySelector('pre.data')?.textContent.startsWith('x')",
    );
    report("save 1 MB, ms", saved);
}

/// Writes changes, and waits until the history has recorded them.
pub(super) fn write_changes(session: &mut RawSession, port: u16, changes: usize) {
    let start = Instant::now();
    let write = Request::Write(create("/app", "", flags::PERSISTENT));
    assert_eq!(session.call(&write).expect("an answer").err, 0);
    for first in (0..changes).step_by(BATCH) {
        let batch = BATCH.min(changes - first);
        for number in first..first + batch {
            session.put(&Request::Write(set_data("/app", number.to_string(), -1)));
        }
        session.flush().expect("sent");
        for _ in 0..batch {
            assert_eq!(session.take().expect("an answer").err, 0);
        }
    }
    report("changes written, s", start.elapsed().as_secs());
    let visit = Visit::begin(port);
    wait_for("record of all changes", RECORDED_LIMIT, || {
        let answer = visit.ask("GET", "/console/history/changes?path=/app&limit=1", None);
        let newest = found(&answer)["results"][0]["version"].as_u64()?;
        (newest == changes as u64).then_some(())
    });
}

#[test]
#[ignore = "drives a browser"]
fn figures_with_large_data() {
    let Some(changes) = asked() else {
        return;
    };
    let Some(browser) = or_skip("figures of the console", Browser::start()) else {
        return;
    };
    let settings = [
        ("history.enabled", "true"),
        ("history.minFreeMegabytes", "0"),
        ("maxSessionTimeout", "3600000"),
    ];
    let Some(site) = Site::start(&settings) else {
        return;
    };
    let mut session = RawSession::open(&site.server.address(), None, 3_600_000).expect("a session");
    let base = format!("http://127.0.0.1:{}/", site.port);
    first_paint(&browser, &base);
    log_in(&browser);
    many_children(&browser, &mut session, changes.min(CHILDREN_MAX));
    edit_large_data(&browser, &mut session);
    write_changes(&mut session, site.port, changes);
    browser.run("performance.clearResourceTimings()", &[]);
    let painted = measure(
        &browser,
        "location.hash = '#/history/app'",
        "document.querySelectorAll('[aria-label=Changes] tbody tr').length > 1",
    );
    report(
        &format!("history with {changes} changes, first paint, ms"),
        painted,
    );
    report_requests(&browser, "history");
}
