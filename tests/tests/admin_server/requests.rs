//! Methods, paths and parameters.

use serde_json::Value;
use tests::{HttpRequest, Port, http_get};

use crate::site::{Site, builder, populate, recorded};

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("no {name}"))
}

/// Aliases, methods, unusual paths and query strings: status, type and, for short answers, body.
#[test]
fn requests_are_answered_as_recorded() {
    // Other content at `/` is Zoarium's.
    let without_console = [("admin.console.enabled", "false")];
    let (Some(records), Some(site)) = (recorded("http-variants"), Site::start(&without_console))
    else {
        return;
    };
    let _session = populate(&site.server.address(), "s");
    for record in &records {
        let request = &record["request"];
        let headers = request["headers"].as_array().expect("headers");
        let headers: Vec<(&str, &str)> = headers
            .iter()
            .map(|pair| {
                (
                    pair[0].as_str().expect("text"),
                    pair[1].as_str().expect("text"),
                )
            })
            .collect();
        let (method, target) = (text(request, "method"), text(request, "target"));
        let asked = HttpRequest {
            method,
            target,
            headers: &headers,
            body: (method == "POST").then_some(b""),
        };
        let answer = asked.send(site.port).expect("an answer");
        assert_eq!(record["status"], answer.status, "{method} {target}");
        let recorded_header = |name: &str| {
            let headers = record["headers"].as_array().expect("headers");
            let found = headers
                .iter()
                .find(|header| header[0].as_str().expect("text").eq_ignore_ascii_case(name));
            found.map(|header| header[1].as_str().expect("text"))
        };
        for name in ["content-type", "allow", "cache-control"] {
            assert_eq!(
                answer.header(name),
                recorded_header(name),
                "{method} {target}"
            );
        }
        // A body without figures is equal byte for byte.
        let body = record["body"].as_str().unwrap_or_default();
        let has_figures = body.contains("timestamp");
        if body.len() < 120
            && !has_figures
            && recorded_header("content-type") == Some("application/json")
        {
            assert_eq!(answer.text(), body, "{method} {target}");
        }
    }
}

#[test]
fn commands_are_below_the_path_that_is_configured() {
    let Some(site) = Site::start(&[("admin.commandURL", "/words")]) else {
        return;
    };
    let index = http_get(site.port, "/words").text();
    assert!(index.starts_with("<a href=\"/words/configuration\">configuration</a>\n<br/>\n"));
    assert_eq!(http_get(site.port, "/words/ruok").status, 200);
    assert_eq!(http_get(site.port, "/commands/ruok").status, 404);
}

/// Java's exit code for this is 4.
#[test]
fn a_busy_port_ends_the_start_with_code_4() {
    let port = Port::take();
    let address = ("127.0.0.1", port.number());
    let _taken = std::net::TcpListener::bind(address).expect("bind");
    let failure = builder(&port).try_start().expect("a server to start");
    let failure = failure.expect_err("the port is taken");
    let code = failure.status.and_then(|status| status.code());
    assert_eq!(code, Some(4), "{}", failure.log);
    assert!(failure.log.contains("admin.serverPort"), "{}", failure.log);
}

#[test]
fn without_an_admin_server_its_port_is_closed() {
    let Some(site) = Site::start(&[("admin.enableServer", "false")]) else {
        return;
    };
    let refused = std::net::TcpStream::connect(("127.0.0.1", site.port));
    assert!(refused.is_err());
}

/// A znode's name may contain any character except a null byte.
#[test]
fn znode_names_are_only_text() {
    use proto::request::{Request, flags};
    let Some(site) = Site::start::<&str>(&[]) else {
        return;
    };
    let mut session = tests::RawSession::open(&site.server.address(), None, 30_000).unwrap();
    let name = "/<script>\"\u{1b}]0;x\u{7}\\é";
    let request = tests::requests::create(name, Vec::new(), flags::EPHEMERAL);
    let created = session.call(&Request::Write(request)).expect("an answer");
    // Like Java, the server refuses control characters.
    assert_ne!(created.err, 0);
    let name = "/<script>\"\\é";
    let request = tests::requests::create(name, Vec::new(), flags::EPHEMERAL);
    let created = session.call(&Request::Write(request)).expect("an answer");
    assert_eq!(created.err, 0);
    let dump = http_get(site.port, "/commands/dump");
    let parsed: Value = serde_json::from_str(&dump.text()).expect("JSON");
    let paths = &parsed["session_id_to_ephemeral_paths"];
    let all: Vec<&Value> = paths.as_object().unwrap().values().collect();
    assert_eq!(all, [&serde_json::json!([name])]);
}
