//! Log levels, changed while a server runs.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tests::{HttpAnswer, HttpRequest, http_get, wait_for};

use crate::site::Site;

const LIMIT: Duration = Duration::from_secs(60);

fn ask(site: &Site, method: &str, query: &str, headers: &[(&str, &str)]) -> HttpAnswer {
    let target = format!("/commands/log_levels{query}");
    let request = HttpRequest {
        method,
        target: &target,
        headers,
        body: (method == "POST").then_some(b""),
    };
    request.send(site.port).expect("an answer")
}

fn levels(site: &Site) -> String {
    let answer = ask(site, "POST", "", &[SUPER]);
    let answer: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
    answer["levels"].as_str().expect("levels").to_owned()
}

const SUPER: (&str, &str) = ("Authorization", "digest super:secret");

/// Returns the number of debug lines about commands.
fn told(site: &Site) -> usize {
    site.server.log().matches("admin command").count()
}

#[test]
fn levels_change_by_a_command_and_go_back_by_a_signal() {
    let Some(site) = Site::start::<&str>(&[]) else {
        return;
    };
    let before = levels(&site);
    assert_eq!(ask(&site, "POST", "?levels=debug", &[]).status, 401);
    assert_ne!(ask(&site, "GET", "?levels=debug", &[SUPER]).status, 200);
    for wrong in ["", "%20", "server%3Dloud", "a%3Db%3Dc"] {
        let refused = ask(&site, "POST", &format!("?levels={wrong}"), &[SUPER]);
        let text = refused.text();
        assert!(
            text.contains("is not a list of log levels"),
            "{wrong}: {text}"
        );
    }
    assert_eq!((levels(&site), told(&site)), (before.clone(), 0));

    let wanted = "warn,zoarium_admin::server%3Ddebug";
    let answer = ask(&site, "POST", &format!("?levels={wanted}"), &[SUPER]);
    assert!(
        answer
            .text()
            .contains("\"warn,zoarium_admin::server=debug\""),
        "{}",
        answer.text()
    );
    http_get(site.port, "/commands/ruok");
    wait_for("a line at level debug", LIMIT, || {
        (told(&site) > 0).then_some(())
    });

    let id = site.server.process_id().expect("a process");
    let id = i32::try_from(id)
        .ok()
        .and_then(Pid::from_raw)
        .expect("an id");
    kill_process(id, Signal::HUP).expect("signal our server");
    wait_for("the levels of the start", LIMIT, || {
        (levels(&site) == before).then_some(())
    });
    let told_then = told(&site);
    http_get(site.port, "/commands/ruok");
    assert_eq!(told(&site), told_then);
}
