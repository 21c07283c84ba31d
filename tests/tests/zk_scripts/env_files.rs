//! Files of flags with the shapes that people publish: every script reads them as Apache
//! ZooKeeper's scripts do.

use std::fs;
use std::path::Path;
use std::process::Command;

use tests::{find_tool, workspace_root};

/// A file, and a flag that the server must then have.
struct Shape {
    name: &'static str,
    file: &'static str,
    text: &'static str,
    flags: &'static [&'static str],
}

const ENV: &str = "zookeeper-env.sh";
const JAVA_ENV: &str = "java.env";

macro_rules! shapes {
    ($($name:literal in $file:ident [$($flag:literal),*] $text:literal)+) => {
        &[$(Shape { name: $name, file: $file, flags: &[$($flag),*], text: $text }),+]
    };
}

const SHAPES: &[Shape] = shapes! {
    "Ambari" in ENV ["-Xmx1024m"] "
export JAVA_HOME=/usr/jdk64/jdk1.8.0_112
export ZOOKEEPER_HOME=/usr/hdp/current/zookeeper-server
export ZOO_LOG_DIR=/var/log/zookeeper
export SERVER_JVMFLAGS=-Xmx1024m
export JAVA=$JAVA_HOME/bin/java
export CLASSPATH=$CLASSPATH:/usr/share/zookeeper/*
"
    "Ambari with Kerberos" in ENV ["-Djava.security.auth.login.config=/etc/zk_jaas.conf"] "
export CLASSPATH=$CLASSPATH:$ZOOKEEPER_HOME/*
export SERVER_JVMFLAGS=\"$SERVER_JVMFLAGS -Djava.security.auth.login.config=/etc/zk_jaas.conf\"
export CLIENT_JVMFLAGS=\"$CLIENT_JVMFLAGS -Djava.security.auth.login.config=/etc/zk_client_jaas.conf\"
"
    "HDP" in ENV ["-Xmx1024m"] "
export ZOOCFGDIR=${ZOOCFGDIR:-/etc/zookeeper/conf}
export ZOOKEEPER_CONF=${ZOOKEEPER_CONF:-$ZOOCFGDIR}
export CLASSPATH=$CLASSPATH:$ZOOKEEPER_CONF:$ZOOKEEPER_HOME/*
export SERVER_JVMFLAGS=-Xmx1024m
"
    "chef" in ENV ["-Dzookeeper.a=chef"] "
JAVA_OPTS=\"-Xms128M -Xmx512M\"
JVMFLAGS=\"$JAVA_OPTS $EXTRA_JAVA_OPTS -Dzookeeper.a=chef\"
ZOO_LOG4J_PROP=\"INFO,ROLLINGFILE\"
export ZOO_LOG_DIR=$ZOO_LOG_HOME/zookeeper
"
    "chef with a list" in ENV ["-Dzookeeper.snapCount=9"] "
export EXHIBITOR_OPTS=\"$EXHIBITOR_OPTS --port $EXHIBITOR_PORT\"
export JVMFLAGS=\"-Dzookeeper.snapCount=9 $JVMFLAGS\"
"
    "exporter of metrics as an agent" in JAVA_ENV ["-Dx=1", "-javaagent:/opt/jmx.jar=7070:/opt/zk.yml"] "
export SERVER_JVMFLAGS=\"-javaagent:/opt/jmx.jar=7070:/opt/zk.yml $SERVER_JVMFLAGS -Dx=1\"
"
    "jolokia" in JAVA_ENV ["-Dx=2"] "
export SERVER_JVMFLAGS=\"$SERVER_JVMFLAGS -javaagent:$JOLOKIA_HOME/jolokia.jar=port=8778,host=0.0.0.0 -Dx=2\"
"
    "New Relic" in JAVA_ENV ["-Dnewrelic.environment="] "
NEWRELIC=\"-javaagent:/opt/newrelic/newrelic.jar -Dnewrelic.environment=$NEWRELIC_ENV\"
JVMFLAGS=\"$NEWRELIC $JVMFLAGS\"
"
    "Bitnami" in ENV ["-Xmx1024m"] "
export BITNAMI_ROOT_DIR=\"/opt/bitnami\"
export ZOO_BASE_DIR=\"${BITNAMI_ROOT_DIR}/zookeeper\"
export ZOO_HEAP_SIZE=\"${ZOO_HEAP_SIZE:-1024}\"
export JVMFLAGS=\"${JVMFLAGS:-} -Xmx${ZOO_HEAP_SIZE}m -Xms${ZOO_HEAP_SIZE}m\"
"
    "Bitnami with unset options" in JAVA_ENV ["-Dzookeeper.sslQuorum=true"] "
export JVMFLAGS=\"$JVMFLAGS $ZOO_TLS_OPTS -Dzookeeper.sslQuorum=true\"
"
    "Confluent" in ENV ["-Dzookeeper.4lw.commands.whitelist=*"] "
export KAFKA_HEAP_OPTS=\"-Xmx512M -Xms512M\"
export KAFKA_OPTS=\"$KAFKA_OPTS -Dzookeeper.4lw.commands.whitelist=*\"
export JVMFLAGS=\"$KAFKA_OPTS\"
"
    "Confluent for Ansible" in ENV ["-Djava.security.auth.login.config=/etc/kafka/zk.jaas"] "
KAFKA_OPTS='-Djava.security.auth.login.config=/etc/kafka/zk.jaas -javaagent:/opt/p.jar=8079:/opt/zk.yml'
SERVER_JVMFLAGS=\"$KAFKA_OPTS $SERVER_JVMFLAGS\"
"
    "Helm, the old incubator chart" in JAVA_ENV ["-Xmx2G"] "
ZOO_LOG_DIR=/var/log/zookeeper
JVMFLAGS=\"-Xmx2G -Xms2G\"
"
    "Helm with a heap" in JAVA_ENV ["-Xmx1G"] "
echo \"creating java.env\" >/dev/null
JVMFLAGS=\"-Xmx${ZK_HEAP_SIZE:-1G} -Xms${ZK_HEAP_SIZE:-1G}\"
"
    "Pravega's operator" in JAVA_ENV ["-XX:+UseG1GC"] "
ZOO_LOG4J_PROP=\"INFO,CONSOLE\"
SERVER_JVMFLAGS=\"-Xms512M -Xmx512M -XX:+UseG1GC $ZK_EXTRA\"
"
    "Ansible with template remains" in ENV ["-Dx=3"] "
# Ansible managed
export ZOO_LOG_DIR=\"/var/log/zookeeper\"
export ZOO_LOG4J_PROP=\"INFO,ROLLINGFILE\"
export SERVER_JVMFLAGS=\"-Dx=3 ${SERVER_JVMFLAGS}\"
"
    "Ansible with a continued line" in JAVA_ENV ["-Dx=4", "-Dy=4"] "
export SERVER_JVMFLAGS=\"-Dx=4 \\
  -Dy=4 \\
  $SERVER_JVMFLAGS\"
"
    "Puppet, Debian's environment" in ENV ["-Dx=5"] "
NAME=zookeeper
CLASSPATH=\"/etc/zookeeper/conf:/usr/share/java/jline.jar:$CLASSPATH\"
ZOO_LOG_DIR=/var/log/$NAME
USER=$NAME
GROUP=$NAME
PIDDIR=/var/run/$NAME
SCRIPTNAME=/etc/init.d/$NAME
JAVA=/usr/bin/java
ZOOMAIN=\"org.apache.zookeeper.server.quorum.QuorumPeerMain\"
ZOO_LOG4J_PROP=\"INFO,ROLLINGFILE\"
JMXLOCALONLY=false
JAVA_OPTS=\"\"
JVMFLAGS=\"$JAVA_OPTS -Dx=5\"
"
    "Cloudera" in ENV ["-Dx=6"] "
export ZOO_LOG_DIR=/var/log/zookeeper
export SERVER_JVMFLAGS=\"$CSD_JAVA_OPTS -Dx=6\"
export CLIENT_JVMFLAGS=\"$CSD_JAVA_OPTS\"
"
    "Mesosphere" in ENV ["-Dx=7"] "
[ -f /etc/default/zookeeper ] && . /etc/default/nothing-there
export JVMFLAGS=\"-Dx=7\"
[ -n \"$NEVER_SET\" ] && export JVMFLAGS=\"$NEVER_SET\"
"
    "Exhibitor" in JAVA_ENV ["-Dx=8"] "
export JVMFLAGS=\"-Xms256m -Dx=8 $EXHIBITOR_JVMFLAGS\"
export ZOO_LOG_DIR=\"$EXHIBITOR_LOGS\"
"
    "a block of if" in ENV ["-Dx=9"] "
if [ \"x$JMXDISABLE\" = \"x\" ]; then
  export JMXPORT=9999
fi
if [ -z $UNSET_NAME ]; then
  SERVER_JVMFLAGS=\"-Dx=9\"
else
  SERVER_JVMFLAGS=\"-Dx=0\"
fi
"
    "a case" in ENV ["-Dx=10"] "
case $(uname) in
  Linux) export SERVER_JVMFLAGS=\"-Dx=10 $LINUX_FLAGS\" ;;
  *) ;;
esac
"
    "declare" in ENV ["-Dx=11"] "
declare -x SERVER_JVMFLAGS=\"-Dx=11\"
declare -i HEAP=512
"
    "typeset and arrays" in ENV ["-Dx=12", "-Dy=12"] "
typeset -a flags
flags=(-Dx=12 -Dy=12)
export SERVER_JVMFLAGS=\"${flags[*]} ${more[*]}\"
"
    "set -e" in ENV ["-Dx=13"] "
set -e
SERVER_JVMFLAGS=-Dx=13
"
    "set -euo pipefail" in JAVA_ENV ["-Dx=14"] "
set -euo pipefail
export SERVER_JVMFLAGS=-Dx=14
"
    "defaults by a colon" in ENV ["-Dx=15"] "
: ${ZK_FLAGS:=-Dx=15}
: \"${ZOO_HEAP:=512}\"
export SERVER_JVMFLAGS=\"$ZK_FLAGS\"
"
    "the name of the host" in ENV ["-Dx=16"] "
HOST=$(hostname -f 2>/dev/null || uname -n)
IP=`echo $POD_IP`
export SERVER_JVMFLAGS=\"-Dx=16 -Dhost=$HOST\"
"
    "a loop over jars" in ENV ["-Dx=17"] "
for jar in $ZOOKEEPER_HOME/lib/*.jar; do
  CLASSPATH=$CLASSPATH:$jar
done
SERVER_JVMFLAGS=-Dx=17
"
    "functions" in ENV ["-Dx=18"] "
add_flag() { SERVER_JVMFLAGS=\"$SERVER_JVMFLAGS $1\"; }
add_flag -Dx=18
start() { echo not ours; }
"
    "limits and umask" in ENV ["-Dx=19"] "
ulimit -c 0
umask 0027
SERVER_JVMFLAGS=\"-Dx=19\"
"
    "the log of a garbage collector" in JAVA_ENV ["-Xloggc:/var/log/zk/gc.log", "-Dx=20"] "
GC_OPTS=\"-XX:+PrintGCDetails -Xloggc:/var/log/zk/gc.log -XX:+UseGCLogFileRotation\"
SERVER_JVMFLAGS=\"$SERVER_JVMFLAGS $GC_OPTS -Dx=20\"
"
    "a command when memory is out" in JAVA_ENV ["-Dx=21"] "
SERVER_JVMFLAGS=\"-XX:OnOutOfMemoryError='kill -9 %p' -Dx=21\"
"
    "ports of JMX" in JAVA_ENV ["-Dcom.sun.management.jmxremote.port=9010"] "
JMX_OPTS=\"-Dcom.sun.management.jmxremote -Dcom.sun.management.jmxremote.port=9010\"
export JVMFLAGS=\"$JMX_OPTS $JVMFLAGS\"
"
    "an appended value" in JAVA_ENV ["-Dx=22"] "
SERVER_JVMFLAGS+=\" -Dx=22\"
"
    "blanks, tabs and comments" in JAVA_ENV ["-Dx=23"] "

\t# flags
   export   SERVER_JVMFLAGS=\"-Dx=23\"   # for the server
"
    "no line at the end" in JAVA_ENV ["-Dx=24"] "SERVER_JVMFLAGS=-Dx=24"
    "a text between lines" in ENV ["-Dx=25"] "
cat >/dev/null <<EOF
$NOT_SET
EOF
SERVER_JVMFLAGS=-Dx=25
"
    "an empty file" in JAVA_ENV [] ""
    "a script of its own" in ENV ["-Dx=26"] "
#!/usr/bin/env bash
here=/nowhere
command=nothing
SERVER_JVMFLAGS=\"-Dx=26 $1$2$3\"
"
    "the last command fails" in ENV ["-Dx=27"] "
SERVER_JVMFLAGS=-Dx=27
grep -q nothing /dev/null
"
    "read-only variables" in ENV ["-Dx=28"] "
readonly ZOO_LOG_DIR=/var/log/zookeeper
declare -rx SERVER_JVMFLAGS=-Dx=28
"
    "an array of flags" in JAVA_ENV ["-Dx=29", "-Dy=29"] "
SERVER_JVMFLAGS=(-Dx=29 -Dy=29)
"
    "an array of no flags" in JAVA_ENV [] "
JVMFLAGS=()
"
    "options and separators of the shell" in ENV ["-Dx=30", "-Dy=30"] "
set -o noclobber -o noglob -o pipefail
IFS=,
SERVER_JVMFLAGS=(-Dx=30 -Dy=30)
"
    "TLS of the server" in JAVA_ENV ["-Dzookeeper.ssl.keyStore.location=/etc/zk/ks.jks"] "
SERVER_JVMFLAGS=\"-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
-Dzookeeper.ssl.keyStore.location=/etc/zk/ks.jks
-Dzookeeper.ssl.keyStore.password=$KEYSTORE_PASSWORD\"
"
};

/// Runs a command with the file of flags in `home`; in place of the executable, `echo` prints its
/// arguments.
fn run(mut command: Command, home: &Path) -> (String, String, bool) {
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").expect("a path"))
        .env("ZOARIUM", find_tool("echo").expect("coreutils are there"))
        .env("ZOOCFGDIR", home);
    let output = command.output().expect("run a script");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        text(&output.stdout),
        text(&output.stderr),
        output.status.success(),
    )
}

fn script(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(workspace_root().join("conf").join(name));
    command.args(arguments);
    command
}

/// Sources the common part as scripts of operators do, with `set -eu` or without, and prints the
/// exported flags.
fn sourced(options: &str) -> Command {
    let script = workspace_root().join("conf/zkEnv.sh");
    let line = format!(
        "{options} . {}; sh -c 'echo $SERVER_JVMFLAGS $JVMFLAGS'",
        script.display()
    );
    let mut command = Command::new("bash");
    command.args(["-c", &line]);
    command
}

#[test]
fn published_files_of_flags_are_read() {
    assert!(SHAPES.len() >= 40, "only {}", SHAPES.len());
    let mut wrong = Vec::new();
    for shape in SHAPES {
        let home = tempfile::tempdir().expect("a directory");
        fs::write(home.path().join(shape.file), shape.text).expect("write a file");
        for (command, wanted) in [
            (
                script("zkServer.sh", &["start-foreground"]),
                &["server"][..],
            ),
            (script("zkCli.sh", &["ls", "/"]), &["cli", "ls", "/"]),
            (sourced(""), shape.flags),
            (sourced("set -eu;"), shape.flags),
        ] {
            let (printed, complaint, is_success) = run(command, home.path());
            let words: Vec<&str> = printed.split_whitespace().collect();
            if !is_success || !wanted.iter().all(|word| words.contains(word)) {
                wrong.push(format!("{}: {wanted:?}: {printed}{complaint}", shape.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_script_that_sources_the_common_part_keeps_its_options() {
    let home = tempfile::tempdir().expect("a directory");
    let text = "set -o noclobber -o pipefail +e\n";
    fs::write(home.path().join(ENV), text).expect("write a file");
    let path = workspace_root().join("conf/zkEnv.sh");
    for options in ["", "set -eu;", "set -euo pipefail; set -f;"] {
        let line = format!(
            "{options} set +o; echo $-; echo ===; . {}; set +o; echo $-",
            path.display()
        );
        let mut command = Command::new("bash");
        command.args(["-c", &line]);
        let (printed, complaint, _) = run(command, home.path());
        let (before, after) = printed.split_once("===\n").expect("both lists");
        assert_eq!(before, after, "{options} {complaint}");
    }
}

/// The audit log is in this directory; a flag of the operator has priority.
#[test]
fn the_log_directory_becomes_a_flag() {
    let home = tempfile::tempdir().expect("a directory");
    for (text, expected) in [
        ("ZOO_LOG_DIR=/a", "server -Dzookeeper.log.dir=/a /"),
        ("ZOO_LOG_DIR='/a b'", "server -Dzookeeper.log.dir=/a b /"),
        (
            "ZOO_LOG_DIR=/a\nJVMFLAGS=-Dzookeeper.log.dir=/b",
            "server /",
        ),
    ] {
        fs::write(home.path().join(ENV), text).expect("write a file");
        let command = script("zkServer.sh", &["start-foreground"]);
        let (printed, complaint, _) = run(command, home.path());
        assert!(
            printed.starts_with(expected),
            "{text}: {printed}{complaint}"
        );
    }
}
