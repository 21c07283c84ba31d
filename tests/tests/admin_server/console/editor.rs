//! The editor of the console in real browsers: nothing that a visitor has typed is lost.

use proto::request::{Request, flags};
use proto::response::GetDataResponse;
use serde_json::json;
use tests::requests::{create, get_data};
use tests::{Browser, RawSession, axe, or_skip};

use super::browser::{check, enter, log_in, save};
use crate::site::Site;

fn data_of(session: &mut RawSession, path: &str) -> String {
    let answer = session.call(&get_data(path)).expect("an answer");
    let read: GetDataResponse = answer.record();
    String::from_utf8(read.data.unwrap_or_default().to_vec()).expect("text")
}

/// Returns an expression that is true if the editor contains this text.
fn contains(text: &str) -> String {
    let lines = "[...document.querySelector('.editor').shadowRoot.querySelectorAll('.cm-line')]\
                 .map((one) => one.textContent).join('\\n')";
    format!("{lines} === {}", json!(text))
}

const QUESTION: &str =
    "document.querySelector('dialog[open] h2')?.textContent === 'Discard unsaved text?'";

/// The visitor tries to leave. The page asks, and the visitor continues to edit.
fn stays(browser: &Browser, text: &str) {
    browser.wait(QUESTION);
    browser.click("Keep editing");
    browser.wait("document.querySelector('dialog[open]') === null");
    assert_eq!(
        browser.run(&format!("return {}", contains(text)), &[]),
        true
    );
}

fn every_exit_asks(browser: &Browser, axe: &str) {
    let text = "unsaved";
    enter(browser, text);
    browser.press(&["\u{e00c}"]);
    browser.wait(QUESTION);
    check(browser, axe, "the question about unsaved text");
    // Escape does not discard the text, and the editor has the focus again.
    browser.press(&["\u{e00c}"]);
    browser.wait("document.querySelector('dialog[open]') === null");
    browser.press(&["\u{e00c}"]);
    stays(browser, text);
    browser.run("history.back()", &[]);
    stays(browser, text);
    browser.click("Sessions");
    stays(browser, text);
    browser.click("ann");
    stays(browser, text);
    let reload = "const event = new Event('beforeunload', { cancelable: true });\
                  dispatchEvent(event); return event.defaultPrevented";
    assert_eq!(browser.run(reload, &[]), true);
    check(browser, axe, "the editor");
    // After the answer, the visitor leaves.
    browser.click("Sessions");
    browser.wait(QUESTION);
    browser.click("Discard the text");
    browser.wait("location.hash === '#/sessions'");
    assert_eq!(browser.run(reload, &[]), false);
}

/// Both change different lines of the same version.
fn two_visitors_edit(one: &Browser, other: &Browser, base: &str, session: &mut RawSession) {
    for browser in [one, other] {
        browser.go(&format!("{base}#/tree/lines"));
        browser.wait("document.querySelector('pre.data')?.textContent.startsWith('a')");
    }
    enter(one, "a1\nb\nc\nd\ne");
    enter(other, "a\nb\nc\nd\ne2");
    save(one);
    one.wait("document.querySelector('pre.data')?.textContent === 'a1\\nb\\nc\\nd\\ne'");
    save(other);
    other.wait("document.querySelectorAll('.conflict pre').length === 3");
    other.click("Merge");
    other.wait(&contains("a1\nb\nc\nd\ne2"));
    other.wait("document.querySelector('.conflict') === null");
    assert_eq!(data_of(session, "/lines"), "a1\nb\nc\nd\ne");
    other.click("Save");
    other.wait("document.querySelector('pre.data')?.textContent === 'a1\\nb\\nc\\nd\\ne2'");

    // Both change the same line: one overwrites a version that it has seen.
    enter(one, "one");
    enter(other, "other");
    save(other);
    other.wait("document.querySelector('pre.data')?.textContent === 'other'");
    save(one);
    one.wait("document.querySelectorAll('.conflict pre').length === 3");
    one.click("Overwrite version 3");
    one.wait("document.querySelector('pre.data')?.textContent === 'one'");
    assert_eq!(data_of(session, "/lines"), "one");
}

