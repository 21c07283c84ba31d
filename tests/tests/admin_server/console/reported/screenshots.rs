//! Pictures of all pages, for the documentation: `ZOARIUM_SCREENSHOTS=<folder>` writes them.

use std::fs;
use std::path::Path;

use proto::request::{Request, flags};
use proto::{Acl, data::perms};
use serde_json::json;
use tests::requests::{create, delete, set_acl, set_data};
use tests::{Browser, RawSession, or_skip};

use crate::console::browser::{ANN, log_in, write};
use crate::console::ensemble::outages::says;
use crate::console::ensemble::{prepared, start_led_by_3};

/// Pages: name of the picture, and address.
const PAGES: [(&str, &str); 6] = [
    ("znodes", "tree/shop/settings.json"),
    ("sessions", "sessions"),
    ("clients", "clients"),
    ("history", "history/shop"),
    ("log", "log"),
    // At the end, when its charts have some values.
    ("ensemble", "ensemble"),
];

/// Devices: name, width and height of the window.
const DEVICES: [(&str, u32, u32); 2] = [("desktop", 1360, 860), ("phone", 390, 844)];

/// Writes between two pictures, so that the charts have values.
const WRITES: usize = 200;

/// Creates znodes with some changes, and makes `ann` the administrator.
fn fill(session: &mut RawSession) {
    let settings = |retries: u32| {
        format!(
            "{{\n  \"currency\": \"EUR\",\n  \"languages\": [\"de\", \"en\"],\n  \"retries\": {retries}\n}}\n"
        )
    };
    for (path, data) in [
        ("/shop", String::new()),
        ("/shop/settings.json", settings(3)),
        ("/shop/orders", String::new()),
        ("/shop/orders/last", "0".to_owned()),
        ("/shop/workers", String::new()),
    ] {
        write(session, create(path, data, flags::PERSISTENT));
    }
    for worker in ["a", "b", "c"] {
        let path = format!("/shop/workers/worker-{worker}");
        write(session, create(&path, "10.0.0.7:9092", flags::EPHEMERAL));
    }
    write(session, set_data("/shop/settings.json", settings(5), 0));
    write(session, delete("/shop/workers/worker-b", 0));
    write(session, set_data("/shop/settings.json", settings(8), 1));
    let acl = [
        Acl::new(perms::ALL, "digest", ANN),
        Acl::new(perms::READ, "world", "anyone"),
    ];
    write(session, set_acl("/", &acl, -1));
}

/// Sends writes, which also keep the session alive.
fn work(session: &mut RawSession) {
    for number in 0..WRITES {
        let order = set_data("/shop/orders/last", number.to_string(), -1);
        session.put(&Request::Write(order));
    }
    session.flush().expect("sent");
    for _ in 0..WRITES {
        assert_eq!(session.take().expect("an answer").err, 0);
    }
}

#[test]
#[ignore = "drives a browser"]
fn pictures_of_all_pages() {
    let Some(folder) = std::env::var_os("ZOARIUM_SCREENSHOTS") else {
        return;
    };
    let Some(browser) = or_skip("pictures of the console", Browser::start()) else {
        return;
    };
    let Some((mut ensemble, ports)) = prepared("8") else {
        return;
    };
    start_led_by_3(&mut ensemble);
    let address = ensemble.member(3).client_address().to_string();
    let mut session = RawSession::open(&address, None, 40_000).expect("a session");
    fill(&mut session);
    browser.go(&format!("http://127.0.0.1:{}/", ports[2].number()));
    browser.wait(&says("Healthy (3 of 3 voters in sync"));
    log_in(&browser);
    // The message about the login is over.
    browser.wait("document.querySelector('.said.fresh') === null");
    write_all(&browser, &mut session, Path::new(&folder));
}

/// Writes a picture of each page, for each device and theme.
fn write_all(browser: &Browser, session: &mut RawSession, folder: &Path) {
    fs::create_dir_all(folder).expect("a folder for the pictures");
    for (device, width, height) in DEVICES {
        browser.size(width, height);
        for scheme in ["light", "dark"] {
            browser.prefer(scheme);
            for (name, address) in PAGES {
                work(session);
                let go = "location.hash = `#/${arguments[0]}`";
                browser.run(go, &[json!(address)]);
                browser.wait("document.querySelector('main h1') !== null");
                browser.wait("document.getAnimations().length === 0");
                // The page has answered since it was opened.
                browser.run("performance.clearResourceTimings()", &[]);
                browser.wait(
                    "performance.getEntriesByName(`${location.origin}/console/ensemble`).length > 1",
                );
                let file = folder.join(format!("{name}-{device}-{scheme}.webp"));
                fs::write(file, browser.screenshot()).expect("write a picture");
            }
        }
    }
}
