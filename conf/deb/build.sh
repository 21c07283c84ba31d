#!/usr/bin/env bash
#
# Builds a Debian package from an executable and the files in conf/.
#
#   conf/deb/build.sh EXECUTABLE VERSION OUTPUT.deb
#
# Build the executable with the profile `dist`. It must run on this machine, because it writes its manual pages and
# completions. The script needs strip and dpkg-deb.

set -euo pipefail

if [ $# -ne 3 ]; then
    echo "Usage: $0 EXECUTABLE VERSION OUTPUT.deb" >&2
    exit 2
fi
executable=$1
version=$2
output=$3
conf=$(dirname "$(dirname "$(readlink -f "$0")")")

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
# The package must not depend on the umask of the user.
umask 022
# Mode of the package's entry for /.
chmod 0755 "$root"

install -D -m 0755 "$executable" "$root/usr/bin/zoarium"
strip --strip-unneeded "$root/usr/bin/zoarium"
for script in "$conf"/*.sh; do
    install -D -m 0755 "$script" "$root/usr/share/zoarium/bin/$(basename "$script")"
done
pages=$root/usr/share/man/man1
"$executable" man "$pages" >/dev/null
gzip -9n "$pages"/*
install -d "$root/usr/share/bash-completion/completions" "$root/usr/share/zsh/vendor-completions" \
    "$root/usr/share/fish/vendor_completions.d"
"$executable" completions bash >"$root/usr/share/bash-completion/completions/zoarium"
"$executable" completions zsh >"$root/usr/share/zsh/vendor-completions/_zoarium"
"$executable" completions fish >"$root/usr/share/fish/vendor_completions.d/zoarium.fish"
# Default configuration directory of the scripts.
ln -s /etc/zookeeper/conf "$root/usr/share/zoarium/conf"
# Directory to which the scripts write the output of a server.
ln -s /var/log/zookeeper "$root/usr/share/zoarium/logs"
# postinst copies both files to /etc, unless they exist there.
install -D -m 0644 "$conf/deb/zoo.cfg" "$root/usr/share/zoarium/zoo.cfg"
install -D -m 0644 "$conf/deb/default" "$root/usr/share/zoarium/default"
install -D -m 0644 "$conf/zoo_sample.cfg" "$root/usr/share/doc/zoarium/examples/zoo_sample.cfg"
install -D -m 0644 "$conf/../LICENSE" "$root/usr/share/doc/zoarium/copyright"
install -D -m 0644 "$conf/systemd/zoarium.service" "$root/lib/systemd/system/zoarium.service"
install -D -m 0644 "$conf/systemd/zoarium.sysusers" "$root/usr/lib/sysusers.d/zoarium.conf"
install -D -m 0644 "$conf/systemd/zoarium.tmpfiles" "$root/usr/lib/tmpfiles.d/zoarium.conf"

install -d "$root/DEBIAN"
for script in postinst prerm postrm; do
    install -m 0755 "$conf/deb/$script" "$root/DEBIAN/$script"
done
install -m 0644 "$conf/deb/triggers" "$root/DEBIAN/triggers"
cat >"$root/DEBIAN/control" <<CONTROL
Package: zoarium
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: The Zoarium developers <zoarium@localhost>
Section: net
Priority: optional
Installed-Size: $(du -sk "$root" | cut -f 1)
Depends: libc6, libgcc-s1, systemd | systemd-standalone-sysusers
Description: coordination server with the protocol of Apache ZooKeeper
 Zoarium uses the protocol, the zoo.cfg and the data directory of Apache
 ZooKeeper. It is one executable, and does not need a Java virtual machine.
CONTROL
dpkg-deb --root-owner-group -Zgzip --build "$root" "$output"
