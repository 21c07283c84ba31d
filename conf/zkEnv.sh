#!/usr/bin/env bash
#
# What the scripts by the names of Apache ZooKeeper's have in common, and what scripts of operators
# count on that source the file of this name: ZOOBINDIR, ZOOCFGDIR, ZOOCFG (a path), ZOO_LOG_DIR, the
# settings of zookeeper-env.sh and java.env. ZOARIUM is the executable afterwards, if there is one.

ZOOBINDIR=${ZOOBINDIR:-$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")}

if [ -z "${ZOOCFGDIR:-}" ]; then
    ZOOCFGDIR=$ZOOBINDIR/../conf
    [ -d "$ZOOCFGDIR" ] || ZOOCFGDIR=$ZOOBINDIR/../etc/zookeeper
fi
for zoo_file in "$ZOOCFGDIR/zookeeper-env.sh" "$ZOOCFGDIR/java.env"; do
    # shellcheck source=/dev/null
    [ ! -e "$zoo_file" ] || . "$zoo_file"
done
ZOOCFG=${ZOOCFG:-zoo.cfg}
case $ZOOCFG in
*/*) ;;
*) ZOOCFG=$ZOOCFGDIR/$ZOOCFG ;;
esac
ZOO_LOG_DIR=${ZOO_LOG_DIR:-$ZOOBINDIR/../logs}
export SERVER_JVMFLAGS=${SERVER_JVMFLAGS:-} JVMFLAGS=${JVMFLAGS:-}

for zoo_file in "${ZOARIUM:-}" "$ZOOBINDIR/zoarium" "$ZOOBINDIR/../bin/zoarium" \
    "$ZOOBINDIR/../target/release/zoarium" "$(command -v zoarium)"; do
    if [ -n "$zoo_file" ] && [ -x "$zoo_file" ] && [ ! -d "$zoo_file" ]; then
        ZOARIUM=$zoo_file
        break
    fi
done
unset zoo_file

# Runs the executable, or says that there is none.
zoarium_or_fail() {
    if [ ! -x "${ZOARIUM:-}" ]; then
        echo "$0: no zoarium executable beside this script or on PATH; set ZOARIUM to it" >&2
        exit 1
    fi
    "$ZOARIUM" "$@"
}

# The last value of a key in zoo.cfg, without the blanks around it.
zoo_setting() {
    [ -r "$ZOOCFG" ] || return 0
    sed -n "s/^[[:space:]]*$1[[:space:]]*[=:][[:space:]]*//p" "$ZOOCFG" |
        tail -n 1 | sed 's/[[:space:]]*$//'
}
