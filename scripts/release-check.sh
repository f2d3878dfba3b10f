#!/usr/bin/env bash
# Checks what `make release` makes: twice the same bytes; man pages without errors; packages
# and an image that other programs read; and, as root, the deb installed, upgraded and purged
# in a folder made by debootstrap, where a changed configuration file is kept. Programs that
# are missing are named, and what they check is left out.
#
#   scripts/release-check.sh [SYSTEM...]      SYSTEM: linux/amd64 (the default), ...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { printf 'release-check: %s\n' "$*"; }
fail() {
  printf 'release-check: FAILED: %s\n' "$*" >&2
  exit 1
}
has() { command -v "$1" >/dev/null || { say "without $1: $2 is left out" && false; }; }

release() { (cd packaging/release && go run . -out "$1" -systems "$(IFS=, && echo "${systems[*]}")"); }

systems=("${@:-linux/amd64}")
release "$work/one"
release "$work/two"
diff -r "$work/one" "$work/two" || fail 'two runs differ'
(cd "$work/one" && sha256sum --quiet --check SHA256SUMS)
say "two runs wrote the same $(find "$work/one" -type f | wc -l) files"

mkdir "$work/archive"
tar -xzf "$(printf '%s\n' "$work"/one/*.tar.gz | head -1)" -C "$work/archive" --strip-components 1
if has man 'a look at the man pages'; then
  for page in "$work"/archive/man/*.1; do
    said=$(LC_ALL=C.UTF-8 MANWIDTH=200 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null)
    [ -z "$said" ] || fail "$page: $said"
  done
  say "$(find "$work/archive/man" -type f | wc -l) man pages have no errors"
fi
bash -n "$work/archive/completions/rowmill.bash"

mkdir "$work/image"
tar -xf "$work"/one/*-image.tar -C "$work/image"
for blob in "$work"/image/blobs/sha256/*; do
  [ "$(sha256sum <"$blob")" = "${blob##*/}  -" ] || fail "$blob has another checksum"
done
if has skopeo 'a look at the image'; then
  skopeo inspect --config "oci-archive:$(echo "$work"/one/*-image.tar)" | grep -q 9187/tcp || fail 'the image has no port'
fi

deb=$(find "$work/one" -name "*_$(dpkg --print-architecture 2>/dev/null).deb")
[ -n "$deb" ] || { say 'no deb of this machine: nothing is installed' && exit; }
if has lintian 'a check of the deb'; then
  # Go's programs are static, and this one has no bug number of Debian's.
  lintian --fail-on error --suppress-tags statically-linked-binary "$deb" || fail 'lintian has errors'
fi
if has rpm 'a look at the rpm'; then
  rpm -qp --nosignature --configfiles "$work"/one/*."$(uname -m)".rpm | grep -qx /etc/rowmill/my.cnf || fail 'the rpm has no configuration file'
fi
[ "$(id -u)" = 0 ] || { say 'not root: the deb is not installed' && exit; }
has debootstrap 'installing the deb' || exit 0

# The upgrade is the same commit as a later version, whose unit and configuration differ.
dpkg-deb -R "$deb" "$work/later"
sed -i 's/^Version: .*/Version: 999/' "$work/later/DEBIAN/control"
echo '# later' | tee -a "$work/later/etc/rowmill/my.cnf" >>"$work/later/usr/lib/systemd/system/rowmill@.service"
root=$work/root
debootstrap --variant=minbase stable "$root" >"$work/debootstrap" || fail "debootstrap: $(tail -3 "$work/debootstrap")"
cp "$deb" "$root/now.deb"
dpkg-deb --root-owner-group -Zgzip -b "$work/later" "$root/later.deb" >/dev/null
within() { chroot "$root" env DEBIAN_FRONTEND=noninteractive "$@"; }
within dpkg --install /now.deb
within rowmill version
within id rowmill
[ "$(stat -c %a "$root/etc/rowmill/my.cnf")" = 600 ] || fail 'others can read my.cnf'
printf '[client]\nuser = mine\n' >"$root/etc/rowmill/my.cnf"
echo '[table]' >"$root/etc/rowmill/readings.toml"
within dpkg --force-confold --install /later.deb
grep -q mine "$root/etc/rowmill/my.cnf" || fail 'the upgrade lost a changed configuration file'
grep -q later "$root/usr/lib/systemd/system/rowmill@.service" || fail 'the upgrade left the earlier unit'
within dpkg --remove rowmill
[ ! -e "$root/usr/bin/rowmill" ] || fail 'the program is still there'
grep -q mine "$root/etc/rowmill/my.cnf" || fail 'the removal lost a configuration file'
within dpkg --purge rowmill
[ ! -e "$root/etc/rowmill/my.cnf" ] || fail 'the purge left a configuration file of the package'
[ -e "$root/etc/rowmill/readings.toml" ] || fail 'the purge lost a declaration'
say 'installed, upgraded, removed and purged in a Debian of its own'
