//! The web console in a real browser.

use std::time::Duration;

use proto::request::{PathWatchRequest, ReadRequest, Request, flags};
use proto::response::GetDataResponse;
use proto::{Acl, data::perms};
use serde_json::{Value, json};
use tests::requests::{create, get_data, set_acl, set_data};
use tests::{Browser, RawSession, axe, or_skip, wait_for};

use crate::site::Site;

/// Markup that would run if the page interpreted it.
const MARKUP: &str = "<img src=x onerror=\"window.injected=1\"><script>window.injected=1</script>";

/// The id of the user `ann` with the password `pw`.
pub(super) const ANN: &str = "ann:RYbu6l5aZwqon8VWmkcGvezdzfc=";

/// Expression that is true if the editor can be used.
pub(super) const EDITOR: &str =
    "Boolean(document.querySelector('.editor')?.shadowRoot?.querySelector('.cm-content'))";

/// Name of a child of `/app`.
const MARKED_NAME: &str = "<script>window.injected=1<\u{200b}script>";

pub(super) fn write(session: &mut RawSession, write: proto::request::WriteRequest) {
    let answer = session.call(&Request::Write(write)).expect("an answer");
    assert_eq!(answer.err, 0);
}

fn data_of(session: &mut RawSession, path: &str) -> Vec<u8> {
    let answer = session.call(&get_data(path)).expect("an answer");
    let read: GetDataResponse = answer.record();
    read.data.unwrap_or_default().to_vec()
}

/// Returns an expression that is true if the pane shows this text as data.
pub(super) fn shows(text: &str) -> String {
    let text = Value::from(text);
    format!("document.querySelector('pre.data')?.textContent === {text}")
}

/// Checks with axe that no problem keeps a user from using the page.
pub(super) fn check(browser: &Browser, axe: &str, view: &str) {
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        // A message that fades has less contrast for a moment.
        browser.wait("document.getAnimations().length === 0");
        browser.run(axe, &[]);
        let found = browser.run_to_its_end(
            "const done = arguments[0];\
             axe.run(document, { resultTypes: ['violations'] }).then((all) => done(all.violations\
             .map((one) => [one.id, one.nodes.map((node) => [node.html, node.failureSummary])])),\
             (error) => done(String(error)));",
        );
        assert_eq!(found, json!([]), "{view} in {scheme}");
    }
}

/// Navigates without an identity, with the keyboard only, and sees the changes of another client.
fn browse(browser: &Browser, session: &mut RawSession, base: &str) {
    browser.go(base);
    browser.wait("document.getElementById('role').textContent === 'standalone'");
    browser.wait(
        "document.getElementById('verdict').textContent.startsWith('Healthy (standalone server')",
    );
    browser.wait("document.querySelectorAll('.chart canvas').length === 8");
    browser.click("Znodes");
    browser.wait("document.querySelectorAll('[role=treeitem]').length >= 3");
    browser.run("document.querySelector('[role=tree]').focus()", &[]);
    // Moves down to /app, which is the first child.
    browser.press(&["\u{e015}", "\u{e007}"]);
    browser.wait("document.querySelector('.crumbs')?.textContent.endsWith('app')");
    browser.wait(&shows("v1"));
    write(session, set_data("/app", "v2", -1));
    browser.wait(&shows("v2"));
    // A new child appears as well.
    browser.press(&["\u{e014}"]);
    write(session, create("/app/late", Vec::new(), flags::PERSISTENT));
    browser.wait("document.querySelector('[role=treeitem][aria-label=late]') !== null");
    let has_edit = "return [...document.querySelectorAll('button')].some((one) => /^Edit/.test(one.textContent))";
    assert_eq!(browser.run(has_edit, &[]), false);
}

pub(super) fn log_in(browser: &Browser) {
    browser.click("Read only · Log in");
    browser.wait("document.querySelector('dialog[open] input[name=user]') !== null");
    browser.type_text("ann");
    // Moves to the password.
    browser.press(&["\u{e004}"]);
    browser.type_text("pw");
    browser.press(&["\u{e007}"]);
    browser.wait("document.getElementById('identity').textContent === 'ann'");
}

