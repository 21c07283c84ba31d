#!/usr/bin/env bash
#
# Prints the number of znodes and bytes below each znode of a snapshot, with the arguments of Apache
# ZooKeeper's zkSnapshotRecursiveSummaryToolkit.sh.
#
#   zkSnapshotRecursiveSummaryToolkit.sh FILE ZNODE DEPTH        DEPTH 0 prints all levels
#
# Environment: ZOARIUM (the executable).

set -u
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=zkEnv.sh
. "$here/zkEnv.sh"

if [ $# -ne 3 ]; then
    echo 'USAGE: SnapshotRecursiveSummary  <snapshot_file>  <starting_node>  <max_depth>' >&2
    exit 2
fi
zoarium_or_fail snapshot summary "$1" "$2" "$3"
