//! Outages of an ensemble, as a visitor sees them in a real browser.

use proto::request::{Request, flags};
use proto::{Acl, data::perms};
use serde_json::json;
use tests::ensemble::Ensemble;
use tests::requests::{create, set_acl};
use tests::{Browser, RawSession, axe, or_skip};

use super::{prepared, start_led_by_3};
use crate::console::browser::{ANN, check, log_in};

/// Returns an expression that is true if the line about health begins with this text.
pub(in crate::console) fn says(text: &str) -> String {
    format!(
        "document.getElementById('verdict').textContent.startsWith({})",
        json!(text)
    )
}

/// Returns an expression for the row of a member.
fn row(id: u64) -> String {
    format!(
        "[...document.querySelectorAll('[aria-label=Members] tbody tr')]\
         .find((row) => row.cells[0].textContent.startsWith('server {id} '))"
    )
}

fn role(name: &str) -> String {
    format!("document.getElementById('role').textContent === '{name}'")
}

/// Selects text, focuses a link in the table of members, and scrolls. All of it remains during 30 updates.
fn updates_keep_focus_selection_and_scroll(browser: &Browser) {
    browser.wait(&format!("({})?.textContent.includes('leader')", row(3)));
    let prepare = format!(
        "performance.setResourceTimingBufferSize(10_000);\
         const row = {}; window.cell = row.cells[2].firstChild; window.link = row.querySelector('a');\
         window.link.focus({{ preventScroll: true }}); getSelection().selectAllChildren(row.cells[2]);\
         scrollTo(0, 150); window.top_ = scrollY;\
         window.looks = () => performance.getEntriesByName(`${{location.origin}}/console/ensemble`).length;\
         window.first = window.looks(); return Boolean(window.link) && scrollY > 0;",
        row(3)
    );
    assert_eq!(browser.run(&prepare, &[]), true);
    for updates in [10, 20, 30] {
        browser.wait(&format!("window.looks() >= window.first + {updates}"));
    }
    let kept = "return document.activeElement === window.link && window.cell.isConnected \
                && getSelection().toString() === window.cell.textContent && scrollY === window.top_";
    assert_eq!(browser.run(kept, &[]), true);
}

/// Overlays the figures of all members in each chart.
fn charts_show_all_members(browser: &Browser, axe: &str) {
    let choose = "const whose = document.querySelectorAll('main select')[1]; whose.value = 'all';\
        whose.dispatchEvent(new Event('change'));";
    browser.run(choose, &[]);
    browser.wait(
        "[...document.querySelectorAll('.chart')].length === 8\
         && [...document.querySelectorAll('.chart')].every((one) => [1, 2, 3]\
         .every((id) => one.ariaLabel.includes(`of server ${id} `)))",
    );
    browser.wait("/connections of server 2 [0-9]/.test(document.querySelector('[aria-label^=\"Connections and queue:\"]').ariaLabel)");
    check(browser, axe, "charts of all members");
}

/// The history shows the clients of all members, but only to an administrator.
fn history_names_clients_of_all_members(browser: &Browser, ensemble: &Ensemble, base: &str) {
    let session_with = |id: u64| {
        let address = ensemble.member(id).client_address().to_string();
        RawSession::open(&address, None, 30_000).expect("a session")
    };
    // A member opens its history with the first transaction.
    let first = Request::Write(create("/first", "", flags::PERSISTENT));
    assert_eq!(session_with(1).call(&first).expect("an answer").err, 0);
    browser.go(&format!("{base}#/history/"));
    browser.wait("document.querySelector('main .chip')?.textContent === 'live'");
    let own = [2, 1].map(|id| {
        let mut session = session_with(id);
        let write = create(&format!("/of-{id}"), "", flags::PERSISTENT);
        let answer = session.call(&Request::Write(write)).expect("an answer");
        assert_eq!(answer.err, 0);
        if id == 1 {
            let acl = [(perms::ALL, "world", "anyone"), (perms::ALL, "digest", ANN)]
                .map(|(perms, scheme, id)| Acl::new(perms, scheme, id));
            let answer = session.call(&Request::Write(set_acl("/", &acl, -1)));
            assert_eq!(answer.expect("an answer").err, 0);
        }
        session.local_address().to_string()
    });
    let client = |id: u64| {
        format!(
            "[...document.querySelectorAll('[aria-label=Changes] tbody tr')]\
             .find((row) => row.cells[2]?.textContent === '/of-{id}')?.cells[3].textContent"
        )
    };
    let hidden = json!("only administrators see the client");
    assert_eq!(browser.wait(&client(2)), hidden);
    log_in(browser);
    browser.wait(&format!("{}?.endsWith('{} (server 2)')", client(2), own[0]));
    browser.wait(&format!("{}?.endsWith('{}')", client(1), own[1]));
}

