#!/usr/bin/env bash
#
# Removes old snapshots and logs, like Apache ZooKeeper's zkCleanup.sh. Cron jobs can run it.
#
#   zkCleanup.sh -n COUNT                        uses the directories of zoo.cfg
#   zkCleanup.sh DATALOGDIR [DATADIR] -n COUNT
#
# Environment: ZOARIUM (the executable), ZOOCFGDIR, ZOOCFG.

set -u
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=zkEnv.sh
. "$here/zkEnv.sh"

directories=()
while [ $# -gt 0 ] && [ "$1" != -n ]; do
    directories+=("$1")
    shift
done
if [ "${#directories[@]}" -eq 0 ]; then
    data=$(zoo_setting dataDir)
    log=$(zoo_setting dataLogDir)
    if [ -z "$data" ]; then
        echo "$0: $ZOOCFG does not set dataDir" >&2
        exit 1
    fi
    directories=("${log:-$data}" "$data")
fi
if [ $# -ne 2 ] || [ "${#directories[@]}" -gt 2 ]; then
    printf 'Usage:\nPurgeTxnLog dataLogDir [snapDir] -n count\n' >&2
    exit 1
fi
zoarium_or_fail purge --data-log-dir "${directories[0]}" \
    --data-dir "${directories[1]:-${directories[0]}}" -n "$2"
