#!/usr/bin/env bash
#
# The shell of the name that comes with Apache ZooKeeper: `zoarium cli` with the same arguments.
#
#   zkCli.sh [-server HOST:PORT[,...][/CHROOT]] [COMMAND [ARGUMENT]...]
#
# Environment: ZOARIUM (the executable).

set -u

here=$(dirname "$(readlink -f "$0")")

for candidate in "${ZOARIUM:-}" "$here/zoarium" "$here/../bin/zoarium" \
    "$here/../target/release/zoarium" "$(command -v zoarium)"; do
    if [ -n "$candidate" ] && [ -x "$candidate" ] && [ ! -d "$candidate" ]; then
        exec "$candidate" cli "$@"
    fi
done
echo "$0: no zoarium executable beside this script or on PATH; set ZOARIUM to it" >&2
exit 1
