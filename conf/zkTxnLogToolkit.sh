#!/usr/bin/env bash
#
# Prints, mends and cuts transaction logs, with the options of the script of this name of Apache
# ZooKeeper; `zoarium log` does the work and can do more.
#
#   zkTxnLogToolkit.sh [-d] [-v] FILE            prints all transactions
#   zkTxnLogToolkit.sh -r [-y] FILE              FILE.fixed, with checksums made right
#   zkTxnLogToolkit.sh -c -z ZXID FILE           FILE.chopped<ZXID>, up to there
#
# Environment: ZOARIUM (the executable).

set -u
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=zkEnv.sh
. "$here/zkEnv.sh"

usage() {
    echo "usage: TxnLogToolkit [-dhrvc] <txn_log_file_name> (-z <zxid>)" >&2
    exit "$1"
}

mode=dump
accepts=false
zxid=
file=
while [ $# -gt 0 ]; do
    case $1 in
    -d | --dump | -v | --verbose) ;;
    -r | --recover) mode=repair ;;
    -y | --yes) accepts=true ;;
    -c | --chop) mode=chop ;;
    -z | --zxid)
        [ $# -ge 2 ] || usage 2
        zxid=$2
        shift
        ;;
    -h | --help) usage 0 ;;
    -*) usage 2 ;;
    *) file=$1 ;;
    esac
    shift
done
[ -n "$file" ] || usage 2
if [ ! -r "$file" ]; then
    echo "File doesn't exist or not readable: $file"
    exit 1
fi
directory=$(dirname "$file")
name=$(basename "$file")

# The copy that `zoarium log` has made, under the name that Java gives it.
rename_copy() {
    mv -n "$directory/$1.$name" "$2"
}

case $mode in
dump) zoarium_or_fail log "$file" ;;
repair)
    if [ "$accepts" = false ]; then
        read -r -p "Make checksums fit that do not (Yes/No)? " answer
        [[ $answer == [Yy]* ]] && accepts=true
    fi
    if [ "$accepts" = true ]; then
        zoarium_or_fail log --repair --accept-checksums "$file" && rename_copy repaired "$file.fixed"
    else
        zoarium_or_fail log --repair "$file" && rename_copy repaired "$file.fixed"
    fi
    ;;
chop)
    [[ $zxid =~ ^(0x[0-9a-fA-F]+|[0-9]+)$ ]] || usage 2
    zoarium_or_fail log --chop "$zxid" "$file" && rename_copy chopped "$file.chopped$((zxid))"
    ;;
esac
