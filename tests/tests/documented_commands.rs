//! Runs every block of commands in README.md and docs, unless a comment before the block gives a
//! reason against it:
//!
//! ```text
//! <!-- test: NAME -->                the test of this name shows it
//! <!-- another machine: WHY -->      it needs what a test has not
//! <!-- no commands -->               settings, or what something prints
//! <!-- Ctrl-C -->                    the reader has stopped the servers before; the block runs
//! ```
//!
//! The blocks of a document run one after the other in a directory with `zoo.cfg`, `conf` and a
//! server on port 2181, in separate network and mount namespaces. Therefore the ports and paths of
//! the text are valid.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tests::secrets::SUPER_DIGEST;
use tests::{Missing, find_tool, or_skip, run, workspace_root, zoarium_binary};

const LIMIT: Duration = Duration::from_secs(300);

/// Number of documents whose commands run at the same time, each in its own namespaces.
const CONCURRENT: usize = 8;

/// A block of lines, without their indentation.
#[derive(Debug)]
struct Block {
    /// Number of its first line, from 1.
    line: usize,
    lines: Vec<String>,
    /// Contents of the comment before it.
    mark: Option<String>,
}

/// Mark of a block that runs after the reader has stopped all servers.
const STOPPED: &str = "Ctrl-C";

impl Block {
    fn runs(&self) -> bool {
        self.mark.as_deref().is_none_or(|mark| mark == STOPPED)
    }
}

/// Returns the indented blocks, and the fenced ones.
fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut mark, mut is_open, mut is_fenced, mut before) = (None, false, false, "");
    for (number, line) in text.lines().enumerate() {
        let is_fence = line.starts_with("```");
        let indented = line
            .strip_prefix("    ")
            .filter(|_| !is_fenced && (is_open || before.is_empty()));
        if is_fence {
            is_fenced = !is_fenced;
        }
        let content = match indented {
            Some(content) => Some(content),
            None if is_fenced && !is_fence => Some(line),
            None => None,
        };
        match content {
            Some(content) if is_open => {
                let block = blocks.last_mut().expect("a block is open");
                block.lines.push(content.to_owned());
            }
            Some(content) => {
                let lines = vec![content.to_owned()];
                blocks.push(Block {
                    line: number + 1,
                    lines,
                    mark: mark.take(),
                });
                is_open = true;
            }
            None => {
                is_open = is_open && line.is_empty() && is_fenced;
                if let Some(comment) = line.trim_start().strip_prefix("<!-- ") {
                    mark = comment.strip_suffix(" -->").map(str::to_owned);
                } else if !line.is_empty() && !is_fence {
                    mark = None;
                }
            }
        }
        before = line.trim();
        if before.starts_with("<!--") {
            before = "";
        }
    }
    blocks
}

/// Returns the commands with their line numbers. Continued lines are joined, and comments removed.
fn commands(block: &Block) -> Vec<(usize, String)> {
    let mut commands: Vec<(usize, String)> = Vec::new();
    let mut is_continued = false;
    for (number, line) in block.lines.iter().enumerate() {
        let code = line.find("  #").map_or(line.as_str(), |at| &line[..at]);
        let (code, continues) = match code.trim().strip_suffix('\\') {
            Some(code) => (code, true),
            None => (code.trim(), false),
        };
        match commands.last_mut().filter(|_| is_continued) {
            Some((_, command)) => command.push_str(code),
            None if code.is_empty() => {}
            None => commands.push((block.line + number, code.to_owned())),
        }
        is_continued = continues;
    }
    commands
}

/// Returns the script for a command. Servers run in the background, and the script waits until they
/// answer.
fn step(place: &str, command: &str) -> String {
    // Without a name, a server starts with built-in settings. The release build is equivalent.
    let command = command
        .strip_prefix("cargo run --release")
        .map_or(command.to_owned(), |rest| format!("zoarium{rest}"));
    let quoted = command.replace('\'', "'\\''");
    let is_server = command == "zoarium" || command.starts_with("zoarium server");
    if is_server && command.contains("conf/three-servers/") && !command.contains("/1/") {
        format!("member '{place}' '{quoted}'\n")
    } else if is_server {
        format!("serve '{place}' '{quoted}'\n")
    } else if command.starts_with("zoarium quickstart") {
        format!("quickstart '{place}' '{quoted}'\n")
    } else if command.starts_with("conf/zkServer.sh start") {
        format!("stop_servers\ndo_it '{place}' '{quoted}'\nwait_for_server '{place}'\n")
    } else {
        format!("step '{place}' '{quoted}'\n")
    }
}

