#!/usr/bin/env bash
# Installs the missing dependencies of rowmill's build, tests and comparisons,
# with apt. MySQL comes from Maven Central; servers newer than this Debian's come
# from its later suites. Both are unpacked into the user's cache directory.
# Starts no service and changes no existing one.
#
#   scripts/install.sh WHAT...      WHAT: gcc mariadb rocksdb spider galera mysql postgres sysbench haproxy chromium mydumper connectors fio prometheus systemd backup netcat
#                                         mysql-new mariadb-new postgres-new
set -euo pipefail

say() { printf 'install: %s\n' "$*"; }
fail() {
  printf 'install: %s\n' "$*" >&2
  exit 1
}

# For each dependency: its purpose, the Debian packages, and a test for its
# presence (has), which also accepts one installed from another source.
declare -A why=(
  [gcc]="a C compiler, for the embedded SQLite and for -race"
  [mariadb]="the MariaDB server, for private throw-away servers"
  [rocksdb]="MariaDB's RocksDB storage engine"
  [spider]="MariaDB's Spider storage engine, for tables on several servers"
  [backup]="mariadb-backup, for copies of a running server"
  [netcat]="netcat and pigz, to compare rowmill copy with"
  [galera]="Galera and rsync, for clusters of MariaDB servers"
  [mysql]="the MySQL 8.0 server, for private throw-away servers"
  [postgres]="the PostgreSQL server, for private throw-away servers"
  [sysbench]="sysbench, to compare with"
  [haproxy]="HAProxy, to compare rowmill serve with"
  [connectors]="connectors for Java and Python, for the tests of rowmill serve"
  [chromium]="a browser, for the tests of the HTML report"
  [fio]="fio, for rowmill bench disk"
  [mydumper]="mydumper, for the tests that load its dumps"
  [prometheus]="Prometheus and promtool, for the tests of alert rules and the dashboard"
  [systemd]="systemd-analyze, for the tests of units"
  [mysql-new]="MySQL 9.7, for sandbox:mysql?version=9.7"
  [mariadb-new]="MariaDB 11.8, for sandbox:mariadb?version=11.8"
  [postgres-new]="PostgreSQL 18, or 17 where there is none, for sandbox:postgres?version=18"
)
declare -A packages=(
  [gcc]="gcc libc6-dev"
  [mariadb]="mariadb-server"
  [rocksdb]="mariadb-plugin-rocksdb"
  [spider]="mariadb-plugin-spider"
  [backup]="mariadb-backup"
  [netcat]="netcat-openbsd pigz"
  [galera]="galera-4 rsync"
  [mysql]="" # the libraries that the fetched server lacks: see lacks_mysql
  [postgres]="postgresql"
  [sysbench]="sysbench"
  [haproxy]="haproxy"
  [connectors]="default-jdk-headless maven python3-pymysql"
  [chromium]="chromium-headless-shell"
  [mydumper]="mydumper"
  [fio]="fio"
  [prometheus]="prometheus"
  [systemd]="systemd"
)
PATH=$PATH:/usr/sbin:/sbin
has() {
  case $1 in
    gcc) printf '#include <stdlib.h>\nint main(void) { return 0; }\n' | "${CC:-gcc}" -x c -S -o - - >/dev/null 2>&1 ;;
    mariadb) command -v mariadbd >/dev/null && command -v mariadb-install-db >/dev/null ;;
    rocksdb) compgen -G '/usr/lib*/mysql/plugin/ha_rocksdb.so' >/dev/null ;;
    spider) compgen -G '/usr/lib*/mysql/plugin/ha_spider.so' >/dev/null ;;
    netcat) command -v nc >/dev/null && command -v pigz >/dev/null ;;
    backup) command -v mariadb-backup >/dev/null ;;
    galera) compgen -G '/usr/lib*/galera*/libgalera_smm.so' >/dev/null && command -v rsync >/dev/null ;;
    mysql) has_mysql ;;
    postgres) command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null ;;
    sysbench) command -v sysbench >/dev/null ;;
    haproxy) command -v haproxy >/dev/null ;;
    connectors) has_connectors ;;
    prometheus) command -v prometheus >/dev/null && command -v promtool >/dev/null ;;
    systemd) command -v systemd-analyze >/dev/null ;;
    fio) command -v fio >/dev/null ;;
    mydumper) command -v mydumper >/dev/null ;;
    mysql-new | mariadb-new | postgres-new) has_newer "$1" ;;
    chromium) command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null ;;
  esac
}

