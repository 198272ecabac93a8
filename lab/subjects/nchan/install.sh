#!/bin/sh
# Unpacks Debian's nginx and its nchan module into build/, without installing them.
set -eu
cd "$(dirname "$0")"
rm -rf build
mkdir build
cd build
apt-get download nginx libnginx-mod-nchan=1:1.3.6+dfsg-2 >&2
for package in *.deb; do dpkg -x "$package" . && rm "$package"; done
