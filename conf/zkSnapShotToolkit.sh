#!/usr/bin/env bash
#
# Prints a snapshot, with the options of Apache ZooKeeper's zkSnapShotToolkit.sh.
#
#   zkSnapShotToolkit.sh [-d] FILE               -d also prints the data, in base64
#
# `-json` is not supported. `zoarium snapshot --json FILE` prints all stored data, in another format.
# Environment: ZOARIUM (the executable).

set -u
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=zkEnv.sh
. "$here/zkEnv.sh"

options=()
file=
for argument in "$@"; do
    case $argument in
    -d) options=(--data) ;;
    -json)
        echo "$0: -json is not supported; \`zoarium snapshot --json FILE\` prints JSON" >&2
        exit 2
        ;;
    *) file=$argument ;;
    esac
done
if [ -z "$file" ] || [ $# -gt 2 ]; then
    printf 'USAGE: SnapshotFormatter [-d|-json] snapshot_file\n       -d dump the data for each znode\n' >&2
    exit 2
fi
zoarium_or_fail snapshot "${options[@]+"${options[@]}"}" "$file"
