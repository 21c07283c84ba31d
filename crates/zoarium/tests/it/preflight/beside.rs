//! Preflight while a server runs on the same files or ports.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use super::site::Site;

/// A server of a site. It is killed when this value is dropped.
struct Running(Child);

impl Running {
    fn start(site: &Site, config: &str) -> Self {
        let path = site.path(config);
        let mut command = site.command(&["server", path.to_str().unwrap()]);
        let mut process = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        let mut ready = String::new();
        lines.read_line(&mut ready).unwrap();
        let running = Self(process);
        assert!(ready.contains("serving clients"), "{ready}");
        running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_server_that_is_to_be_replaced_may_run() {
    let site = Site::new();
    site.alone("");
    let running = Running::start(&site, "conf/zoo.cfg");
    let said = site.preflight(&[]);
    assert_eq!(
        (said.verdict.as_str(), said.code),
        ("go", Some(0)),
        "{:#}",
        said.json
    );
    let notes = said.told("note");
    // The data, the client port and the admin port belong to this server.
    let of_it = notes
        .iter()
        .filter(|note| note.starts_with("server-running"));
    assert_eq!(of_it.count(), 3, "{notes:?}");
    let by = format!("process {} (zoarium)", running.0.id());
    assert!(said.json.to_string().contains(&by), "{:#}", said.json);
}

#[test]
fn data_that_another_server_has_open_is_not_for_this_one() {
    let site = Site::new();
    site.write(
        "conf/other.cfg",
        "dataDir=HOME/data\nclientPort=2281\nclientPortAddress=NET.9\nadmin.enableServer=false\n",
    );
    site.alone("");
    let _running = Running::start(&site, "conf/other.cfg");
    let said = site.preflight(&[]);
    assert_eq!(
        said.told("blocker"),
        ["data-in-use data"],
        "{:#}",
        said.json
    );
    assert_eq!(said.code, Some(3));
}
