#!/usr/bin/env bash
#
# Common part of the scripts that have the names of Apache ZooKeeper's scripts. Scripts of operators may source it too.
# It sets ZOOBINDIR, ZOOCFGDIR, ZOOCFG (a path), ZOO_LOG_DIR, and the variables of zookeeper-env.sh and java.env. It
# sets ZOARIUM to the executable, if there is one. If the caller's first arguments are `--config DIR`, it sets ZOOCFGDIR
# to DIR.

ZOOBINDIR=${ZOOBINDIR:-$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")}

if [ $# -gt 1 ] && [ "$1" = --config ]; then
    ZOOCFGDIR=$2
    shift 2
fi
if [ -z "${ZOOCFGDIR:-}" ]; then
    ZOOCFGDIR=$ZOOBINDIR/../conf
    [ -d "$ZOOCFGDIR" ] || ZOOCFGDIR=$ZOOBINDIR/../etc/zookeeper
fi
# Operators write both files for a shell with the default options: the files use variables that are not set, and
# commands that fail. They may also change options. They are sourced outside of a function, because `declare` in a
# function creates a local variable.
zoo_shell_options=$(set +o)
# A command substitution does not inherit the option -e of its shell.
case $- in *e*) zoo_shell_options+=$'\nset -e' ;; esac
set +eu
if [ -f "$ZOOCFGDIR/zookeeper-env.sh" ]; then
    # shellcheck source=/dev/null
    . "$ZOOCFGDIR/zookeeper-env.sh"
fi
ZOOCFG=${ZOOCFG:-zoo.cfg}
case $ZOOCFG in
*/*) ;;
*) ZOOCFG=$ZOOCFGDIR/$ZOOCFG ;;
esac
if [ -f "$ZOOCFGDIR/java.env" ]; then
    # shellcheck source=/dev/null
    . "$ZOOCFGDIR/java.env"
fi
eval "$zoo_shell_options"
unset zoo_shell_options
[ -n "${ZOO_LOG_DIR:-}" ] || ZOO_LOG_DIR=$ZOOBINDIR/../logs
# The executable reads the flags from the environment. The files above may have set them without `export`, as an array,
# or as a read-only variable.
for zoo_name in SERVER_JVMFLAGS CLIENT_JVMFLAGS JVMFLAGS; do
    zoo_values="$zoo_name[@]"
    case $(declare -p "$zoo_name" 2>/dev/null) in
    'declare -'[aA]*)
        zoo_flags=$(printf '%s ' "${!zoo_values-}")
        unset "$zoo_name"
        export "$zoo_name=$zoo_flags"
        ;;
    '') export "$zoo_name=" ;;
    *) export "${zoo_name?}" ;;
    esac
done
unset zoo_name zoo_values zoo_flags

for zoo_file in "${ZOARIUM:-}" "$ZOOBINDIR/zoarium" "$ZOOBINDIR/../bin/zoarium" \
    "$ZOOBINDIR/../target/release/zoarium" "$(command -v zoarium)"; do
    if [ -n "$zoo_file" ] && [ -x "$zoo_file" ] && [ ! -d "$zoo_file" ]; then
        ZOARIUM=$zoo_file
        break
    fi
done
unset zoo_file

# Ends the script if the executable does not exist.
require_zoarium() {
    if [ ! -x "${ZOARIUM:-}" ] || [ -d "$ZOARIUM" ]; then
        echo "$0: cannot find zoarium next to this script or on PATH; set ZOARIUM to its path" >&2
        exit 1
    fi
}

# Runs the executable. Ends the script if the executable does not exist.
zoarium_or_fail() {
    require_zoarium
    "$ZOARIUM" "$@"
}

# Prints the last value of a key in zoo.cfg or in another properties file, without the blanks around it.
zoo_setting() {
    [ -r "${2:-$ZOOCFG}" ] || return 0
    sed -n "s/^[[:space:]]*$1[[:space:]]*[=:][[:space:]]*//p" "${2:-$ZOOCFG}" |
        tail -n 1 | sed 's/[[:space:]]*$//'
}
