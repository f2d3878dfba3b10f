# Installs Java connectors for the tests of `rowmill serve`; sourced by install.sh.

connectors=(com.mysql:mysql-connector-j:8.4.0 org.mariadb.jdbc:mariadb-java-client:3.4.1)
connectors_home=${XDG_CACHE_HOME:-${HOME:?}/.cache}/rowmill/connectors

# has_connectors reports whether all of them are there, with Java's compiler and PyMySQL.
has_connectors() {
  local c name
  command -v javac >/dev/null || return 1
  # The first python3 may be another than Debian's, which doesn't see Debian's packages.
  python3 -c 'import pymysql' 2>/dev/null || /usr/bin/python3 -c 'import pymysql' 2>/dev/null || return 1
  for c in "${connectors[@]}"; do
    IFS=: read -r _ name version <<<"$c"
    [ -e "$connectors_home/$name-$version.jar" ] || return 1
  done
}

# fetch_connectors has Maven fetch them from its configured mirrors.
fetch_connectors() {
  local c
  command -v mvn >/dev/null || return 0 # has_connectors says so
  for c in "${connectors[@]}"; do
    say "fetching $c with Maven"
    mvn -q -B dependency:copy -Dartifact="$c" -DoutputDirectory="$connectors_home" </dev/null >/dev/null ||
      fail "can't fetch $c: is this machine online?"
  done
}
