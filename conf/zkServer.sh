#!/usr/bin/env bash
#
# Starts, stops and looks after a Zoarium server for operators and scripts which know the command
# of the same name that comes with Apache ZooKeeper: the same commands, environment variables,
# messages and exit codes.
#
#   zkServer.sh [--config DIR] COMMAND [CONFIG]
#
# CONFIG is a file name within the configuration directory, or a path.
#
# Environment: ZOARIUM (the executable), ZOOCFGDIR, ZOOCFG, ZOOPIDFILE, ZOO_LOG_DIR, ZOO_NOEXEC,
# ZOO_DATADIR_AUTOCREATE_DISABLE, SERVER_JVMFLAGS and JVMFLAGS (their -D flags count, the rest
# concerns a virtual machine), JMXDISABLE and JMXPORT (for the messages only).
# DIR/zookeeper-env.sh and DIR/java.env may set any of them.

set -u

# How long a stopped server may take to end, and how long a started one is watched, in seconds.
STOP_LIMIT=30
START_WATCH=1

# The release whose behaviour is served, as its own version command words it.
COMPATIBLE_VERSION='Apache ZooKeeper, version 3.9.5 2026-02-11 20:15 UTC'

here=$(dirname "$(readlink -f "$0")")

usage() {
    echo "Usage: $0 [--config <conf-dir>]" \
        "{start|start-foreground|stop|version|restart|status|print-cmd}" >&2
    exit 1
}

find_zoarium() {
    local candidate
    for candidate in "${ZOARIUM:-}" "$here/zoarium" "$here/../bin/zoarium" \
        "$here/../target/release/zoarium"; do
        if [ -n "$candidate" ] && [ -x "$candidate" ] && [ ! -d "$candidate" ]; then
            echo "$candidate"
            return
        fi
    done
    if ! command -v zoarium; then
        echo "zoarium was not found; name the executable in ZOARIUM" >&2
        exit 1
    fi
}

# The last value of a key in a properties file, without the blanks around it.
setting() {
    [ -r "$2" ] || return 0
    sed -n "s/^[[:space:]]*$1[[:space:]]*[=:][[:space:]]*//p" "$2" |
        tail -n 1 | sed 's/[[:space:]]*$//'
}

use_configuration() {
    if [ -z "${ZOOCFGDIR:-}" ]; then
        ZOOCFGDIR=$here/../conf
        [ -d "$ZOOCFGDIR" ] || ZOOCFGDIR=$here/../etc/zookeeper
    fi
    local file
    for file in "$ZOOCFGDIR/zookeeper-env.sh" "$ZOOCFGDIR/java.env"; do
        # shellcheck source=/dev/null
        [ ! -e "$file" ] || . "$file"
    done
    local name=${1:-${ZOOCFG:-zoo.cfg}}
    case $name in
    */*) ZOOCFG=$name ;;
    *) ZOOCFG=$ZOOCFGDIR/$name ;;
    esac
    # The server reads these itself; the files above may have set them without export.
    export SERVER_JVMFLAGS=${SERVER_JVMFLAGS:-} JVMFLAGS=${JVMFLAGS:-}
}

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

# Sets what start and stop need: the process id file and the file for the server's output.
use_directories() {
    local data log
    data=$(setting dataDir "$ZOOCFG")
    log=$(setting dataLogDir "$ZOOCFG")
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
            echo "no dataDir in $ZOOCFG, so there is no place for the process id file" >&2
            exit 1
        fi
        ZOOPIDFILE=$data/zookeeper_server.pid
    fi
    ZOO_LOG_DIR=${ZOO_LOG_DIR:-$here/../logs}
    output=$ZOO_LOG_DIR/zookeeper-${USER:-$(id -un)}-server-${HOSTNAME:-$(uname -n)}.out
}

use_command_line() {
    local zoarium
    zoarium=$(find_zoarium) || exit 1
    command_line=("$zoarium" server)
    if [ -n "${ZOO_DATADIR_AUTOCREATE_DISABLE:-}" ]; then
        command_line+=(-Dzookeeper.datadir.autocreate=false)
    fi
    command_line+=("$ZOOCFG")
}

# Whether a process id is that of a live server, and not of a stranger who got the number of one
# long gone. Java's counts: its data directory may be the one that is being taken over.
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
    # The first is usually the data directory, which only its group can read.
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

# Sets client_address and client_port from the member line of this server, ADDRESS:PORT or PORT
# behind the semicolon.
use_member_line() {
    local id line
    id=$(cat "$(setting dataDir "$ZOOCFG")/myid" 2>/dev/null)
    if ! [[ $id =~ ^[0-9]+$ ]]; then
        echo "myid could not be determined, will not able to locate clientPort in the server configs."
        return
    fi
    line=$(setting "server\.$id" "$ZOOCFG")
    if [[ $line != *\;* ]]; then
        echo "Client port not found in static config file. Looking in dynamic config file."
        line=$(setting "server\.$id" "$(setting dynamicConfigFile "$ZOOCFG")")
    fi
    if [[ $line != *\;* ]]; then
        echo "Client port not found in the server configs"
        return
    fi
    line=${line##*;}
    client_port=${line##*:}
    [ "$line" = "$client_port" ] || client_address=${line%:*}
}

# The answer of the server to srvr, or nothing.
ask_server() {
    local host=${client_address#[}
    host=${host%]}
    if [ "$secure" = true ]; then
        command -v openssl >/dev/null || return 0
        echo -n srvr | timeout 10 openssl s_client -quiet -connect "$client_address:$client_port"
    else
        timeout 10 bash -c 'exec 3<>"/dev/tcp/$0/$1" && echo -n srvr >&3 && cat <&3' \
            "$host" "$client_port"
    fi 2>/dev/null
}

status() {
    secure=false
    client_address=$(setting clientPortAddress "$ZOOCFG")
    client_address=${client_address:-localhost}
    client_port=$(setting clientPort "$ZOOCFG")
    [[ $client_port =~ ^[0-9]+$ ]] || use_member_line
    if [ -z "$client_port" ]; then
        echo "Client port not found. Looking for secureClientPort in the static config."
        client_port=$(setting secureClientPort "$ZOOCFG")
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

if [ "${1:-}" = --config ]; then
    [ $# -ge 2 ] || usage
    ZOOCFGDIR=$2
    shift 2
fi
command=${1:-}
case $command in
start | start-foreground | stop | restart | status | version | print-cmd) ;;
*) usage ;;
esac
use_configuration "${2:-}"
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
# Each in a shell of its own, so that neither's environment reaches the other.
restart) (stop) && (start) ;;
status) status ;;
version)
    echo "$COMPATIBLE_VERSION"
    zoarium=$(find_zoarium 2>/dev/null) && "$zoarium" --version 2>/dev/null | grep -i '^zoarium '
    exit 0
    ;;
print-cmd)
    use_directories
    use_command_line
    printf '"%s" ' "${command_line[@]}"
    printf '> "%s" 2>&1 < /dev/null\n' "$output"
    ;;
esac
