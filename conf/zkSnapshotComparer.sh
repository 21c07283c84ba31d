#!/usr/bin/env bash
#
# Compares two snapshots, with the options of Apache ZooKeeper's zkSnapshotComparer.sh.
#
#   zkSnapshotComparer.sh -l LEFT -r RIGHT -b BYTES -n ZNODES
#
# Prints subtrees that differ by more than BYTES bytes or ZNODES znodes. `-i` (interactive) and `-d`
# (also prints equal subtrees) are not supported. Environment: ZOARIUM (the executable).

set -u
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=zkEnv.sh
. "$here/zkEnv.sh"

usage() {
    echo "$1" >&2
    cat >&2 <<'END'
usage: zkSnapshotComparer.sh
 -b,--bytes <BYTETHRESHOLD>   (Required) The node data delta size threshold, in bytes, for printing the node.
 -l,--left <LEFT>             (Required) The left snapshot file.
 -n,--nodes <NODETHRESHOLD>   (Required) The descendant node delta size threshold, in nodes, for printing the node.
 -r,--right <RIGHT>           (Required) The right snapshot file.
END
    exit 2
}

left='' right='' bytes='' nodes=''
while [ $# -gt 0 ]; do
    [ $# -gt 1 ] || case $1 in
    -l | --left | -r | --right | -b | --bytes | -n | --nodes) usage "Missing argument for option: $1" ;;
    esac
    case $1 in
    -l | --left) left=$2 ;;
    -r | --right) right=$2 ;;
    -b | --bytes) bytes=$2 ;;
    -n | --nodes) nodes=$2 ;;
    -i | --interactive | -d | --debug) usage "$1 is not supported" ;;
    *) usage "Unrecognized option: $1" ;;
    esac
    shift 2
done
missing=
for option in "l:$left" "r:$right" "b:$bytes" "n:$nodes"; do
    [ -n "${option#?:}" ] || missing="$missing, ${option%%:*}"
done
[ -z "$missing" ] || usage "Missing required options: ${missing#, }"
zoarium_or_fail snapshot compare "$left" "$right" --bytes "$bytes" --nodes "$nodes"
