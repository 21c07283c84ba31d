//! Pictures of all pages: `ZOARIUM_SCREENSHOTS=<folder>` with the test of the console in a browser.

use std::fs;
use std::path::Path;

use serde_json::json;
use tests::Browser;

/// Pages: name of the picture, and address.
const PAGES: [(&str, &str); 6] = [
    ("ensemble", "ensemble"),
    ("znodes", "tree/app"),
    ("sessions", "sessions"),
    ("clients", "clients"),
    ("history", "history/app"),
    ("log", "log"),
];

/// Devices: name, width and height of the window.
const DEVICES: [(&str, u32, u32); 2] = [("desktop", 1360, 860), ("phone", 390, 844)];

/// Writes a picture of each page, for each device and theme.
pub(in crate::console) fn write_all(browser: &Browser, folder: &Path) {
    fs::create_dir_all(folder).expect("a folder for the pictures");
    for (device, width, height) in DEVICES {
        browser.size(width, height);
        for scheme in ["light", "dark"] {
            browser.prefer(scheme);
            for (name, address) in PAGES {
                let go = "location.hash = `#/${arguments[0]}`";
                browser.run(go, &[json!(address)]);
                browser.wait("document.querySelector('main h1') !== null");
                browser.wait("document.getAnimations().length === 0");
                // The page has answered since it was opened.
                let looks = "performance.clearResourceTimings()";
                browser.run(looks, &[]);
                browser.wait(
                    "performance.getEntriesByName(`${location.origin}/console/ensemble`).length > 1",
                );
                let file = folder.join(format!("{name}-{device}-{scheme}.webp"));
                fs::write(file, browser.screenshot()).expect("write a picture");
            }
        }
    }
}
