#!/usr/bin/env bash
#
# Starts, stops and monitors a Zoarium server. Commands, environment variables, messages and exit
# codes match Apache ZooKeeper's zkServer.sh.
#
#   zkServer.sh [--config DIR] COMMAND [CONFIG]
#
# CONFIG is the name of a file in the configuration directory, or a path.
#
# Environment: ZOARIUM (the executable), ZOOCFGDIR, ZOOCFG, ZOOPIDFILE, ZOO_LOG_DIR, ZOO_NOEXEC,
# ZOO_DATADIR_AUTOCREATE_DISABLE, SERVER_JVMFLAGS and JVMFLAGS (only their -D flags have an effect),
# JMXDISABLE and JMXPORT (only for the messages).
# DIR/zookeeper-env.sh and DIR/java.env may set these variables.

set -u

# Seconds until a stop fails, and seconds during which a started server is watched.
STOP_LIMIT=30
START_WATCH=1

# Output of the command `version` of the compatible release of Apache ZooKeeper.
COMPATIBLE_VERSION='Apache ZooKeeper, version 3.9.5 2026-02-11 20:15 UTC'

usage() {
    echo "Usage: $0 [--config <conf-dir>]" \
        "{start|start-foreground|stop|version|restart|status|print-cmd}" >&2
    exit 1
}

if [ "${1:-}" = --config ] && [ $# -lt 2 ]; then
    usage
fi
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=zkEnv.sh
. "$here/zkEnv.sh"

announce() {
    case ${JMXDISABLE:-false} in
    false)
        echo "ZooKeeper JMX enabled by default" >&2
        [ -z "${JMXPORT:-}" ] || echo "ZooKeeper remote JMX Port set to $JMXPORT" >&2
        ;;
    *) echo "JMX disabled by user request" >&2 ;;
    esac
    echo "Using config: $ZOOCFG" >&2
}

# Sets ZOOPIDFILE (the process id file) and output (the file for the server's output).
use_directories() {
    local data log
    data=$(zoo_setting dataDir)
    log=$(zoo_setting dataLogDir)
    if [ -n "${ZOO_DATADIR_AUTOCREATE_DISABLE:-}" ]; then
        if [ ! -d "$data/version-2" ]; then
            echo "ZooKeeper data directory is missing at $data fix the path or run initialize"
            exit 1
        elif [ -n "$log" ] && [ ! -d "$log/version-2" ]; then
            echo "ZooKeeper txnlog directory is missing at $log fix the path or run initialize"
            exit 1
        fi
    fi
    if [ -z "${ZOOPIDFILE:-}" ]; then
        if [ -z "$data" ]; then
            echo "cannot write the process id file, because $ZOOCFG does not set dataDir" >&2
            exit 1
        fi
        ZOOPIDFILE=$data/zookeeper_server.pid
    fi
    output=$ZOO_LOG_DIR/zookeeper-${USER:-$(id -un)}-server-${HOSTNAME:-$(uname -n)}.out
}

use_command_line() {
    require_zoarium
    command_line=("$ZOARIUM" server)
    # Directory of the audit log. A flag of the operator has priority, as with Apache ZooKeeper.
    if [[ " $SERVER_JVMFLAGS $JVMFLAGS" != *[[:space:]]-Dzookeeper.log.dir=* ]]; then
        command_line+=("-Dzookeeper.log.dir=$ZOO_LOG_DIR")
    fi
    if [ -n "${ZOO_DATADIR_AUTOCREATE_DISABLE:-}" ]; then
        command_line+=(-Dzookeeper.datadir.autocreate=false)
    fi
    command_line+=("$ZOOCFG")
}

# Returns whether the process with this id is a live server. After a server has ended, another
# process may have its id. A Java server counts, because its data directory may be migrated.
is_server() {
    kill -0 "$1" 2>/dev/null || return 1
    local name
    [ -r "/proc/$1/comm" ] && read -r name <"/proc/$1/comm" || return 0
    [ "$name" = java ] || [[ "$name" == zoarium* ]] ||
        [ "$name" = "$(basename "${ZOARIUM:-zoarium}" | cut -c 1-15)" ]
}

start() {
    use_directories
    use_command_line
    echo -n "Starting zookeeper ... "
    local pid
    if [ -f "$ZOOPIDFILE" ]; then
        pid=$(cat "$ZOOPIDFILE")
        if is_server "$pid"; then
            echo "already running as process $pid."
            exit 1
        fi
    fi
    # The process id file is usually in the data directory, which only its group may read.
    if ! (umask g-w,o= && mkdir -p "$(dirname "$ZOOPIDFILE")") || ! mkdir -p "$ZOO_LOG_DIR"; then
        echo "FAILED TO START"
        exit 1
    fi
    nohup "${command_line[@]}" >"$output" 2>&1 </dev/null &
    pid=$!
    if ! echo -n "$pid" >"$ZOOPIDFILE"; then
        kill "$pid"
        echo "FAILED TO WRITE PID"
        exit 1
    fi
    local tenths=$((START_WATCH * 10))
    while [ "$tenths" -gt 0 ] && kill -0 "$pid" 2>/dev/null; do
        sleep 0.1
        tenths=$((tenths - 1))
    done
    if ! kill -0 "$pid" 2>/dev/null; then
        echo "FAILED TO START"
        tail -n 5 "$output" >&2
        exit 1
    fi
    echo "STARTED"
}