/// Common functions of the steps.
const PRELUDE: &str = r#"
set -u
pids=()
stop_servers() {
    [ ! -e data/zookeeper_server.pid ] || pids+=("$(cat data/zookeeper_server.pid)")
    rm -f data/zookeeper_server.pid
    for pid in "${pids[@]+"${pids[@]}"}"; do kill "$pid" 2>/dev/null; done
    for pid in "${pids[@]+"${pids[@]}"}"; do
        while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
    done
    pids=()
}
trap stop_servers EXIT
failed() { echo "$1: $2 (exit code $3)" >&2; tail -n 30 output >&2; exit 1; }
answers() { zoarium word localhost:2181 srvr >/dev/null 2>&1; }
wait_for_server() {
    for _ in $(seq 600); do answers && return; sleep 0.1; done
    failed "$1" 'no server' 1
}
member() {
    bash -c "exec $2" >>output 2>&1 </dev/null &
    pids+=($!)
}
serve() { stop_servers; member "$@"; wait_for_server "$1"; }
quickstart() {
    bash -c "exec $2" >quickstart_output 2>&1 </dev/null &
    pids+=($!)
    for _ in $(seq 600); do
        grep -q 'Open a shell' quickstart_output && return
        sleep 0.1
    done
    cat quickstart_output >&2
    failed "$1" "$2 prints no addresses" 1
}
step() {
    if ! answers; then
        serve "$1" 'zoarium server zoo.cfg'
        zoarium cli create /app >>output 2>&1 </dev/null
    fi
    do_it "$@"
}
do_it() {
    timeout 120 bash -c "set -o pipefail; $2" >output 2>&1 </dev/null
    local code=$?
    case "$2 $code" in *' 0' | *--strict*' 1') ;; *) failed "$1" "$2" "$code" ;; esac
    steps=$((${steps:-0} + 1))
}
ip link set lo up
for place in /var/lib /var/backups; do mount -t tmpfs tmpfs "$place"; done
ln -s "$PWD/data" /var/lib/zookeeper
"#;

fn tools() -> Result<(), Missing> {
    for tool in [
        "bash", "unshare", "ip", "mount", "curl", "openssl", "timeout",
    ] {
        find_tool(tool)?;
    }
    if rustix::process::geteuid().is_root() {
        Ok(())
    } else {
        Err(Missing("root, for namespaces".to_owned()))
    }
}

/// Creates a directory as a reader of the text would have it.
fn place() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path();
    let mut copy = Command::new("cp");
    copy.arg("-r").arg(workspace_root().join("conf")).arg(path);
    run(&mut copy, LIMIT).unwrap_or_else(|failure| panic!("{failure}"));
    for made in ["bin", "data"] {
        fs::create_dir(path.join(made)).expect("a directory");
    }
    std::os::unix::fs::symlink(zoarium_binary(), path.join("bin/zoarium")).expect("a link");
    let config = format!(
        "dataDir={}/data\nclientPort=2181\ntickTime=2000\nadmin.rateLimiterIntervalInMS=0\n\
         DigestAuthenticationProvider.superDigest={SUPER_DIGEST}\n",
        path.display()
    );
    for file in ["zoo.cfg", "conf/zoo.cfg"] {
        fs::write(path.join(file), &config).expect("write zoo.cfg");
    }
    dir
}

fn documents() -> Vec<String> {
    let docs = fs::read_dir(workspace_root().join("docs")).expect("docs");
    let names = docs.map(|entry| {
        entry
            .expect("a file")
            .file_name()
            .to_string_lossy()
            .into_owned()
    });
    let mut documents: Vec<String> = names
        .filter(|name| name.ends_with(".md"))
        .map(|name| format!("docs/{name}"))
        .collect();
    documents.sort();
    documents.insert(0, "README.md".to_owned());
    documents
}

fn read(document: &str) -> Vec<Block> {
    let text = fs::read_to_string(workspace_root().join(document));
    blocks(&text.unwrap_or_else(|error| panic!("{document}: {error}")))
}