/// Uses the pages of a healthy ensemble.
fn intact(browser: &Browser, axe: &str, ensemble: &Ensemble, base: &str) {
    browser.wait(&role("follower"));
    updates_keep_focus_selection_and_scroll(browser);
    charts_show_all_members(browser, axe);
    history_names_clients_of_all_members(browser, ensemble, base);
}

#[test]
#[ignore = "drives a browser"]
fn a_browser_shows_outages_and_their_end() {
    let Some(axe) = or_skip("outages in a browser", axe()) else {
        return;
    };
    let Some(browser) = or_skip("outages in a browser", Browser::start()) else {
        return;
    };
    let Some((mut ensemble, ports)) = prepared("8") else {
        return;
    };
    start_led_by_3(&mut ensemble);
    let place = |index: usize| format!("http://127.0.0.1:{}/", ports[index].number());
    browser.go(&format!("{}#/ensemble", place(0)));
    let healthy = says("Healthy (3 of 3 voters in sync, tolerates 1 failure)");
    browser.wait(&healthy);
    intact(&browser, &axe, &ensemble, &place(0));
    // Another view shows the verdict, too.
    browser.click("Sessions");
    ensemble.member_mut(2).kill();
    let degraded = "Degraded (2 of 3 voters in sync; server 2 is unreachable since ";
    browser.wait(&says(degraded));
    browser.wait(
        "document.getElementById('verdict').textContent.includes('one more failure stops writes')",
    );
    browser.click("Details");
    let old = format!(
        "({0})?.className === 'old' && ({0}).cells[2].textContent.startsWith('0x')",
        row(2)
    );
    browser.wait(&old);
    browser.wait(&format!(
        "/figures of [0-9:]+, \\d+ s old/.test(({})?.cells[1].textContent)",
        row(2)
    ));
    check(&browser, &axe, "a degraded ensemble");

    // One click switches to another member, and shows the same view.
    let open = format!("({}).querySelector('a[href]').click(); return true", row(3));
    browser.run(&open, &[]);
    browser.wait(&format!("location.href === '{}#/ensemble'", place(2)));
    browser.wait(&says(degraded));
    browser.wait(&role("leader"));

    ensemble.member_mut(1).kill();
    let lost = "No quorum (1 of 3 voters answering; ";
    browser.wait(&says(lost));
    browser.wait(
        "document.getElementById('verdict').textContent.includes('Start the unreachable servers')",
    );
    browser.wait(&role("looking"));
    check(&browser, &axe, "an ensemble without a quorum");

    // The page's own server ends.
    ensemble.member_mut(3).kill();
    browser.wait(&says("No answer (this server has not answered since "));
    browser.wait(&role("no answer"));
    browser.wait("document.body.classList.contains('stale')");
    browser.wait("/ \\d+ s old/.test(document.getElementById('age').textContent)");
    check(&browser, &axe, "a page without its server");
    for id in ensemble.ids() {
        ensemble.start(id);
    }
    ensemble.wait_until_all_serve();
    browser.wait(&healthy);
    browser.wait("!document.body.classList.contains('stale')");
    browser.wait(&format!("({})?.className === ''", row(1)));
    // The browser reports each connection that fails, and refusals of the token of the ended server.
    let complaints = browser.complaints().into_iter();
    let unexpected: Vec<String> = complaints
        .filter(|line| {
            !line.contains("net::ERR_")
                && !line.contains("status of 4")
                && !line.contains("status of 5")
        })
        .collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");
}
