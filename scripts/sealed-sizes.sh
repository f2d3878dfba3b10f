#!/usr/bin/env bash
# Measures the size of a table on disk, plain as inserted, and sealed: rebuilt,
# sorted and compressed. For each kind of server, a private server is started,
# filled by bench insert, adopted by apply, and maintained by run --once.
# Variables: ROWS (1,000,000); MEMORY of each server (256MB).
#   scripts/sealed-sizes.sh [innodb] [rocksdb] [mysql]
set -euo pipefail
rows=${ROWS:-1000000} memory=${MEMORY:-256MB}
rowmill=${ROWMILL:-./rowmill}
dir=$(mktemp -d)
stop() { (cd "$dir" && "$rowmill" sandbox stop sizes --yes >/dev/null 2>&1) || true; rm -rf "$dir"; }
trap stop EXIT
rowmill=$(realpath "$rowmill")
cd "$dir"

declare_table() { # preset target engine
  case $1 in
  classic)
    printf '[table]\nname = "purchases"\ntarget = "%s"\ntime = "transactionid"\n' "$2"
    printf "create = '''CREATE TABLE purchases (transactionid INT NOT NULL AUTO_INCREMENT, dateandtime DATETIME NOT NULL, cashregisterid INT NOT NULL, customerid INT NOT NULL, productid INT NOT NULL, price FLOAT NOT NULL, PRIMARY KEY (transactionid), KEY marketsegment (price, customerid), KEY registersegment (cashregisterid, price, customerid), KEY pdc (price, dateandtime, customerid)) ENGINE=%s DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin'''\n" "$3"
    printf '[period]\nrows = %d\nahead = "%d rows"\n[seal]\nafter = "1 rows"\ncompress = true\n' $((rows / 4)) $((rows / 2))
    ;;
  timeseries)
    printf '[table]\nname = "readings"\ntarget = "%s"\ntime = "ts"\n' "$2"
    printf "create = '''CREATE TABLE readings (id INT NOT NULL, ts DATETIME NOT NULL, value DOUBLE NOT NULL, PRIMARY KEY (id, ts), KEY ts (ts)) ENGINE=%s DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin'''\n" "$3"
    printf '[period]\nevery = "%s"\nahead = "1d"\n[seal]\nafter = "1m"\ncompress = true\n' "${PERIOD:-1d}"
    ;;
  esac
}

bytes() { # prints the size of the files whose names match, or of RocksDB's files
  if [ "$engine" = ROCKSDB ]; then
    sql "SET GLOBAL rocksdb_force_flush_memtable_now = 1; SET GLOBAL rocksdb_compact_cf = 'default'"
    sql "SELECT COALESCE(SUM(f.DATA_SIZE), 0) FROM (SELECT DISTINCT SST_NAME, DATA_SIZE FROM information_schema.ROCKSDB_INDEX_FILE_MAP) f"
  else
    sql "SET GLOBAL innodb_max_dirty_pages_pct_lwm = 0; SET GLOBAL innodb_max_dirty_pages_pct = 0"
    # Pages are compressed as they are written.
    for _ in $(seq 120); do
      [ "$(sql "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'" | cut -f2)" -lt 20 ] && break
      sleep 1
    done
    sleep 2
    find .rowmill -name "$1" -size +200k -printf '%b\n' | awk '{s += $1 * 512} END {print s}'
  fi
}
sql() { "$client" --no-defaults --user=root --socket="$socket" rowmill -N -e "$1"; }

for kind in "${@:-innodb}"; do
  case $kind in
  innodb) start="sandbox:mariadb?memory=$memory&durability=none" engine=InnoDB scheme=mariadb client=mariadb ;;
  rocksdb) start="sandbox:mariadb?memory=$memory&durability=none&engine=rocksdb" engine=ROCKSDB scheme=mariadb client=mariadb ;;
  mysql) start="sandbox:mysql?memory=$memory&durability=none" engine=InnoDB scheme=mysql client=mariadb ;;
  esac
  for preset in classic timeseries; do
    "$rowmill" sandbox start sizes --target "$start" >/dev/null 2>&1
    socket=$(realpath .rowmill/named-sizes/s)
    target="$scheme://root@localhost/rowmill?socket=$socket&engine=$engine"
    table=$([ $preset = classic ] && echo purchases || echo readings)
    "$rowmill" bench insert --target "$target" --preset $preset --layout plain --rows "$rows" --batch 1000 --writers 2 --no-verify >/dev/null 2>&1
    plain=$(bytes "$table.ibd")
    declare_table $preset "$target" $engine >t.toml
    "$rowmill" apply t.toml --yes >/dev/null 2>apply.log || { cat apply.log; exit 1; }
    "$rowmill" apply t.toml --finish --yes >/dev/null 2>&1
    # The last period is open. The others are sealed, because its rows are far ahead.
    "$rowmill" run t.toml --once 2>run.log || { cat run.log; exit 1; }
    total=$(bytes "$table#?#*.ibd")
    if [ "$engine" = ROCKSDB ]; then # which compresses all periods automatically
      sealed="$total $rows"
    else
      sealed=$("$rowmill" status t.toml --json | awk '/"rows"/ {gsub(/[^0-9]/, "", $2); r = $2} /"bytes"/ {gsub(/[^0-9]/, "", $2); b = $2} /"rebuilt": true/ {rows += r; bytes += b} END {print bytes, rows}')
    fi
    awk -v k="$kind" -v p=$preset -v r="$rows" -v a="$plain" -v s="$sealed" \
      'BEGIN {split(s, x, " "); printf "%-8s %-11s plain %6.1f  sealed %6.1f bytes/row (%.0f%%), of %d rows\n", k, p, a/r, x[1]/x[2], 100*x[1]/x[2]/(a/r), x[2]}'
    "$rowmill" sandbox stop sizes --yes >/dev/null 2>&1
  done
done