/// Formats, and refuses to save invalid data without a question.
fn formats(browser: &Browser, base: &str, session: &mut RawSession) {
    browser.go(&format!("{base}#/tree/settings.json"));
    browser
        .wait("document.querySelector('pre.data')?.textContent.includes('12345678901234567890')");
    browser.click("Edit data");
    browser.wait("document.querySelector('.edit [role=status]')?.textContent === 'Valid JSON'");
    browser.click("Format");
    browser.wait(&contains("{\n  \"n\": 12345678901234567890\n}\n"));
    save(browser);
    browser.wait("document.querySelector('.editor') === null");
    assert_eq!(
        data_of(session, "/settings.json"),
        "{\n  \"n\": 12345678901234567890\n}\n"
    );
    enter(browser, "{\"n\": ");
    save(browser);
    browser.wait("document.querySelector('dialog[open] h2')?.textContent === 'Save invalid JSON?'");
    browser.click("Keep editing");
    let choose = "const format = document.querySelector('.edit select'); format.value = arguments[0];\
        format.dispatchEvent(new Event('change'));";
    for (format, text, wanted) in [
        ("hex", "", "7b 22 6e 22 3a 20"),
        ("yaml", "a: [1, 2", "Invalid YAML"),
        ("xml", "<a><b></a>", "Invalid XML"),
        ("properties", "a=\\u12", "Invalid Properties"),
    ] {
        browser.run(choose, &[json!(format)]);
        if text.is_empty() {
            browser.wait(&contains(wanted));
            browser.run(choose, &[json!("text")]);
            continue;
        }
        browser.run("document.querySelector('.editor').focus()", &[]);
        browser.chord(&["\u{e009}", "a"]);
        browser.press(&["\u{e017}"]);
        browser.run(
            "const content = document.querySelector('.editor').shadowRoot.querySelector('.cm-content');\
             content.focus(); document.execCommand('insertText', false, arguments[0])",
            &[json!(text)],
        );
        browser.wait(&format!(
            "document.querySelector('.edit [role=status]')?.textContent.startsWith('{wanted}')"
        ));
    }
    browser.click("Close");
    browser.click("Discard the text");
    browser.wait("document.querySelector('.editor') === null");
}

#[test]
#[ignore = "drives a browser"]
fn edited_text_is_never_lost() {
    let Some(axe) = or_skip("the editor in a browser", axe()) else {
        return;
    };
    let Some(one) = or_skip("the editor in a browser", Browser::start()) else {
        return;
    };
    let Some(other) = or_skip("the editor in a browser", Browser::start()) else {
        return;
    };
    let Some(site) = Site::start(&[("maxSessionTimeout", "600000")]) else {
        return;
    };
    let mut session = RawSession::open(&site.server.address(), None, 600_000).expect("a session");
    for (path, data) in [
        ("/lines", "a\nb\nc\nd\ne"),
        ("/settings.json", "{\"n\":12345678901234567890}"),
    ] {
        let write = create(path, data, flags::PERSISTENT);
        let answer = session.call(&Request::Write(write)).expect("an answer");
        assert_eq!(answer.err, 0);
    }
    let base = format!("http://127.0.0.1:{}/", site.port);
    for browser in [&one, &other] {
        browser.go(&base);
        browser.go(&format!("{base}#/tree/lines"));
        log_in(browser);
    }
    every_exit_asks(&one, &axe);
    two_visitors_edit(&one, &other, &base, &mut session);
    formats(&one, &base, &mut session);
    for browser in [one, other] {
        let complaints: Vec<String> = browser
            .complaints()
            .into_iter()
            .filter(|line| !line.contains("status of 4"))
            .collect();
        assert!(complaints.is_empty(), "{complaints:?}");
    }
}
