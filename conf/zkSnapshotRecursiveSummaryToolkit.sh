#!/usr/bin/env bash
#
# Says how many znodes and bytes are below each znode of a snapshot, with the arguments of the script of
# this name of Apache ZooKeeper.
#
#   zkSnapshotRecursiveSummaryToolkit.sh FILE ZNODE DEPTH        DEPTH 0: all levels are shown
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
