//! Output for people: the example of docs/MIGRATION.md, and the table of findings in
//! docs/TROUBLESHOOTING.md.

use std::fs;
use std::path::Path;

use super::site::Site;
use crate::support::stdout;

fn document(name: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    fs::read_to_string(docs.join(name)).unwrap()
}

/// Returns the block after a command in the document.
fn example(text: &str, command: &str) -> String {
    let (_, rest) = text
        .split_once(&format!("    {command}\n"))
        .expect("the command");
    let block = rest.lines().take_while(|line| line.starts_with("    "));
    block
        .map(|line| format!("{}\n", line.trim_start_matches("    ")))
        .collect()
}

#[test]
fn the_example_of_the_guide_is_what_is_printed() {
    let Some(data) = testkit::recordings::find("vectors/storage/rolled/data") else {
        return;
    };
    let site = Site::new();
    site.copy(&data, "data");
    site.write(
        "conf/zoo.cfg",
        "tickTime=2000\ndataDir=HOME/data\nclientPort=2181\nclientPortAddress=NET.1\nadmin.serverAddress=NET.1\n\
         snapCuont=50000\nssl.crl=true\n",
    );
    site.write(
        "conf/java.env",
        "export JVMFLAGS=\"-Xmx2g -Djute.maxbuffer=4194304\"\n",
    );
    let config = site.config();
    let output = site.run(&["preflight", config.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3));
    let home = format!("{}/", site.path("").display()).replace("//", "/");
    let printed = stdout(&output)
        .replace(&format!("{home}conf/"), "/etc/zookeeper/")
        .replace(&home, "/var/lib/zookeeper/");
    let expected = example(
        &document("MIGRATION.md"),
        "zoarium preflight /etc/zookeeper/zoo.cfg",
    );
    // Lines break at other places if paths are longer, and the machine differs from the machine in
    // the document.
    let words = |text: &str| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let of_machine = ["clock", "limit-files", "limit-memory"];
    if of_machine.iter().any(|id| printed.contains(id)) {
        eprintln!("SKIPPED the example of the guide: preflight has findings about this machine");
        return;
    }
    let severities = ["blocker", "warning", "note", "no-go"];
    let begins = |line: &str| severities.iter().any(|word| line.starts_with(word));
    for line in printed.lines() {
        assert!(begins(line) || line.starts_with("         "), "{printed}");
    }
    assert_eq!(words(&printed), words(&expected), "{printed}");
}

const FINDINGS_BEGIN: &str =
    "<!-- findings: made by ZOARIUM_BLESS=1 cargo test -p zoarium --test it printed -->";
const FINDINGS_END: &str = "<!-- end of the findings -->";

#[test]
fn the_table_of_findings_is_up_to_date() {
    let page = document("TROUBLESHOOTING.md");
    let (head, rest) = page.split_once(FINDINGS_BEGIN).expect("the table");
    let (_, tail) = rest.split_once(FINDINGS_END).expect("its end");
    let findings = config::finding::ALL.iter().chain(preflight::finding::ALL);
    let rows: String = findings
        .map(|(id, meaning)| format!("| `{id}` | {} |\n", meaning.trim()))
        .collect();
    let expected = format!(
        "{head}{FINDINGS_BEGIN}\n\n| Finding | Meaning |\n|---|---|\n{rows}\n{FINDINGS_END}{tail}"
    );
    if std::env::var_os("ZOARIUM_BLESS").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/TROUBLESHOOTING.md");
        fs::write(path, &expected).expect("write the page");
    } else {
        assert!(
            page == expected,
            "docs/TROUBLESHOOTING.md is out of date: run this test with ZOARIUM_BLESS=1"
        );
    }
}
