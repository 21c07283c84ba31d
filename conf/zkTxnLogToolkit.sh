#!/usr/bin/env bash
#
# Prints, repairs and truncates transaction logs, with the options of Apache ZooKeeper's
# zkTxnLogToolkit.sh. The script runs `zoarium log`, which has more options.
#
#   zkTxnLogToolkit.sh [-d] [-v] FILE            prints all transactions
#   zkTxnLogToolkit.sh -r [-y] FILE              writes FILE.fixed, with correct checksums
#   zkTxnLogToolkit.sh -c -z ZXID FILE           writes FILE.chopped<ZXID>, which ends at ZXID
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

# Gives a copy that `zoarium log` has written the name that Java uses.
rename_copy() {
    mv -n "$directory/$1.$name" "$2"
}

case $mode in
dump) zoarium_or_fail log "$file" ;;
repair)
    if [ "$accepts" = false ]; then
        read -r -p "Correct the checksums that do not match (Yes/No)? " answer
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
