#!/bin/sh
# Runs after a deb, rpm or apk package was installed or upgraded: creates the account of
# the units, and has systemd read them. No service is started or restarted: see
# docs/operations.md, "systemd".
set -e
if command -v systemd-sysusers >/dev/null; then
  systemd-sysusers rowmill.conf
elif ! id rowmill >/dev/null 2>&1; then
  if command -v useradd >/dev/null; then
    useradd --system --user-group --home-dir /var/lib/rowmill --shell /usr/sbin/nologin rowmill
  else # Alpine
    addgroup -S rowmill
    adduser -S -D -H -h /var/lib/rowmill -s /sbin/nologin -G rowmill rowmill
  fi
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