/// Opens the editor, and replaces its text.
pub(super) fn enter(browser: &Browser, text: &str) {
    browser.click("Edit data");
    browser.wait(EDITOR);
    browser.chord(&["\u{e009}", "a"]);
    browser.type_text(&text.replace('\n', "\u{e007}"));
}

/// Saves with the keyboard.
pub(super) fn save(browser: &Browser) {
    browser.chord(&["\u{e009}", "s"]);
}

fn edit(browser: &Browser, session: &mut RawSession, base: &str) {
    enter(browser, "v3 ä\n");
    save(browser);
    browser.wait(&shows("v3 ä\n"));
    assert_eq!(data_of(session, "/app"), "v3 ä\n".as_bytes());

    // Another client has written first.
    enter(browser, "mine");
    write(session, set_data("/app", "theirs", -1));
    save(browser);
    let columns = "[...document.querySelectorAll('.conflict pre')].map((one) => one.textContent)";
    browser.wait("document.querySelectorAll('.conflict pre').length === 3");
    assert_eq!(
        browser.run(&format!("return {columns}"), &[]),
        json!(["theirs\n", "v3 ä\n\n", "mine\n"])
    );
    assert_eq!(data_of(session, "/app"), b"theirs");
    browser.click("Discard mine");
    browser.wait(&shows("theirs"));

    // Here the ACL prevents the change.
    browser.go(&format!("{base}#/tree/guarded"));
    browser.wait(&shows("keep"));
    enter(browser, "lost");
    save(browser);
    let wrong = "document.querySelector('.edit .wrong[role=alert]')?.textContent";
    assert_eq!(
        browser.wait(wrong),
        "the ACL does not permit this operation for this identity"
    );
    browser.click("Close");
    browser.click("Discard the text");
    browser.wait(&shows("keep"));
    assert_eq!(data_of(session, "/guarded"), b"keep");
}

fn markup_is_text(browser: &Browser, base: &str) {
    browser.go(&format!("{base}#/tree/app/marked"));
    browser.wait(&shows(MARKUP));
    let label = "[...document.querySelectorAll('.tree .name')].find((one) => one.textContent.startsWith('<script>'))";
    let name = browser.wait(&format!("{label}?.textContent"));
    assert_eq!(name, "<script>window.injected=1<⟨U+200B⟩script>");
    let nothing = "return window.injected === undefined && document.scripts.length === 1 \
                   && document.querySelector('main img') === null";
    assert_eq!(browser.run(nothing, &[]), true);
}

/// Finds znodes with the keyboard only: by data, and by a path with completion.
fn find(browser: &Browser, axe: &str) {
    let results = "[...document.querySelectorAll('#results li')].map((one) => one.textContent)";
    let is = |wanted: Value| format!("JSON.stringify({results}) === JSON.stringify({wanted})");
    browser.press(&["/"]);
    browser.wait("document.activeElement.role === 'combobox'");
    browser.type_text("KEEP");
    browser.wait(&is(json!(["/guarded (data)", "/zookeeper"])));
    browser.press(&["\u{e007}"]);
    browser.wait("location.hash === '#/tree/guarded'");
    browser.wait(&shows("keep"));
    // Ctrl-K, the beginning of a path, Tab to complete it, and a child.
    browser.chord(&["\u{e009}", "k"]);
    browser.wait("document.activeElement.role === 'combobox'");
    browser.type_text("/ap");
    browser.wait(&is(json!(["/app"])));
    browser.press(&["\u{e004}"]);
    browser.wait("document.querySelectorAll('#results li').length === 3");
    browser.type_text("la");
    browser.wait(&is(json!(["/app/late"])));
    browser.press(&["\u{e015}", "\u{e007}"]);
    browser.wait("location.hash === '#/tree/app/late'");
    browser.press(&["/"]);
    browser.wait("document.activeElement.role === 'combobox'");
    browser.type_text("late");
    browser.wait("document.querySelectorAll('#results li').length === 1");
    check(browser, axe, "the dialog to find znodes");
    browser.click("Close");
}

