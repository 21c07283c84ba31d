//! Commands that read and write znodes, as a shell script uses them.

use std::process::Command;

use tests::zoarium_binary;

use super::{Site, complaint, output_of, program};

#[test]
fn a_script_reads_and_writes_znodes() {
    let Some(site) = Site::start() else { return };
    // The shell's own substitution, with a value that ends with a line break and one that does not.
    let script = r#"
        set -eu
        zoarium() { "$ZOARIUM" "$@"; }
        created=$(zoarium create -p /app/x 'a value')
        test "$created" = /app/x
        V=$(zoarium get /app/x)
        test "$V" = 'a value'
        printf 'two\nlines\n' | zoarium set /app/x -
        zoarium get /app/x | od -An -c | tr -d ' \n'
        echo
        zoarium set /app/x -- -5
        test "$(zoarium get /app/x)" = -5
        zoarium ls /app
        zoarium cp -r /app /copy
        zoarium mv /copy /moved
        zoarium diff /app /moved
        zoarium export /app > "$DIR/app.json"
        zoarium import /import < "$DIR/app.json"
        zoarium tree /import
        zoarium find / --name x
        zoarium acl /app/x world:anyone:r
        zoarium acl /app/x
        zoarium rm -r /moved
        zoarium rm -f /moved
        zoarium get /app/x --base64
        zoarium create --sequential /app/task-
    "#;
    let dir = tempfile::tempdir().expect("a directory");
    let create = site.run(&["create", "/import"]);
    assert!(create.status.success(), "{}", complaint(&create));
    let mut shell = Command::new("bash");
    shell
        .args(["-c", script])
        .env("ZOARIUM", zoarium_binary())
        .env("ZOARIUM_SERVER", site.server.address())
        .env("DIR", dir.path());
    let output = output_of(&mut shell, "");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}{}", complaint(&output));
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(
        lines,
        [
            r"two\nlines\n",
            "x",
            "/import",
            "  app",
            "    x",
            "/app/x",
            "/import/app/x",
            "/moved/x",
            "world:anyone:r",
            "LTU=",
            "/app/task-0000000001",
        ]
    );
}

#[test]
fn a_move_happens_as_a_whole_or_not_at_all() {
    let Some(site) = Site::start() else { return };
    for path in ["/a/b/c", "/target"] {
        site.text(&["create", "-p", path, path]);
    }
    let there = site.run(&["mv", "/a", "/target"]);
    assert_eq!(there.status.code(), Some(6), "{}", complaint(&there));
    assert!(complaint(&there).contains("/target: the znode exists already"));
    assert_eq!(site.text(&["ls", "/target"]), "");
    let nowhere = site.run(&["mv", "/a", "/no/where"]);
    assert_eq!(nowhere.status.code(), Some(4), "{}", complaint(&nowhere));
    site.text(&["mv", "/a", "/target/a"]);
    assert_eq!(site.text(&["get", "/target/a/b/c"]), "/a/b/c");
    assert_eq!(site.text(&["ls", "/"]), "target\nzookeeper\n");
}

#[test]
fn the_client_port_or_the_admin_port_suffices() {
    let Some(site) = Site::start() else { return };
    site.text(&["create", "/x", "1"]);
    let (client, admin) = (site.server.address(), site.admin_address());
    let nobody = "127.0.0.1:1";
    // An admin port reports the client port.
    let output = program(&["get", "/x", "--admin", &admin], "", "");
    assert_eq!(output.stdout, b"1", "{}", complaint(&output));
    // --server has priority over the environment.
    let output = program(&["get", "/x", "-s", &client], nobody, "");
    assert_eq!(output.stdout, b"1", "{}", complaint(&output));
    // The error names the kind of a wrong port.
    let wrong = program(&["get", "/x", "-s", &admin], "", "");
    assert_eq!(wrong.status.code(), Some(7), "{}", complaint(&wrong));
    assert!(
        complaint(&wrong).contains("is an admin port"),
        "{}",
        complaint(&wrong)
    );
    let wrong = program(&["history", "/x", "--admin", &client], "", "");
    assert_eq!(wrong.status.code(), Some(2), "{}", complaint(&wrong));
    assert!(
        complaint(&wrong).contains("is a client port"),
        "{}",
        complaint(&wrong)
    );
    // As in earlier versions. The server does not keep a history, and reports this.
    let output = program(&["history", "/x", "--server", &admin], "", "");
    let text = complaint(&output);
    assert!(text.contains("change history is off"), "{text}");
    // There is no server.
    let nobody = program(&["history", "/x", "--admin", nobody], "", "");
    assert_eq!(nobody.status.code(), Some(7), "{}", complaint(&nobody));
}