# shellcheck source=scripts/mysql.sh
. "$(dirname "${BASH_SOURCE[0]}")/mysql.sh"
# shellcheck source=scripts/connectors.sh
. "$(dirname "${BASH_SOURCE[0]}")/connectors.sh"
# shellcheck source=scripts/newer.sh
. "$(dirname "${BASH_SOURCE[0]}")/newer.sh"

[ $# -gt 0 ] || fail "say what: ${!packages[*]}"
missing=()
wanted=()
newer=()
for what in "$@"; do
  [ -n "${why[$what]:-}" ] || fail "unknown: $what; known: ${!packages[*]}"
  if ! has "$what"; then
    case $what in *-new)
      say "$what is missing (${why[$what]})"
      newer+=("$what")
      continue
      ;;
    esac
    if [ "$what" = mysql ]; then
      say "mysql is missing (${why[mysql]})"
      fetch_mysql
      has mysql && continue
      packages[mysql]=$(lacks_mysql)
    fi
    if [ "$what" = connectors ]; then
      fetch_connectors
      has connectors && continue
    fi
    missing+=("$what")
    read -ra names <<<"${packages[$what]}"
    wanted+=("${names[@]}")
    say "$what is missing (${why[$what]}): takes ${packages[$what]}"
  fi
done
[ ${#newer[@]} -eq 0 ] || fetch_newer "${newer[@]}"
[ ${#missing[@]} -gt 0 ] || exit 0

command -v apt-get >/dev/null || fail "there is no apt-get here: install by hand what Debian calls: ${wanted[*]}"
as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || fail "needs root or sudo to install: ${wanted[*]}"
  as_root=(sudo)
fi

# Debian starts a service when it is installed, unless this file forbids it. An
# existing file belongs to the machine and is left unchanged.
policy=/usr/sbin/policy-rc.d
new_services=()
wrote_policy=
restore() {
  if [ -n "$wrote_policy" ]; then
    "${as_root[@]}" rm -f "$policy"
  fi
}
trap restore EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
case " ${missing[*]} " in
  *" mariadb "* | *" rocksdb "* | *" spider "* | *" postgres "* | *" haproxy "* | *" prometheus "*)
    case " ${missing[*]} " in *" mariadb "* | *" rocksdb "* | *" spider "*) has mariadb || new_services+=(mariadb) ;; esac
    case " ${missing[*]} " in *" postgres "*) new_services+=(postgresql) ;; esac
    case " ${missing[*]} " in *" haproxy "*) new_services+=(haproxy) ;; esac
    case " ${missing[*]} " in *" prometheus "*) new_services+=(prometheus) ;; esac
    if [ ! -e "$policy" ]; then
      wrote_policy=1
      printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
      "${as_root[@]}" chmod 755 "$policy"
    fi
    ;;
esac

apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@"; }
# Package lists are fetched only if they are missing or too old.
if ! apt --no-install-recommends --print-uris install "${wanted[@]}" >/dev/null 2>&1; then
  say "fetching the package lists"
  apt update || fail "the package lists can't be fetched: is this machine offline? Needed: ${wanted[*]}"
  updated=1
fi
say "installing ${wanted[*]}"
if ! apt --no-install-recommends install "${wanted[@]}"; then
  [ -z "${updated:-}" ] || fail "can't install ${wanted[*]}: see above; is this machine offline?"
  say "fetching newer package lists"
  apt update || fail "the package lists can't be fetched: is this machine offline? Needed: ${wanted[*]}"
  apt --no-install-recommends install "${wanted[@]}" || fail "can't install ${wanted[*]}: see above"
fi

# A server installed by this script must not start at boot either.
if command -v systemctl >/dev/null; then
  for service in "${new_services[@]}"; do
    "${as_root[@]}" systemctl disable "$service" >/dev/null 2>&1 ||
      say "note: could not keep $service from starting with the machine: systemctl disable $service"
  done
fi
for what in "${missing[@]}"; do
  [ "$what" != mysql ] || rename_libaio
  [ "$what" != connectors ] || fetch_connectors
  has "$what" || fail "$what was installed and still can't be used: see above"
done
say "done: ${missing[*]}"