fn sessions(browser: &Browser, session: &RawSession, base: &str) {
    browser.go(&format!("{base}#/sessions"));
    // The visitor is not an administrator.
    let id = format!("0x{:x}", session.session().id.0);
    let id = format!("{}…", &id[..10]);
    let row = format!(
        "[...document.querySelectorAll('main tbody tr')].find((row) => row.textContent.includes('{id}') && row.textContent.includes('/mine'))"
    );
    let cells = browser.wait(&format!(
        "{row} && [...{row}.cells].slice(6).map((one) => one.textContent)"
    ));
    assert_eq!(cells, json!(["1 ephemeral/mine", "2 watches/app/missing"]));
}

/// Checks the activity of clients, and the slow requests.
fn clients(browser: &Browser, session: &mut RawSession, base: &str) {
    // Only an administrator sees the identities of clients.
    let everybody = Acl::new(perms::ALL, "world", "anyone");
    let ann = Acl::new(perms::ALL, "digest", ANN);
    write(session, set_acl("/", &[everybody, ann], -1));
    browser.go(&format!("{base}#/clients"));
    let row = |table: &str, text: &str| {
        format!(
            "[...document.querySelectorAll('[aria-label=\"{table}\"] tbody tr')]\
             .find((row) => row.textContent.includes('{text}'))"
        )
    };
    browser.wait(&format!("Boolean({})", row("Clients", "127.0.0.1")));
    let choose = "const by = document.querySelector('main select'); by.value = arguments[0];\
        by.dispatchEvent(new Event('change'));";
    browser.run(choose, &[json!("identity")]);
    browser.wait(&format!("Boolean({})", row("Clients", "digest:ann")));
    browser.run(choose, &[json!("connection")]);
    let here = session.local_address().to_string();
    browser.wait(&format!("Boolean({})", row("Clients", &here)));
    // A request that exceeds a full millisecond counts as slow here.
    let slow = row("Slow requests", "setData/app/late");
    let is_there = format!("return Boolean({slow})");
    wait_for("a slow request", Duration::from_secs(60), || {
        write(session, set_data("/app/late", "x", -1));
        (browser.run(&is_there, &[]) == true).then_some(())
    });
    let id = format!("0x{:x}", session.session().id.0);
    let cells = format!("[...{slow}.cells].slice(2).map((one) => one.textContent)");
    assert_eq!(
        browser.wait(&cells),
        json!(["setData", "/app/late", here, id])
    );
}

/// Compares two moments with the sliders, and restores an earlier version.
fn history(browser: &Browser, axe: &str, session: &mut RawSession, base: &str) {
    browser.go(&format!("{base}#/history/app"));
    let row = |name: &str| {
        format!(
            "[...document.querySelectorAll('[aria-label=\"{name}\"] tbody tr')]\
             .find((row) => row.cells[0].textContent === '/app')"
        )
    };
    // The history follows the writes with a short delay.
    browser.wait("document.querySelector('[aria-label=Changes]')?.textContent.includes('theirs')");
    let slide = "const [from, to] = document.querySelectorAll('input[type=range]');\
        const all = Number(to.max);\
        const set = (one, at) => { one.value = at; one.dispatchEvent(new Event('input')); };\
        set(from, 1); set(to, all); return all;";
    let all = browser.run(slide, &[]);
    assert!(all.as_u64().is_some_and(|all| all >= 6), "{all}");
    let changed = row("Differences");
    let cells = format!("{changed} && [...{changed}.cells].map((one) => one.textContent)");
    let cells = browser.wait(&format!("({cells})?.[2] === 'v1' && {cells}"));
    assert_eq!(cells, json!(["/app", "changed", "v1", "theirs"]));
    browser.run(
        "document.querySelectorAll('input[type=range]')[1].focus()",
        &[],
    );
    // Moves back to the first moment: /app as it was created.
    browser.press(&["\u{e011}", "\u{e014}"]);
    browser.wait(&format!(
        "{}?.cells[3].textContent === 'v1'",
        row("The tree at that moment")
    ));
    browser.run(slide, &[]);
    let open = format!("{changed}?.querySelector('summary')?.click(); return Boolean({changed})");
    wait_for("the differences", Duration::from_secs(30), || {
        (browser.run(&open, &[]) == true).then_some(())
    });
    browser.wait("document.querySelector('.diff')?.textContent.includes('added: + theirs')");
    check(browser, axe, "a comparison");
    browser.click("Edit with the earlier data");
    browser.wait("location.hash === '#/tree/app'");
    browser.wait(EDITOR);
    assert_eq!(data_of(session, "/app"), b"theirs");
    save(browser);
    browser.wait(&shows("v1"));
    assert_eq!(data_of(session, "/app"), b"v1");
    browser.go(&format!("{base}#/history/app"));
}

