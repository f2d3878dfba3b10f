# Installs servers newer than this Debian's own: MySQL 9.7, MariaDB 11.8, and
# PostgreSQL 18 or 17; sourced by install.sh. They are Debian's packages of later
# suites, each unpacked with all its shared libraries and its own loader into a
# directory of the cache. The system's packages, package lists and apt
# configuration are not changed. rowmill searches the directories used here:
# sandbox:mysql?version=9.7.
#
# The package lists must be signed by a key of the system's Debian keyring. If
# that keyring is too old to contain the key of the later suites, the current
# keyring is taken from the system's own suite, whose signature the old one
# verifies.

newer_suites=(sid trixie)
# The packages of each server, and the accepted versions. The server's package
# and the preferred version come first.
declare -A newer_packages=(
  [mysql-new]="mysql-server-core"
  [mariadb-new]="mariadb-server-core mariadb-plugin-rocksdb"
  [postgres-new]="postgresql-18 postgresql-17"
)
declare -A newer_versions=([mysql-new]="9.7" [mariadb-new]="11.8" [postgres-new]="18 17")
declare -A newer_names=([mysql-new]=mysql [mariadb-new]=mariadb [postgres-new]=postgres)
newer_cache=${XDG_CACHE_HOME:-${HOME:?}/.cache}/rowmill
newer_keyring=${ROWMILL_DEBIAN_KEYRING:-/usr/share/keyrings/debian-archive-keyring.gpg}

# newer_server prints the path of the server's program in a directory of newer_cache.
newer_server() {
  case $1 in
    mysql-new) printf '%s\n' "$2/usr/sbin/mysqld" ;;
    mariadb-new) printf '%s\n' "$2/usr/sbin/mariadbd" ;;
    postgres-new) compgen -G "$2/usr/lib/postgresql/*/bin/postgres" ;;
  esac
}

# has_newer reports whether one of the accepted versions is in the cache and runs.
has_newer() {
  local version dir program
  for version in ${newer_versions[$1]}; do
    for dir in "$newer_cache/${newer_names[$1]}-$version".*; do
      program=$(newer_server "$1" "$dir") || continue
      if newer_answers "$1" "$program" >/dev/null; then return; fi
    done
  done
  return 1
}

# newer_answers prints the version that a server reports.
newer_answers() {
  if [ "$1" = postgres-new ]; then "$2" --version; else "$2" --no-defaults --version; fi 2>&1
}

# fetch_newer unpacks each of the servers, completely or not at all.
fetch_newer() {
  local tool
  for tool in apt-get apt-cache apt-config dpkg-deb dpkg; do
    command -v "$tool" >/dev/null || fail "there is no $tool here: $* are unpacked from Debian's packages, on Debian or Ubuntu"
  done
  mkdir -p "$newer_cache"
  newer_work=$(mktemp -d "$newer_cache/fetch-XXXXXX")
  trap 'rm -rf "$newer_work"' EXIT
  newer_mirror=$(newer_mirror) || fail "the apt sources name no Debian mirror: set ROWMILL_DEBIAN_MIRROR to its URL, needed for: $*"
  newer_lists "$@"
  local what
  for what in "$@"; do
    unpack_newer "$what"
    has_newer "$what" || fail "$what was unpacked and can't be used: see above"
  done
  rm -rf "$newer_work"
  trap - EXIT
}

# newer_mirror prints the mirror of Debian that the system's apt uses.
newer_mirror() {
  if [ -n "${ROWMILL_DEBIAN_MIRROR:-}" ]; then
    printf '%s\n' "${ROWMILL_DEBIAN_MIRROR%/}"
    return
  fi
  local suite
  suite=$(newer_suite) || return
  # Without -security and similar suites, which have other mirrors.
  apt-get --print-uris update 2>/dev/null | sed -n "s|^'\(.*\)/dists/$suite/InRelease'.*|\1|p" | grep -m 1 .
}

# newer_suite prints the system's own suite.
newer_suite() { (. /etc/os-release 2>/dev/null && [ -n "${VERSION_CODENAME:-}" ] && printf '%s\n' "$VERSION_CODENAME"); }

