//! Requests under the name of a service, and requests that the page of another site makes a browser
//! send.

use tests::{Flavour, HttpAnswer, HttpRequest, Port};

use crate::site::Site;

/// A name that the server does not know, as a scraper in a cluster uses it.
const SERVICE: (&str, &str) = ("Host", "zookeeper.default.svc:8080");

/// Headers that a browser adds for the page of another site.
const FOREIGN: [(&str, &str); 3] = [
    ("Origin", "http://evil.example"),
    ("Sec-Fetch-Site", "cross-site"),
    ("Sec-Fetch-Site", "same-site"),
];

const PROBES: [&str; 2] = ["/health/live", "/health/ready"];

/// Beginning of the line about a name in `Host`.
const LINE: &str = "the name in Host is not a known name of this server";

fn ask(port: u16, (method, target): (&str, &str), headers: &[(&str, &str)]) -> HttpAnswer {
    let request = HttpRequest {
        method,
        target,
        headers,
        body: (method == "POST").then_some(b""),
    };
    request.send(port).expect("an answer")
}

/// Commands that change something, even if it is only a figure, and Zoarium's own history and
/// backup.
const GUARDED: [(&str, &str); 9] = [
    ("GET", "/commands/stat_reset"),
    ("GET", "/commands/srst"),
    ("GET", "/commands/connection_stat_reset"),
    ("GET", "/commands/observer_connection_stat_reset"),
    ("GET", "/commands/set_trace_mask?traceMask=306"),
    ("POST", "/commands/restore"),
    ("GET", "/commands/snapshot"),
    ("GET", "/commands/backup/log?after=0x1"),
    ("GET", "/commands/history/changes?path=/"),
];

#[test]
fn a_read_under_the_name_of_a_service_is_answered_and_a_change_is_not() {
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let exporter = Port::take();
    let exporter_port = exporter.number().to_string();
    let provider = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";
    let settings = [
        ("history.enabled", "true"),
        ("history.minFreeMegabytes", "0"),
        ("metricsProvider.className", provider),
        ("metricsProvider.httpHost", "127.0.0.1"),
        ("metricsProvider.httpPort", &exporter_port),
    ];
    let Some(site) = Site::start(&settings) else {
        return;
    };
    // Scrapers repeat their requests.
    for _ in 0..30 {
        let answer = ask(site.port, ("GET", "/commands/monitor"), &[SERVICE]);
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let log = site.server.log();
    let mut lines = log.lines().filter(|line| line.contains(LINE));
    let first = lines.next().expect("a line of the log");
    assert!(
        first.contains("admin.strictHost") && first.contains("zookeeper.default.svc"),
        "{first}"
    );
    assert!(lines.count() < 10, "{log}");
    for (method, target) in GUARDED {
        let answer = ask(site.port, (method, target), &[SERVICE]);
        assert_eq!(answer.status, 421, "{target}: {}", answer.text());
        assert!(answer.text().contains("admin.console.hosts"), "{target}");
    }
    for header in FOREIGN {
        let reads = [
            ("GET", "/commands/monitor"),
            ("GET", "/commands/ruok"),
            ("GET", "/commands/stat_reset"),
        ];
        for (method, target) in reads.into_iter().chain(GUARDED) {
            let answer = ask(site.port, (method, target), &[header]);
            assert_eq!(answer.status, 403, "{target} {header:?}");
        }
        // The guard does not apply to probes and scrapers.
        let headers = [SERVICE, header];
        for target in PROBES {
            assert_eq!(ask(site.port, ("GET", target), &headers).status, 200);
        }
        let metrics = ask(exporter.number(), ("GET", "/metrics"), &headers);
        assert_eq!(metrics.status, 200);
    }
    // The page of the server itself.
    let own = [("Sec-Fetch-Site", "same-origin")];
    assert_eq!(ask(site.port, ("GET", "/commands/ruok"), &own).status, 200);
}

#[test]
fn with_a_strict_host_only_known_names_are_answered() {
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let settings = [
        ("admin.strictHost", "true"),
        ("admin.console.hosts", "zk.example"),
    ];
    let Some(site) = Site::start(&settings) else {
        return;
    };
    let answer = ask(site.port, ("GET", "/commands/monitor"), &[SERVICE]);
    assert_eq!(answer.status, 421, "{}", answer.text());
    for target in PROBES {
        assert_eq!(ask(site.port, ("GET", target), &[SERVICE]).status, 200);
    }
    for known in ["zk.example", "127.0.0.1", "localhost:8080"] {
        let answer = ask(site.port, ("GET", "/commands/ruok"), &[("Host", known)]);
        assert_eq!(answer.status, 200, "{known}");
    }
}
