#!/usr/bin/env bash
#
# Creates the directories of a new server, like Apache ZooKeeper's zkServer-initialize.sh.
#
#   zkServer-initialize.sh [--configfile=FILE] [--myid=ID] [--force]
#
# --force removes existing data and logs. Environment: ZOOCFGDIR, ZOOCFG.

set -u
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=zkEnv.sh
. "$here/zkEnv.sh"

usage() {
    echo "usage: $0 <parameters>
   Optional parameters:
      -h                                                    Display this message
      --help                                                Display this message
      --configfile=%FILE                                    Configuration file
      --myid=#                                              Set the myid to be used, if any (1-255)
      --force                                               Force creation of the data/txnlog dirs" >&2
    exit 1
}

force=false
myid=
for argument in "$@"; do
    case $argument in
    --configfile=*) ZOOCFG=${argument#*=} ;;
    --myid=*) myid=${argument#*=} ;;
    --force) force=true ;;
    *) usage ;;
    esac
done
if [ -n "$myid" ] && ! [[ $myid =~ ^[0-9]+$ ]]; then
    echo "$0: --myid=$myid is not a number" >&2
    exit 1
fi
if [ ! -r "$ZOOCFG" ]; then
    echo "$0: $ZOOCFG cannot be read" >&2
    exit 1
fi
data=$(zoo_setting dataDir)
log=$(zoo_setting dataLogDir)
if [ -z "$data" ]; then
    echo "Unable to determine dataDir from $ZOOCFG" >&2
    exit 1
fi

# Checks a directory. Both directories are checked before anything is removed.
refuse_existing() {
    if [ -d "$2/version-2" ] && [ "$force" = false ]; then
        echo "ZooKeeper $1 directory already exists at $2 (or use --force to force re-initialization)"
        exit 1
    fi
}
refuse_existing data "$data"
[ -z "$log" ] || refuse_existing txnlog "$log"
# Files with data have mode 0640, and directories 0750.
umask g-w,o=
for directory in "$data" ${log:+"$log"}; do
    rm -rf "$directory/version-2" && mkdir -p "$directory/version-2" || exit 1
done
rm -f "$data/myid"
if [ -n "$myid" ]; then
    echo "Using myid of $myid"
    echo "$myid" >"$data/myid" || exit 1
else
    echo "No myid provided, be sure to specify it in $data/myid if using non-standalone"
fi
touch "$data/initialize"
