//! The vendored libraries of the console: their list, and a second build from the packages.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};
use tests::{fetch, find_tool, or_skip, prepare, run, workspace_root};

/// Licences that permit the distribution with this project.
const LICENCES: [&str; 3] = ["MIT", "Apache-2.0", "ISC"];

/// Time limit of the second build.
const BUILD_LIMIT: Duration = Duration::from_secs(120);

fn folder() -> PathBuf {
    workspace_root().join("crates/admin/page/vendor")
}

#[test]
fn each_vendored_file_has_its_hash_versions_and_licences() {
    let list = fs::read(folder().join("vendored.json")).expect("the list");
    let list: Vec<Value> = serde_json::from_slice(&list).expect("JSON");
    let licences = fs::read_to_string(folder().join("LICENSES.txt")).expect("the licences");
    let mut listed = Vec::new();
    for module in &list {
        let name = module["file"].as_str().expect("a name");
        listed.push(name.to_owned());
        let text = fs::read_to_string(folder().join(name)).expect("a module");
        let hash = Sha256::digest(text.as_bytes());
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(module["sha256"], *hash, "{name} was changed by hand");
        let packages = module["packages"].as_array().expect("packages");
        assert!(!packages.is_empty(), "{name}");
        for package in packages {
            let part = |part: &str| package[part].as_str().expect("a text");
            let title = format!("{} {} ({})", part("name"), part("version"), part("license"));
            assert!(text.contains(&format!("// {title}\n")), "{name}: {title}");
            assert!(licences.contains(&format!("{title}\n===")), "{title}");
            assert!(LICENCES.contains(&part("license")), "{title}");
        }
    }
    listed.sort();
    let files = fs::read_dir(folder()).expect("the folder");
    let files = files.map(|entry| entry.expect("an entry").file_name());
    let mut files: Vec<String> = files
        .map(|name| name.into_string().expect("UTF-8"))
        .filter(|name| name.ends_with(".js"))
        .collect();
    files.sort();
    assert_eq!(listed, files);
}

#[test]
#[ignore = "runs other people's programs"]
fn the_packages_result_in_the_vendored_files() {
    let Some(npm) = or_skip("the libraries of the console", find_tool("npm")) else {
        return;
    };
    let source = folder().join("bundle");
    let entries = fs::read_dir(source.join("entries")).expect("the entries");
    let mut inputs: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    inputs.sort();
    inputs.extend(["package.json", "package-lock.json", "bundle.js"].map(|file| source.join(file)));
    let made = prepare("console-libraries", &inputs, |dir| {
        fs::create_dir(dir.join("entries")).expect("a folder");
        for input in &inputs {
            let name = input.strip_prefix(&source).expect("a file of the folder");
            fs::copy(input, dir.join(name)).expect("copy a file");
        }
        let mut install = Command::new(&npm);
        install
            .current_dir(dir)
            .args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]);
        fetch(&mut install)
    });
    let Some(dir) = or_skip("the libraries of the console", made) else {
        return;
    };
    let node = find_tool("node").expect("npm needs node");
    let mut build = Command::new(node);
    build
        .current_dir(&dir)
        .arg("bundle.js")
        .arg(folder())
        .arg("--check");
    let built = run(&mut build, BUILD_LIMIT);
    assert!(built.is_ok(), "{built:?}");
}
