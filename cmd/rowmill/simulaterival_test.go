package main

import (
	"database/sql"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// TestSimulatedMonthWithRival is TestSimulatedMonth beside what kept the table before: an event
// that calls a procedure, or a job of pg_cron, with periods of the same length, as far ahead, and
// the same retention. No row may be dropped twice or lost, and status names the rival.
func TestSimulatedMonthWithRival(t *testing.T) {
	testdb.SkipUnlessNightly(t, "TestLayouts")
	for _, server := range servers {
		t.Run(server, func(t *testing.T) {
			simulate(t, server, time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC), 30, 12, true)
		})
	}
}

// rivalSQL are the statements that create what keeps the table besides rowmill, separated by empty
// lines. It is called with the present and with the days that it keeps, and notes the rows that it
// drops.
var rivalSQL = map[string]string{
	"mysql": `CREATE TABLE rival_dropped (name VARCHAR(80), upto DATETIME, n BIGINT, done INT)

CREATE PROCEDURE keep_readings(present DATETIME, days INT)
BEGIN
  DECLARE newest, oldest DATETIME;
  DECLARE first VARCHAR(80);
  SELECT MAX(REPLACE(PARTITION_DESCRIPTION, '''', '')) INTO newest FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'readings';
  WHILE newest < present + INTERVAL 16 HOUR DO
    SET newest = newest + INTERVAL 4 HOUR;
    SET @q = CONCAT('ALTER TABLE readings ADD PARTITION (PARTITION old', DATE_FORMAT(newest, '%Y%m%d%H'), ' VALUES LESS THAN (''', newest, '''))');
    PREPARE q FROM @q; EXECUTE q;
  END WHILE;
  one: LOOP
    SELECT PARTITION_NAME, REPLACE(PARTITION_DESCRIPTION, '''', '') INTO first, oldest FROM information_schema.PARTITIONS
      WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'readings' ORDER BY PARTITION_ORDINAL_POSITION LIMIT 1;
    IF oldest > present - INTERVAL days DAY THEN LEAVE one; END IF;
    SET @q = CONCAT('INSERT INTO rival_dropped SELECT ''', first, ''', ''', oldest, ''', COUNT(*), 0 FROM readings PARTITION (', first, ')');
    PREPARE q FROM @q; EXECUTE q;
    SET @q = CONCAT('ALTER TABLE readings DROP PARTITION ', first);
    PREPARE q FROM @q; EXECUTE q;
    UPDATE rival_dropped SET done = 1 WHERE name = first;
  END LOOP;
END

CREATE EVENT events_daily ON SCHEDULE EVERY 1 DAY STARTS '2037-01-01 00:00:00' DO CALL keep_readings(NOW(), 1)`,
	"postgres": `CREATE TABLE rival_dropped (name text, upto timestamp, n bigint, done int)

CREATE FUNCTION keep_readings(present timestamp, days int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE newest timestamp; p record; n bigint;
BEGIN
  FOR p IN SELECT relname AS name, substring(pg_get_expr(relpartbound, oid) FROM 'TO \(''(.*)''\)')::timestamp AS upto
    FROM pg_class WHERE oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = 'readings'::regclass) ORDER BY 2
  LOOP
    newest := p.upto;
    IF newest <= present - days * interval '1 day' THEN
      EXECUTE format('LOCK TABLE %I', p.name);
      EXECUTE format('SELECT count(*) FROM %I', p.name) INTO n;
      INSERT INTO rival_dropped VALUES (p.name, p.upto, n, 1);
      EXECUTE format('DROP TABLE %I', p.name);
    END IF;
  END LOOP;
  WHILE newest < present + interval '16 hours' LOOP
    EXECUTE format('CREATE TABLE %I PARTITION OF readings FOR VALUES FROM (%L) TO (%L)', 'old' || to_char(newest, 'YYYYMMDDHH24'), newest, newest + interval '4 hours');
    newest := newest + interval '4 hours';
  END LOOP;
END $$

CREATE SCHEMA cron

CREATE TABLE cron.job (jobid bigint PRIMARY KEY, schedule text NOT NULL, command text NOT NULL, database text NOT NULL, active boolean NOT NULL DEFAULT true)

INSERT INTO cron.job VALUES (7, '0 3 * * *', 'SELECT keep_readings(now()::timestamp, 1)', current_database())`,
}

