//! `zoarium config`: check, explain, effective.

use serde_json::Value;

use crate::preflight::site::Site;
use crate::support::secrets::{BOB, STORE};
use crate::support::{stderr, stdout};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_file_is_checked_as_a_whole() {
    let site = Site::new();
    let config = site.config();
    let path = config.to_str().unwrap();
    site.alone("tikcTime=3000\n");
    let output = site.run(&["config", "check", path]);
    assert_eq!(output.status.code(), Some(0));
    let text = stdout(&output);
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(
        words
            .join(" ")
            .contains("zoo.cfg:5: tikcTime: unknown setting; did you mean tickTime?"),
        "{text}"
    );
    assert!(
        text.contains("\ngo with warnings: 0 blockers, 1 warning, 0 notes\n"),
        "{text}"
    );
    assert_eq!(
        site.run(&["config", "check", "--strict", path])
            .status
            .code(),
        Some(1)
    );
    site.alone("tickTime=x\nmaxClientCnxns=y\n");
    let output = site.run(&["config", "check", path, "--output", "json"]);
    assert_eq!(output.status.code(), Some(3));
    let found = json(&stdout(&output));
    assert_eq!(found["verdict"], "no-go");
    assert_eq!(found["findings"].as_array().unwrap().len(), 2);
    assert_eq!(found["findings"][1]["line"], 6);
}

#[test]
fn a_setting_is_explained_or_its_neighbour_named() {
    let site = Site::new();
    let output = site.run(&["config", "explain", "snapCount"]);
    let text = stdout(&output);
    for part in [
        "zookeeper.snapCount",
        "100000",
        "transactions",
        "3.4.0",
        "works",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let output = site.run(&["config", "explain", "zookeeper.ssl.crl", "--output", "json"]);
    let found = json(&stdout(&output));
    assert_eq!(
        (&found["name"], &found["since"]),
        (&"ssl.crl".into(), &"3.5.5".into())
    );
    assert_eq!(found["fate"][1]["fate"], "refused");
    let output = site.run(&["config", "explain", "snapCuont"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(
        stderr(&output).contains("did you mean snapCount?"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn effective_settings_name_their_origin() {
    let site = Site::new();
    site.alone(&format!("tickTime=4000\nssl.keyStore.password={STORE}\n"));
    site.write(
        "conf/java.env",
        &format!("JVMFLAGS=\"-Djute.maxbuffer=5000000 -Dzookeeper.my.Password={BOB}\"\n"),
    );
    let config = site.config();
    let path = config.to_str().unwrap();
    let output = site.run(&["config", "effective", path, "-Dzookeeper.snapCount=7"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    let expected = [
        "tickTime=4000  # HOME/conf/zoo.cfg:5",
        "minSessionTimeout=8000  # default",
        "jute.maxbuffer=5000000  # HOME/conf/java.env:1",
        "snapCount=7  # the command line",
        "ssl.keyStore.password=*****  # HOME/conf/zoo.cfg:6",
        "initLimit",
    ];
    let (absent, present) = expected.split_last().unwrap();
    for line in present {
        let line = site.filled(line);
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    assert!(!text.contains(absent), "{text}");
    let output = site.run(&["config", "effective", path, "--output", "json"]);
    let rows = json(&stdout(&output));
    let rows = rows.as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["name"] == "jute.maxbuffer")
        .unwrap();
    assert_eq!(
        (&row["value"], &row["unit"]),
        (&"5000000".into(), &"bytes".into())
    );
    site.alone("tickTime=x\n");
    let output = site.run(&["config", "effective", path]);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        stderr(&output).contains("zoo.cfg:5: tickTime"),
        "{}",
        stderr(&output)
    );
}