stop() {
    use_directories
    echo -n "Stopping zookeeper ... "
    if [ ! -f "$ZOOPIDFILE" ]; then
        echo "no zookeeper to stop (could not find file $ZOOPIDFILE)"
        return
    fi
    local pid tenths=$((STOP_LIMIT * 10))
    pid=$(cat "$ZOOPIDFILE")
    if is_server "$pid"; then
        kill "$pid"
        while is_server "$pid" && [ "$tenths" -gt 0 ]; do
            sleep 0.1
            tenths=$((tenths - 1))
        done
        if is_server "$pid"; then
            echo "FAILED TO STOP (process $pid is still running)"
            exit 1
        fi
    fi
    rm -f "$ZOOPIDFILE"
    echo "STOPPED"
}

# Sets client_address and client_port from the text after the semicolon in the `server.N` line of
# this server: ADDRESS:PORT or PORT.
use_member_line() {
    local id line
    id=$(cat "$(zoo_setting dataDir)/myid" 2>/dev/null)
    if ! [[ $id =~ ^[0-9]+$ ]]; then
        echo "myid could not be determined, will not able to locate clientPort in the server configs."
        return
    fi
    line=$(zoo_setting "server\.$id")
    if [[ $line != *\;* ]]; then
        echo "Client port not found in static config file. Looking in dynamic config file."
        line=$(zoo_setting "server\.$id" "$(zoo_setting dynamicConfigFile)")
    fi
    if [[ $line != *\;* ]]; then
        echo "Client port not found in the server configs"
        return
    fi
    line=${line##*;}
    client_port=${line##*:}
    [ "$line" = "$client_port" ] || client_address=${line%:*}
}

# Prints the server's answer to srvr. With TLS, it uses the stores in CLIENT_JVMFLAGS, or else the stores in zoo.cfg.
ask_server() {
    local host=$client_address
    [[ $host != *:* || $host == \[* ]] || host=[$host]
    local options=()
    [ "$secure" = false ] || options=(--tls --zoo-cfg "$ZOOCFG")
    "$ZOARIUM" word "${options[@]+"${options[@]}"}" --timeout 10 "$host:$client_port" srvr
}

status() {
    require_zoarium
    secure=false
    client_address=$(zoo_setting clientPortAddress)
    client_address=${client_address:-localhost}
    client_port=$(zoo_setting clientPort)
    [[ $client_port =~ ^[0-9]+$ ]] || use_member_line
    if [ -z "$client_port" ]; then
        echo "Client port not found. Looking for secureClientPort in the static config."
        client_port=$(zoo_setting secureClientPort)
        client_address=$(zoo_setting secureClientPortAddress)
        client_address=${client_address:-localhost}
        secure=true
    fi
    if [ -z "$client_port" ]; then
        echo "Unable to find either secure or unsecure client port in any configs. Terminating."
        exit 1
    fi
    echo "Client port found: $client_port. Client address: $client_address. Client SSL: $secure."
    local mode
    mode=$(ask_server | grep Mode)
    if [ -z "$mode" ]; then
        echo "Error contacting service. It is probably not running."
        exit 1
    fi
    echo "$mode"
}

command=${1:-}
case $command in
start | start-foreground | stop | restart | status | version | print-cmd) ;;
*) usage ;;
esac
case ${2:-} in
'') ;;
*/*) ZOOCFG=$2 ;;
*) ZOOCFG=$ZOOCFGDIR/$2 ;;
esac
announce

case $command in
start) start ;;
start-foreground)
    use_command_line
    if [ -n "${ZOO_NOEXEC:-}" ]; then
        "${command_line[@]}"
    else
        exec "${command_line[@]}"
    fi
    ;;
stop) stop ;;
# Both run in separate shells, so that variables of stop do not affect start.
restart) (stop) && (start) ;;
status) status ;;
version)
    echo "$COMPATIBLE_VERSION"
    [ ! -x "${ZOARIUM:-}" ] || "$ZOARIUM" --version 2>/dev/null | grep -i '^zoarium '
    exit 0
    ;;
print-cmd)
    use_directories
    use_command_line
    printf '"%s" ' "${command_line[@]}"
    printf '> "%s" 2>&1 < /dev/null\n' "$output"
    ;;
esac
