#!/usr/bin/env bash
# Checks what `make release` makes: twice the same bytes; archives with a program for their
# system; man pages without errors; packages and an image that other programs read; and, as root,
# the program run in the image's files alone, and the deb installed, upgraded and purged in a
# folder made by debootstrap, where a changed configuration file is kept. Programs that are
# missing are named, and what they check is left out.
#
#   scripts/release-check.sh [SYSTEM...]      SYSTEM: linux/amd64, ...; all of the Makefile's CROSS by default
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

systems=("$@")
[ $# -gt 0 ] || read -ra systems <<<"$(sed -n 's/^CROSS *?= *//p' Makefile)"
release "$work/one"
say "${#systems[@]} systems after $SECONDS s"
release "$work/two"
diff -r "$work/one" "$work/two" || fail 'two runs differ'
(cd "$work/one" && sha256sum --quiet --check SHA256SUMS)
say "two runs wrote the same $(find "$work/one" -type f | wc -l) files"

for system in "${systems[@]}"; do
  mkdir -p "$work/archive/$system"
  tar -xzf "$(echo "$work"/one/*-"${system/\//-}.tar.gz")" -C "$work/archive/$system" --strip-components 1
  is=$(go version -m "$work/archive/$system/rowmill")
  for setting in "GOOS=${system%/*}" "GOARCH=${system#*/}" CGO_ENABLED=0; do
    grep -q "build.$setting$" <<<"$is" || fail "the program for $system wasn't built with $setting"
  done
done
archive=$work/archive/${systems[0]}
if has man 'a look at the man pages'; then
  for page in "$archive"/man/*.1; do
    said=$(LC_ALL=C.UTF-8 MANWIDTH=200 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null)
    [ -z "$said" ] || fail "$page: $said"
  done
  say "$(find "$archive/man" -type f | wc -l) man pages have no errors"
fi
bash -n "$archive/completions/rowmill.bash"

mkdir "$work/image"
tar -xf "$work"/one/*-image.tar -C "$work/image"
for blob in "$work"/image/blobs/sha256/*; do
  [ "$(sha256sum <"$blob")" = "${blob##*/}  -" ] || fail "$blob has another checksum"
done
linux=() # architectures
for system in "${systems[@]}"; do if [[ $system = linux/* ]]; then linux+=("${system#*/}"); fi; done
if has skopeo 'a look at the image'; then
  for arch in "${linux[@]}"; do
    skopeo --override-arch "$arch" inspect --config "oci-archive:$(echo "$work"/one/*-image.tar)" | grep -q 9187/tcp || fail "the image for $arch has no port"
  done
fi
# image_of prints the blobs of the layers of an architecture's image.
image_of() {
  local index manifest
  index=$(jq -r '.manifests[0].digest' "$work/image/index.json")
  manifest=$(jq -r --arg arch "$1" '.manifests[] | select(.platform.architecture == $arch).digest' "$work/image/blobs/${index/://}")
  jq -r '.layers[].digest' "$work/image/blobs/${manifest/://}" | sed "s|:|/|; s|^|$work/image/blobs/|"
}
if has jq 'a look into the image'; then
  for arch in "${linux[@]}"; do
    mkdir -p "$work/rootfs/$arch"
    for layer in $(image_of "$arch"); do tar -xzf "$layer" -C "$work/rootfs/$arch"; done
    cmp "$work/rootfs/$arch/usr/bin/rowmill" "$work/archive/linux/$arch/rowmill" || fail "the image for $arch has another program"
  done
  rootfs=$work/rootfs/$(go env GOHOSTARCH)
  if [ "$(id -u)" = 0 ] && [ -d "$rootfs" ]; then
    is=$(chroot "$rootfs" /usr/bin/rowmill version)
    say "in the image's files alone: ${is//$'\n'/; }"
    grep -q "${ROWMILL_COMMIT:-$(git rev-parse HEAD)}.*T.*Z" <<<"$is" || fail 'the image has another version'
  fi
fi

deb=$(find "$work/one" -name "*_$(dpkg --print-architecture 2>/dev/null).deb")
[ -n "$deb" ] || { say 'no deb of this machine: nothing is installed' && exit; }
if has lintian 'a check of the deb'; then
  # Go's programs are static, and this one has no bug number of Debian's.
  lintian --fail-on error --suppress-tags statically-linked-binary "$work"/one/*.deb || fail 'lintian has errors'
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
