//! What people read: the example of docs/MIGRATION.md, and the tables of docs/OPERATIONS.md.

use std::fs;
use std::path::Path;

use super::site::Site;
use crate::support::stdout;

fn document(name: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    fs::read_to_string(docs.join(name)).unwrap()
}

/// The block behind a command, as the document has it.
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
    // Lines end elsewhere where paths are longer, and the machine is not the document's.
    let words = |text: &str| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let of_machine = ["clock", "limit-files", "limit-memory"];
    if of_machine.iter().any(|id| printed.contains(id)) {
        eprintln!(
            "SKIPPED the example of the guide: there is something to be said of this machine"
        );
        return;
    }
    let severities = ["blocker", "warning", "note", "no-go"];
    let begins = |line: &str| severities.iter().any(|word| line.starts_with(word));
    for line in printed.lines() {
        assert!(begins(line) || line.starts_with("         "), "{printed}");
    }
    assert_eq!(words(&printed), words(&expected), "{printed}");
}

#[test]
fn every_name_of_a_finding_is_in_the_manual() {
    let manual = document("OPERATIONS.md");
    for (id, what) in config::finding::ALL.iter().chain(preflight::finding::ALL) {
        let row = format!("| `{id}` | {} |", what.trim());
        assert!(manual.contains(&row), "the manual lacks {row}");
    }
    let names = manual
        .lines()
        .filter(|line| line.starts_with("| `") && line.contains("-"));
    let rows: Vec<&str> = names
        .filter(|line| line.matches(" | ").count() == 1)
        .collect();
    assert!(rows.len() >= preflight::finding::ALL.len(), "{rows:?}");
}