/// The server keeps the figures, so a chart has lines right after the page was opened.
fn kept_figures(browser: &Browser) {
    browser.wait("document.querySelectorAll('.facts dd').length > 5");
    browser.run("location.reload()", &[]);
    let have_values = "[...document.querySelectorAll('.chart')]\
        .filter((one) => /; [1-9][\\d,]* values$/.test(one.ariaLabel)).length >= 4";
    browser.wait(have_values);
    let choose = "const range = document.querySelector('main select'); range.value = 'hour';\
        range.dispatchEvent(new Event('change')); return true;";
    browser.run(choose, &[]);
    browser.wait(have_values);
    // The arrow keys move to earlier values.
    browser.run("document.querySelector('.chart').focus()", &[]);
    browser.press(&["\u{e012}"]);
    browser.wait("/ at \\d/.test(document.querySelector('.card h2').textContent)");
}

#[test]
#[ignore = "drives a browser"]
fn a_browser_shows_and_changes_znodes() {
    let Some(axe) = or_skip("the console in a browser", axe()) else {
        return;
    };
    let Some(browser) = or_skip("the console in a browser", Browser::start()) else {
        return;
    };
    let settings = [
        ("history.enabled", "true"),
        ("zoarium.slowRequestThresholdMs", "1"),
        ("maxSessionTimeout", "600000"),
    ];
    let Some(site) = Site::start(&settings) else {
        return;
    };
    let mut session = RawSession::open(&site.server.address(), None, 600_000).expect("a session");
    write(&mut session, create("/app", "v1", flags::PERSISTENT));
    write(
        &mut session,
        create("/app/marked", MARKUP, flags::PERSISTENT),
    );
    write(
        &mut session,
        create(&format!("/app/{MARKED_NAME}"), "", flags::PERSISTENT),
    );
    write(&mut session, create("/guarded", "keep", flags::PERSISTENT));
    write(
        &mut session,
        set_acl("/guarded", &[Acl::new(perms::READ, "world", "anyone")], -1),
    );
    write(&mut session, create("/mine", "", flags::EPHEMERAL));

    let base = format!("http://127.0.0.1:{}/", site.port);
    browse(&browser, &mut session, &base);
    log_in(&browser);
    check(&browser, &axe, "a znode");
    edit(&browser, &mut session, &base);
    markup_is_text(&browser, &base);
    find(&browser, &axe);
    for path in ["/app", "/missing"] {
        let watch = PathWatchRequest {
            path: Some(path.into()),
            watch: true,
        };
        let exists = Request::Read(ReadRequest::Exists(watch));
        session.call(&exists).expect("an answer");
    }
    sessions(&browser, &session, &base);
    check(&browser, &axe, "sessions");
    clients(&browser, &mut session, &base);
    check(&browser, &axe, "clients");
    history(&browser, &axe, &mut session, &base);
    check(&browser, &axe, "the history");
    browser.click("Log");
    browser.wait("document.querySelector('.log')?.textContent.includes('admin server listens')");
    check(&browser, &axe, "the log");
    browser.click("Ensemble");
    kept_figures(&browser);
    check(&browser, &axe, "the ensemble");
    // The browser reports the 4xx answers to refused edits. Any other report is an error.
    let complaints: Vec<String> = browser
        .complaints()
        .into_iter()
        .filter(|line| !line.contains("status of 4"))
        .collect();
    assert!(complaints.is_empty(), "{complaints:?}");
}
