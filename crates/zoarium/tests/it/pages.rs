//! `zoarium completions` and `zoarium man`.

use std::fs;
use std::process::Command;

use crate::support::{stderr, stdout, zoarium};

/// Returns the commands that the help lists.
fn commands() -> Vec<String> {
    let help = stdout(&zoarium(["--help"]));
    let (_, listed) = help.split_once("Commands:\n").unwrap();
    let lines = listed.lines().take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names: Vec<String> = names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    assert!(
        names.contains(&"backup".to_owned()) && names.len() > 15,
        "{names:?}"
    );
    names
}

#[test]
fn every_command_has_a_page_with_all_its_options() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("man1");
    let written = zoarium(["man", dir.to_str().unwrap()]);
    assert!(written.status.success(), "{}", stderr(&written));
    let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
    assert!(read("zoarium.1").contains(".SH NAME\nzoarium \\- "));
    for name in commands().into_iter().filter(|name| name != "help") {
        let page = read(&format!("zoarium-{name}.1")).replace("\\-", "-");
        let help = stdout(&zoarium([&name, "--help"]));
        let options = help
            .split_whitespace()
            .filter(|word| word.starts_with("--"));
        for option in options.map(|word| word.trim_end_matches([',', ':', '.', ')', '`'])) {
            let option = option.split(['=', '[']).next().unwrap();
            assert!(page.contains(option), "no {option} in the page of {name}");
        }
    }
    let page = read("zoarium-bench-get.1");
    assert!(page.contains("bench"), "{page}");
    let file = home.path().join("file");
    fs::write(&file, "").unwrap();
    let refused = zoarium(["man", file.join("below").to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
}

#[test]
fn bash_completes_commands_and_options() {
    let script = stdout(&zoarium(["completions", "bash"]));
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("zoarium");
    fs::write(&file, script).unwrap();
    let complete = |words: &str| {
        let asked = format!(
            ". '{}'; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _zoarium zoarium \"${{COMP_WORDS[COMP_CWORD]}}\" \"\"; echo \"${{COMPREPLY[@]}}\"",
            file.display()
        );
        let output = Command::new("bash")
            .args(["--norc", "-c", &asked])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output).trim().to_owned()
    };
    assert_eq!(complete("zoarium back"), "backup");
    assert_eq!(complete("zoarium backup --tls-tr"), "--tls-trust");
    for shell in ["zsh", "fish"] {
        let script = stdout(&zoarium(["completions", shell]));
        assert!(
            script.contains("zoarium") && script.contains("tls-trust"),
            "{shell}"
        );
    }
    assert_eq!(zoarium(["completions", "sh"]).status.code(), Some(2));
}