# newer_configure writes an apt configuration to $1. It shares only the access to
# a mirror (proxies and similar) with the system's. $2 is the keyring; the other
# arguments are the suites.
newer_configure() {
  local dir=$1 keyring=$2 suite
  shift 2
  mkdir -p "$dir"/{lists/partial,archives/partial,empty}
  : >"$dir/status"
  : >"$dir/sources.list"
  for suite in "$@"; do
    printf 'deb [signed-by=%s] %s %s main\n' "$keyring" "$newer_mirror" "$suite" >>"$dir/sources.list"
  done
  {
    apt-config dump 2>/dev/null | grep '^Acquire::\(http\|https\|ftp\|Retries\|ForceIPv\|Queue-Mode\)' || true
    printf 'Dir::State "%s/";\nDir::State::lists "lists";\nDir::State::status "status";\n' "$dir"
    printf 'Dir::Cache "%s/";\nDir::Cache::archives "archives";\n' "$dir"
    printf 'Dir::Etc::SourceList "%s/sources.list";\nDir::Etc::SourceParts "%s/empty";\n' "$dir" "$dir"
    # Otherwise the system's hooks would run with each command, and its pins apply.
    printf 'Dir::Etc::Parts "%s/empty";\nDir::Etc::Main "/dev/null";\n' "$dir"
    printf 'Dir::Etc::Preferences "/dev/null";\nDir::Etc::PreferencesParts "%s/empty";\n' "$dir"
    printf 'APT::Install-Recommends "false";\nAcquire::Languages "none";\n'
    # Only the caller's account can write to the directory, so apt must not
    # switch to its own.
    printf 'APT::Sandbox::User "";\n'
    # sid's lists are valid for a week, and a snapshot mirror keeps them for ever.
    # Their age matters little for a temporary server; newer_lists reports it.
    printf 'Acquire::Check-Valid-Until "false";\n'
  } >"$dir/apt.conf"
}

# newer_apt runs a command of apt with the configuration in $1.
newer_apt() {
  local dir=$1
  shift
  APT_CONFIG=$dir/apt.conf "$@"
}

