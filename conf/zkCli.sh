#!/usr/bin/env bash
#
# Runs `zoarium cli` with the arguments of the script of this name of Apache ZooKeeper.
#
#   zkCli.sh [--config DIR] [-server HOST:PORT[,...][/CHROOT]] [COMMAND [ARGUMENT]...]
#
# Environment: ZOARIUM (the executable), ZOOCFGDIR, CLIENT_JVMFLAGS and JVMFLAGS (their -D flags set TLS and the login;
# the rest is for a virtual machine). DIR/zookeeper-env.sh and DIR/java.env may set any of them.

set -u
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=zkEnv.sh
. "$here/zkEnv.sh"

require_zoarium
exec "$ZOARIUM" cli "$@"
