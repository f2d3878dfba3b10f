#!/bin/sh
# Runs before a package is removed: stops its services. An upgrade, which dpkg calls
# upgrade and rpm calls 1, leaves them running. Declarations in /etc/rowmill, archives in
# /var/lib/rowmill and the account stay.
set -e
case "$1" in
  remove | 0)
    if [ -d /run/systemd/system ]; then
      systemctl stop 'rowmill@*.service' 'rowmill-once@*.timer' 'rowmill-once@*.service'
    fi
    ;;
esac