# newer_lists fetches and verifies the package lists.
newer_lists() {
  say "fetching the package lists of Debian ${newer_suites[*]} from $newer_mirror, into the cache"
  local keyring=$newer_keyring log=$newer_work/update.log
  [ -s "$keyring" ] || fail "there is no keyring $keyring: install debian-archive-keyring"
  newer_configure "$newer_work/apt" "$keyring" "${newer_suites[@]}"
  if ! newer_update "$newer_work/apt" "$log"; then
    grep -q 'NO_PUBKEY\|EXPKEYSIG\|KEYEXPIRED\|Missing key\|not signed\|isn.t signed' "$log" || newer_offline "$log" "$@"
    newer_keys || newer_offline "$log" "$@"
    newer_configure "$newer_work/apt" "$newer_work/keyring.gpg" "${newer_suites[@]}"
    newer_update "$newer_work/apt" "$log" || newer_offline "$log" "$@"
  fi
  local list until
  for list in "$newer_work"/apt/lists/*_InRelease; do
    until=$(sed -n 's/^Valid-Until: //p' "$list" | head -n 1)
    if [ -n "$until" ] && [ "$(date -d "$until" +%s)" -lt "$(date +%s)" ]; then
      say "note: the mirror's lists of $(sed -n 's/^Suite: //p' "$list" | head -n 1) are signed, and were valid until $until only"
    fi
  done
}

# newer_update also fails if apt only warns that lists could not be fetched.
newer_update() { newer_apt "$1" apt-get -q update -o APT::Update::Error-Mode=any >"$2" 2>&1; }

newer_offline() {
  local log=$1
  shift
  grep '^[EW]:' "$log" | head -n 5 >&2
  fail "the package lists of $newer_mirror can't be fetched or verified: is this machine offline? Needed for: $*"
}

# newer_keys takes Debian's current keyring from the system's own suite.
newer_keys() {
  local suite
  suite=$(newer_suite) || return 1
  say "$newer_keyring lacks the key of ${newer_suites[*]}: taking the current keyring from $suite, which it verifies"
  newer_configure "$newer_work/keys" "$newer_keyring" "$suite"
  newer_update "$newer_work/keys" "$newer_work/keys.log" &&
    (cd "$newer_work/keys" && newer_apt "$newer_work/keys" apt-get -q download debian-archive-keyring) >>"$newer_work/keys.log" 2>&1 ||
    { grep '^[EW]:' "$newer_work/keys.log" >&2; return 1; }
  dpkg-deb -x "$newer_work"/keys/debian-archive-keyring_*.deb "$newer_work/keys/root"
  cp -L "$newer_work/keys/root/usr/share/keyrings/debian-archive-keyring.gpg" "$newer_work/keyring.gpg"
}

# newer_choose prints the name and the version of the server's package, and the
# server's version: the first accepted one.
newer_choose() {
  local wanted package version
  for wanted in ${newer_versions[$1]}; do
    for package in ${newer_packages[$1]}; do
      while read -r version; do
        # Debian's version is [EPOCH:]UPSTREAM[+REPACKED]-REVISION.
        [[ ${version#*:} == "$wanted".* ]] || continue
        local upstream=${version#*:}
        upstream=${upstream%%-*}
        printf '%s %s %s\n' "$package" "$version" "${upstream%%+*}"
        return
      done < <(newer_apt "$newer_work/apt" apt-cache madison "$package" | awk -F ' *[|] *' '{ print $2 }')
    done
  done
  return 1
}

# unpack_newer unpacks one server.
unpack_newer() {
  local what=$1 package version upstream home root list name
  read -r package version upstream < <(newer_choose "$what") ||
    fail "$newer_mirror has none of the versions ${newer_versions[$what]} for $what any more"
  home=$newer_cache/${newer_names[$what]}-$upstream root=$newer_work/$what
  local wanted=("$package=$version")
  if [ "$what" = mariadb-new ]; then wanted+=("mariadb-plugin-rocksdb=$version"); fi
  # The libraries that the server's programs link to. The other dependencies are
  # for installing it and for starting it at boot.
  list=$newer_work/$what.list
  newer_apt "$newer_work/apt" apt-get -q -s install "${wanted[@]}" patchelf >"$list.sim" 2>"$list.log" ||
    { grep '^[EW]:' "$list.log" >&2; fail "can't find what $package $version needs"; }
  awk '/^Inst / { sub(/^\(/, "", $3); print $2 "=" $3 }' "$list.sim" |
    grep -E '^(z?lib|patchelf=|mysql-server-core=|mariadb-server-core=|mariadb-plugin-rocksdb=|postgresql-[0-9]+=)' |
    grep -Ev '^lib(python|perl|systemd-shared|[a-z0-9-]+-perl=)' >"$list"
  say "fetching $package $version and $(($(wc -l <"$list") - ${#wanted[@]})) packages that it needs"
  mkdir "$newer_work/$what-debs" "$root"
  (cd "$newer_work/$what-debs" && xargs env APT_CONFIG="$newer_work/apt/apt.conf" apt-get -q download <"$list") >"$list.log" 2>&1 ||
    { grep '^[EW]:' "$list.log" >&2; fail "can't fetch the packages of $what: is this machine offline?"; }
  for name in "$newer_work/$what-debs"/*.deb; do
    dpkg-deb -x "$name" "$root" || fail "can't unpack $name"
  done
  rm -rf "$newer_work/$what-debs" "$root"/usr/share/{doc,man,lintian,bug,locale,bash-completion}
  newer_bind "$root" "$home"
  rm -rf "$root/usr/bin" # tools, whose libraries are not set
  # An existing server there does not run: see has_newer.
  if [ -e "$home" ]; then mv -T "$home" "$newer_work/$what-broken"; fi
  # Another process may have unpacked it meanwhile.
  mv -T "$root" "$home" 2>/dev/null || has_newer "$what" || fail "can't move $package to $home"
  say "unpacked $(newer_answers "$what" "$(newer_server "$what" "$home")") into $home"
}

# newer_bind makes the programs in $1 use the loader and the libraries in $2, their
# future location, before those of the system. The tool for it is also newer than
# this system and is run by its own loader.
newer_bind() {
  local root=$1 home=$2 loader dirs program
  loader=$(cd "$root" && compgen -G 'usr/lib*/ld-linux*.so.*' | grep -m 1 .) || fail "there is no loader among the packages"
  dirs=$(cd "$root" && find usr/lib* -name '*.so*' -printf '%h\n' | grep -v '/\(plugin\|gconv\|lib\|engines-3\|ossl-modules\|sasl2\)$' | sort -u)
  local path=${dirs//$'\n'/:}
  local here=$root/${path//:/:$root/} there=$home/${path//:/:$home/}
  while read -r program; do
    "$root/$loader" --library-path "$here" "$root/usr/bin/patchelf" --set-interpreter "$home/$loader" \
      --force-rpath --set-rpath "$there" "$program" || fail "can't bind $program to its libraries"
  done < <(find "$root"/usr/sbin "$root"/usr/lib/postgresql/*/bin -type f -perm -u+x \
    \( -name mysqld -o -name mariadbd -o -path '*/postgresql/*' \) 2>/dev/null)
}
