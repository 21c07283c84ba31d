#!/usr/bin/env bash
#
# Runs `zoarium cli` with the arguments of Apache ZooKeeper's zkCli.sh.
#
#   zkCli.sh [--config DIR] [-server HOST:PORT[,...][/CHROOT]] [COMMAND [ARGUMENT]...]
#
# Environment: ZOARIUM (the executable), ZOOCFGDIR, CLIENT_JVMFLAGS and JVMFLAGS. The -D flags of both configure TLS and
# the login; other flags concern only a JVM. DIR/zookeeper-env.sh and DIR/java.env may set these variables.

set -u
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=zkEnv.sh
. "$here/zkEnv.sh"

require_zoarium
exec "$ZOARIUM" cli "$@"
