//! Access control of the console, refused requests, and protection against other pages.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::time::Duration;

use serde_json::{Value, json};
use tests::http_get;

use super::{Visit, found, is, send};
use crate::site::Site;

/// The policy of all answers.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

/// Sends a raw request head, and returns all bytes of the answer.
fn raw(address: (IpAddr, u16), text: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("connect");
    let patience = Some(Duration::from_secs(60));
    stream.set_read_timeout(patience).expect("set a timeout");
    stream.write_all(text.as_bytes()).expect("send");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn every_answer_has_a_content_security_policy() {
    let Some(site) = Site::start::<&str>(&[]) else {
        return;
    };
    let visit = Visit::begin(site.port);
    let answers = [
        http_get(site.port, "/"),
        http_get(site.port, "/console/main.js"),
        http_get(site.port, "/console/node?path=/"),
        visit.ask("GET", "/console/node?path=/", None),
        visit.ask("GET", "/console/data?path=/", None),
        visit.ask("GET", "/console/nothing?path=/", None),
    ];
    for answer in &answers {
        let policy = answer.header("content-security-policy").expect("a policy");
        assert_eq!(policy, POLICY);
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("x-frame-options"), Some("DENY"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.header("connection"), Some("close"));
        assert_eq!(answer.header("access-control-allow-origin"), None);
        assert_eq!(answer.header("set-cookie"), None);
    }
    let gzip = [("Accept-Encoding", "gzip")];
    let packed = send(site.port, "GET", "/", &gzip, None);
    assert_eq!(packed.header("content-security-policy"), Some(POLICY));
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert_eq!(packed.header("vary"), Some("accept-encoding"));
    let page = answers[0].text();
    assert_eq!(
        answers[0].header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert!(
        !page.contains("<style") && !page.contains(" style=") && !page.contains("http:"),
        "{page}"
    );
    assert_eq!(page.matches("<script").count(), 1, "one, from a file");
    assert_eq!(
        answers[4].header("content-type"),
        Some("application/octet-stream")
    );
}

/// DNS rebinding, and requests from pages of other sites.
#[test]
fn foreign_hosts_and_origins_are_refused() {
    let Some(site) = Site::start(&[("admin.console.hosts", "zk.example.com, other.example.com")])
    else {
        return;
    };
    let here = (IpAddr::from([127, 0, 0, 1]), site.port);
    let host = |host: &str| {
        raw(
            here,
            &format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"),
        )
    };
    for name in [
        "127.0.0.1",
        "localhost:80",
        "[::1]:80",
        "zk.example.com",
        "OTHER.example.com.:8080",
    ] {
        assert!(host(name).starts_with("HTTP/1.1 200"), "{name}");
    }
    for name in [
        "evil.example",
        "127.0.0.1.evil.example",
        "zk.example.com.evil",
        "",
    ] {
        assert!(host(name).starts_with("HTTP/1.1 421"), "{name}");
    }
    let none = raw(here, "GET / HTTP/1.0\r\n\r\n");
    assert!(none.starts_with("HTTP/1.0 421"), "{none}");
    // The commands are Java's, so they are served under any host name.
    let words = raw(
        here,
        "GET /commands/ruok HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
    );
    assert!(words.starts_with("HTTP/1.1 200"), "{words}");
}

/// A client without the token of a visit cannot change anything, and no other page can send the
/// token.
#[test]
fn changes_require_the_token_of_a_visit() {
    let Some(site) = Site::start::<&str>(&[]) else {
        return;
    };
    let visit = Visit::begin(site.port);
    visit.log_in("ann", "pw");
    let own = format!("http://127.0.0.1:{}", site.port);
    let put = |headers: &[(&str, &str)]| {
        send(
            site.port,
            "PUT",
            "/console/data?path=/zookeeper&version=0",
            headers,
            Some(b"x"),
        )
    };
    is(&put(&[]), 403, "NoVisit");
    is(
        &put(&[("X-Zoarium-Visit", "0123456789abcdef0123456789abcdef")]),
        403,
        "NoVisit",
    );
    let token = ("X-Zoarium-Visit", visit.token.as_str());
    is(
        &put(&[token, ("Origin", "http://evil.example")]),
        403,
        "Origin",
    );
    is(&put(&[token, ("Origin", "null")]), 403, "Origin");
    is(
        &put(&[token, ("Sec-Fetch-Site", "cross-site")]),
        403,
        "Origin",
    );
    let begin = send(
        site.port,
        "POST",
        "/console/visit",
        &[("Sec-Fetch-Site", "cross-site")],
        Some(b""),
    );
    is(&begin, 403, "Origin");
    let good = put(&[token, ("Origin", &own), ("Sec-Fetch-Site", "same-origin")]);
    assert_eq!(found(&good)["stat"]["version"], 1);
    // The browser first requests permission for such a header, and does not receive it.
    let preflight = send(
        site.port,
        "OPTIONS",
        "/console/data?path=/",
        &[
            ("Origin", "http://evil.example"),
            ("Access-Control-Request-Headers", "x-zoarium-visit"),
        ],
        None,
    );
    assert_eq!(preflight.status, 403);
    assert_eq!(preflight.header("access-control-allow-headers"), None);
}

/// A client over an insecure network must not send a password in vain.
#[test]
fn credentials_are_accepted_only_locally_or_over_tls() {
    let Some(site) = Site::start(&[("admin.serverAddress", "0.0.0.0")]) else {
        return;
    };
    let visit = Visit::begin(site.port);
    let form = json!({ "user": "ann", "password": "pw" }).to_string();
    let token = ("X-Zoarium-Visit", visit.token.as_str());
    for proxy in ["X-Forwarded-For", "Forwarded"] {
        let headers = [token, (proxy, "for=10.0.0.1")];
        let answer = send(
            site.port,
            "POST",
            "/console/login",
            &headers,
            Some(form.as_bytes()),
        );
        is(&answer, 403, "NotSecure");
    }
    assert_eq!(visit.log_in("ann", "pw").status, 200);

    // This does not send anything. It determines the address that others see.
    let probe = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    let Some(own) = probe
        .ok()
        .map(|address| address.ip())
        .filter(|ip| !ip.is_loopback())
    else {
        return;
    };
    let ask = |what: &str, token: &str, body: &str| {
        let length = body.len();
        let text = format!(
            "POST /console/{what} HTTP/1.1\r\nHost: {own}\r\nConnection: close\r\n\
             X-Zoarium-Visit: {token}\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        raw((own, site.port), &text)
    };
    let begun = ask("visit", "", "");
    let begun: Value =
        serde_json::from_str(begun.split("\r\n\r\n").nth(1).expect("a body")).expect("JSON");
    assert_eq!(begun["may_log_in"], false);
    let far = ask("login", begun["token"].as_str().expect("a token"), &form);
    assert!(
        far.starts_with("HTTP/1.1 403") && far.contains("NotSecure"),
        "{far}"
    );
    // A token is valid only for the address that received it.
    let stolen = ask("login", &visit.token, &form);
    assert!(stolen.contains("NoVisit"), "{stolen}");
    // Clients of this server connect from this machine, and so do the visitors who read its znodes.
    let token = begun["token"].as_str().expect("a token");
    let text = format!(
        "GET /console/node?path=/ HTTP/1.1\r\nHost: {own}\r\nConnection: close\r\nX-Zoarium-Visit: {token}\r\n\r\n"
    );
    let far = raw((own, site.port), &text);
    assert!(
        far.starts_with("HTTP/1.1 503") && far.contains("clientPortAddress"),
        "{far}"
    );
}

/// Searches and the change history must not show znodes to callers that the client port would
/// refuse. A request through a proxy comes from another machine.
#[test]
fn callers_that_cannot_be_clients_read_nothing() {
    const AUTH: &str = "Authorization";
    let Some(site) = Site::start(&[("history.enabled", "true")]) else {
        return;
    };
    let visit = Visit::begin(site.port);
    let near = ("X-Zoarium-Visit", visit.token.as_str());
    let far = [near, ("Forwarded", "for=10.0.0.1")];
    let get =
        |target: &str, headers: &[(&str, &str)]| send(site.port, "GET", target, headers, None);
    for area in ["console", "commands"] {
        let search = format!("/{area}/search?text=x");
        assert_eq!(get(&search, &[near]).status, 200);
        for what in [
            "search?text=x",
            "history/changes?path=/",
            "history/tree?path=/&at=0x1",
            "history/feed",
        ] {
            let refused = get(&format!("/{area}/{what}"), &far);
            assert_eq!(refused.status, 403, "{area} {what}: {}", refused.text());
            assert!(refused.text().contains("clientPortAddress"));
        }
        // Another member, which a console may query, would judge this member's address.
        let elsewhere = get("/console/history/origins?member=2&zxid=0x1", &far);
        assert_eq!(elsewhere.status, 403, "{}", elsewhere.text());
        // These commands do not read znodes.
        let clients = get(&format!("/{area}/clients"), &far);
        assert_eq!(clients.status, 200, "{area}: {}", clients.text());
    }
    // Anybody can invent a user and a password. Only an administrator is exempt.
    for (user, status) in [("digest ann:pw", 403), ("digest super:secret", 200)] {
        let headers = [far[0], far[1], (AUTH, user)];
        let answer = get("/commands/search?text=x", &headers);
        assert_eq!(answer.status, status, "{}", answer.text());
    }
    drop(site);
    // Each client connection has an identity of the scheme `ip`.
    for (schemes, without_login) in [("digest", 401), ("ip", 200)] {
        let enforced = [
            ("enforce.auth.enabled", "true"),
            ("enforce.auth.schemes", schemes),
        ];
        let Some(site) = Site::start(&enforced) else {
            return;
        };
        for (headers, status) in [(&[][..], without_login), (&[(AUTH, "digest ann:pw")], 200)] {
            let answer = send(site.port, "GET", "/commands/search?text=x", headers, None);
            assert_eq!(answer.status, status, "{schemes}: {}", answer.text());
        }
    }
}

#[test]
fn bodies_and_paths_have_bounds() {
    let Some(site) = Site::start::<&str>(&[]) else {
        return;
    };
    let visit = Visit::begin(site.port);
    visit.log_in("ann", "pw");
    is(
        &visit.ask("POST", "/console/login", Some(&[b' '; 20_000])),
        413,
        "TooLarge",
    );
    is(
        &visit.ask(
            "PUT",
            "/console/data?path=/&version=-1",
            Some(&vec![0; 1 << 20]),
        ),
        413,
        "TooLarge",
    );
    is(
        &visit.ask("POST", "/console/login", Some(b"{")),
        400,
        "BadArguments",
    );
    is(
        &visit.ask("PUT", "/console/acl?path=/&version=0", Some(b"[1]")),
        400,
        "BadArguments",
    );
    is(
        &visit.ask("PUT", "/console/data?path=/", Some(b"")),
        400,
        "BadArguments",
    );
    is(
        &visit.ask("GET", "/console/data?path=/&offset=-1", None),
        400,
        "BadArguments",
    );
    is(
        &visit.ask("GET", "/console/sessions?skip=x", None),
        400,
        "BadArguments",
    );
    is(
        &visit.ask("PATCH", "/console/data?path=/", Some(b"")),
        405,
        "Method",
    );
    for target in [
        "/console/../Cargo.toml",
        "/console/%2e%2e/%2e%2e/etc/passwd",
        "/console/..%2f..%2fetc%2fpasswd",
        "/console//etc/passwd",
        "/console/",
    ] {
        is(&visit.ask("GET", target, None), 404, "NotFound");
    }
    // A body with an excessive announced length is refused before it is read.
    let here = (IpAddr::from([127, 0, 0, 1]), site.port);
    let text = format!(
        "POST /console/login HTTP/1.1\r\nHost: localhost\r\nX-Zoarium-Visit: {}\r\n\
         Content-Length: 99999999999\r\n\r\n",
        visit.token
    );
    let answer = raw(here, &text);
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

/// With the console switched off, or with the commands at `/`, everything is as in Java.
#[test]
fn the_console_can_be_switched_off() {
    let Some(site) = Site::start(&[("admin.console.enabled", "false")]) else {
        return;
    };
    for target in ["/", "/console/main.js"] {
        let answer = http_get(site.port, target);
        assert_eq!(answer.status, 404);
        assert!(answer.text().contains("<h2>HTTP ERROR 404 Not Found</h2>"));
    }
    let begin = send(site.port, "POST", "/console/visit", &[], Some(b""));
    assert_eq!(begin.status, 404);
    let Some(site) = Site::start(&[("admin.commandURL", "/")]) else {
        return;
    };
    assert_eq!(http_get(site.port, "/ruok").status, 200);
    assert_eq!(
        http_get(site.port, "/console/main.js").status,
        200,
        "an unknown command, as in Java"
    );
    assert!(!http_get(site.port, "/").text().contains("<script"));
}