// rivalWords returns what is said to a rival on the server: its statements, how it is called, and
// how it is stopped.
func (m *month) rivalWords() (create, call, stop string) {
	if m.server == "postgres" {
		return rivalSQL["postgres"], "SELECT keep_readings($1::timestamp, $2::int)", "UPDATE cron.job SET active = false"
	}
	return rivalSQL["mysql"], "CALL keep_readings(?, ?)", "ALTER EVENT events_daily DISABLE"
}

// hireRival creates what keeps the table, too.
func (m *month) hireRival() {
	create, _, _ := m.rivalWords()
	for q := range strings.SplitSeq(create, "\n\n") {
		execSQL(m, m.db, q)
	}
}

// rivalKeeps lets the rival keep the table at every other step, at the same time as the daemons.
// Like many scripts it fails if another one is faster, and goes on the next time.
func (m *month) rivalKeeps(step int) {
	if !m.rival || step%2 == 1 {
		return
	}
	_, call, _ := m.rivalWords()
	if _, err := m.db.SQL().ExecContext(m.Context(), call, rolling.Instant(m.now).Format(time.DateTime), m.keep); err != nil {
		m.Logf("step %d: the rival: %v", step, err)
	}
}

// rivalDropped returns how many rows the rival has dropped in excess of those that rowmill knows
// of. What one of them has dropped, the other has not.
func (m *month) rivalDropped() (rows int64) {
	if !m.rival {
		return 0
	}
	periods, err := state.New(m.db).Periods(m.Context(), "readings")
	must(m, err)
	actions, err := state.New(m.db).Actions(m.Context(), "readings", 1000)
	must(m, err)
	dropped := 0
	err = engine.Each(m.Context(), m.db, m.db.SQL(), func(r *sql.Rows) error {
		var name string
		var upto, n int64
		if err := r.Scan(&name, &upto, &n); err != nil {
			return err
		}
		for _, p := range periods {
			if p.State == state.Dropped && p.To == upto {
				rows -= p.Rows
			}
		}
		for _, a := range actions {
			if a.Action == "drop" && strings.HasPrefix(strings.ReplaceAll(a.Detail, `"`, ""), strings.TrimPrefix(name, "readings_")+": ") && !strings.Contains(a.Detail, "by others") {
				m.Errorf("%s was dropped by both: %s", name, a.Detail)
			}
		}
		rows, dropped = rows+n, dropped+1
		return nil
	}, "SELECT name, "+m.db.Words().Position(m.table, "upto")+", n FROM rival_dropped WHERE done = 1 AND n > 0")
	must(m, err)
	if dropped == 0 || !slices.ContainsFunc(actions, func(a state.Action) bool { return a.Action == "create" }) {
		m.Errorf("the rival has dropped %d periods; rowmill's actions are %v", dropped, actions)
	}
	return rows
}

// sealed reports whether all periods that ended more than eight hours ago are sealed: then the
// rival, which proves nothing, may drop them.
func (m *month) sealed(have []rolling.Partition) bool {
	known, err := state.New(m.db).PeriodsFrom(m.Context(), "readings", have[0].From)
	must(m, err)
	return !slices.ContainsFunc(have, func(p rolling.Partition) bool {
		return p.To <= m.now-8*3600e6 && !slices.ContainsFunc(known, func(k state.Period) bool { return k.To >= p.To })
	})
}

// dismissRival stops the rival, once status has named it.
func (m *month) dismissRival() {
	if !m.rival {
		return
	}
	if s := m.run("status"); s.code != exitFailed || !strings.Contains(s.stdout, "creates or drops partitions of table readings") {
		m.Errorf("status: exit %d\n%s%s", s.code, s.stdout, s.stderr)
	}
	_, _, stop := m.rivalWords()
	execSQL(m, m.db, stop)
}
