//! `conf/zkCli.sh` connects as the flags in its files specify: with TLS, and with a login.

use std::fs;
use std::path::Path;
use std::process::Command;

use tests::certificates::Certificates;
use tests::secrets::SASL_BOB;
use tests::{Flavour, Port, ServerBuilder, or_skip, workspace_root, zoarium_binary};

const PROVIDER: &str = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
const MODULE: &str = "org.apache.zookeeper.server.auth.DigestLoginModule required";

/// Runs the script with the files of flags in `home`. Returns its output and its exit code.
fn shell(home: &Path, server: &str, words: &[&str]) -> (String, Option<i32>) {
    let mut command = Command::new(workspace_root().join("conf/zkCli.sh"));
    command
        .args(["-server", server])
        .args(words)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").expect("a path"))
        .env("ZOARIUM", zoarium_binary())
        .env("ZOOCFGDIR", home);
    let output = command.output().expect("run a script");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        text(&output.stdout) + &text(&output.stderr),
        output.status.code(),
    )
}

#[test]
fn the_shell_has_the_login_and_the_stores_of_the_flags() {
    let home = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        let path = home.path().join(name);
        fs::write(&path, text).expect("write a file");
        path.display().to_string()
    };
    let of_server = write(
        "server.conf",
        &format!("Server {{ {MODULE} user_bob=\"{SASL_BOB}\"; }};\n"),
    );
    let of_client = write(
        "client.conf",
        &format!("Client {{ {MODULE} username=\"bob\" password=\"{SASL_BOB}\"; }};\n"),
    );
    let certificates = Certificates::new();
    certificates.sign("server");
    certificates.sign("client");
    let secure = Port::take();
    let mut builder = ServerBuilder::new(Flavour::Zoarium)
        .setting("authProvider.sasl", PROVIDER)
        .setting("sessionRequireClientSASLAuth", "true")
        .setting("secureClientPort", &secure.number().to_string())
        .setting("secureClientPortAddress", "127.0.0.1")
        .setting("ssl.clientAuth", "need")
        .property("java.security.auth.login.config", &of_server);
    for (key, value) in certificates.settings("ssl.", "server", "pem") {
        builder = builder.setting(&key, &value);
    }
    let Some(server) = or_skip("zkCli.sh with a login", builder.start()) else {
        return;
    };
    let secure = format!("127.0.0.1:{}", secure.number());

    let login = format!("-Djava.security.auth.login.config={of_client}");
    for (file, text) in [
        ("java.env", format!("CLIENT_JVMFLAGS=\"{login}\"\n")),
        (
            "zookeeper-env.sh",
            format!("export JVMFLAGS=\"{login} $JVMFLAGS\"\n"),
        ),
    ] {
        write(file, &text);
        let (printed, code) = shell(home.path(), &server.address(), &["whoami"]);
        assert_eq!(code, Some(0), "{file}: {printed}");
        assert!(printed.contains("sasl: bob"), "{file}: {printed}");
        fs::remove_file(home.path().join(file)).expect("remove a file");
    }
    let (printed, code) = shell(home.path(), &server.address(), &["ls", "/"]);
    assert_ne!(code, Some(0), "without a login: {printed}");

    let mut flags = format!("{login} -Dzookeeper.client.secure=true");
    for (key, value) in certificates.settings("zookeeper.ssl.", "client", "pem") {
        flags.push_str(&format!(" -D{key}={value}"));
    }
    write("java.env", &format!("export CLIENT_JVMFLAGS='{flags}'\n"));
    let (printed, code) = shell(home.path(), &secure, &["whoami"]);
    assert_eq!(code, Some(0), "{printed}");
    assert!(
        printed.contains("sasl: bob") && printed.contains("x509: CN=client"),
        "{printed}"
    );

    // A file that cannot be read is reported, and the connection has no login, as with Apache
    // ZooKeeper.
    write(
        "java.env",
        "CLIENT_JVMFLAGS=-Djava.security.auth.login.config=/nowhere/jaas.conf\n",
    );
    let (printed, _) = shell(home.path(), &server.address(), &["whoami"]);
    assert!(
        printed.contains("the JAAS file /nowhere/jaas.conf cannot be read"),
        "{printed}"
    );
}