#[test]
fn the_commands_of_all_documents_have_their_documented_effect() {
    if or_skip("the commands of documents", tools()).is_none() {
        return;
    }
    let mut count = 0;
    let mut scripts = Vec::new();
    for document in documents() {
        let mut script = PRELUDE.to_owned();
        let mut has_steps = false;
        for block in read(&document).iter().filter(|block| block.runs()) {
            // A reader of the README runs all its commands in order. In other documents each block
            // has its own servers.
            if document != "README.md" || block.mark.is_some() {
                script.push_str("stop_servers\n");
            }
            for (line, command) in commands(block) {
                write!(script, "{}", step(&format!("{document}:{line}"), &command))
                    .expect("a string");
                (has_steps, count) = (true, count + 1);
            }
        }
        if has_steps {
            scripts.push((document, script));
        }
    }
    println!("{count} commands");
    assert!(count > 40, "only {count}");
    // They mostly wait for servers.
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..CONCURRENT {
            scope.spawn(|| {
                while let Some((document, script)) =
                    scripts.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    follow(document, script);
                }
            });
        }
    });
}

fn follow(document: &str, script: &str) {
    let place = place();
    let file = place.path().join("steps.sh");
    fs::write(&file, script).expect("write a script");
    let path = format!(
        "{}:{}",
        place.path().join("bin").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let mut command = Command::new("unshare");
    command
        .args(["--net", "--mount", "--", "bash"])
        .arg(&file)
        .current_dir(place.path())
        .env("PATH", path)
        .env("HOME", place.path())
        .env("ZOO_LOG_DIR", place.path())
        .env("ZOARIUM", place.path().join("bin/zoarium"))
        .env("ZOARIUM_AUTH", "");
    command.env_remove("ZOARIUM_AUTH");
    run(&mut command, LIMIT).unwrap_or_else(|failure| panic!("{document}: {failure}"));
}

/// A reader whose port 2181 is in use sees the process that uses it, and an alternative.
#[test]
fn a_reader_with_a_used_port_gets_instructions() {
    if or_skip("the commands of documents", tools()).is_none() {
        return;
    }
    let steps = r#"
member other 'zoarium server 2181 other'
wait_for_server other
zoarium >refused 2>&1 </dev/null && failed 'zoarium' 'starts' 0
for text in ':2181' 'set another clientPort' '(zoarium) uses port 2181' 'zoarium quickstart'; do
    grep -qF "$text" refused || { cat refused >&2; failed 'zoarium' "no '$text'" 1; }
done
quickstart other 'zoarium quickstart --members 3'
"#;
    // The other server does not have an admin server, so the client port is the first one in use.
    let steps = steps.replace(
        "zoarium server 2181",
        "zoarium server -Dzookeeper.admin.enableServer=false 2181",
    );
    follow("README.md", &format!("{PRELUDE}{steps}"));
}

/// Named tests exist, and a block that does not run has a reason.
#[test]
fn marks_name_existing_commands() {
    let mut marked = 0;
    for document in documents() {
        for block in read(&document) {
            let Some(mark) = &block.mark else {
                continue;
            };
            marked += 1;
            let place = format!("{document}:{}: {mark}", block.line);
            if let Some(test) = mark.strip_prefix("test: ") {
                let folder = workspace_root().join("tests/tests").join(test);
                let file = folder.with_extension("rs");
                assert!(Path::new(&file).exists() || folder.is_dir(), "{place}");
            } else {
                let reason = mark.strip_prefix("another machine: ");
                assert!(
                    ["no commands", STOPPED].contains(&mark.as_str())
                        || reason.is_some_and(|why| !why.is_empty()),
                    "{place}"
                );
            }
        }
    }
    assert!(marked > 10);
}

#[test]
fn blocks_are_found_with_their_marks() {
    let text = "Text.\n\n    one \\\n      two   # why\n    three\n\nMore\n    no block\n\n\
        <!-- test: x -->\n\n    four\n\n```text\nfive\n```\n";
    let found = blocks(text);
    assert_eq!(found.len(), 3, "{found:?}");
    let first = commands(&found[0]);
    assert_eq!(first, [(3, "one two".to_owned()), (5, "three".to_owned())]);
    assert_eq!(found[1].mark.as_deref(), Some("test: x"));
    assert_eq!(
        (found[2].lines.as_slice(), found[2].mark.is_none()),
        (&["five".to_owned()][..], true)
    );
}
