-- engine.CreateTable
BEGIN;
CREATE TABLE "readings" ( -- (of sensors)
  sensor INT NOT NULL,
  "at (UTC)" TIMESTAMP WITH TIME ZONE NOT NULL,
  note TEXT DEFAULT ')' CHECK (length(note) < 5),
  PRIMARY KEY (sensor, "at (UTC)")
) PARTITION BY RANGE ("at (UTC)") TABLESPACE pg_default;
CREATE INDEX "readings_at_idx" ON "readings" ("at (UTC)");
CREATE TABLE "readings_p20261120" PARTITION OF "readings" FOR VALUES FROM ('2026-11-20 00:00:00+00') TO ('2026-11-21 00:00:00+00');
COMMIT;
-- engine.Detach
ALTER TABLE "readings" DETACH PARTITION "readings_p20261120" CONCURRENTLY;
ALTER TABLE "readings_p20261120" RENAME TO "it's gone";
-- engine.Attach
ALTER TABLE "it's gone" ADD CONSTRAINT "rowmill_bounds_1795132800000000_1795219200000000" CHECK ("at (UTC)" IS NOT NULL AND "at (UTC)" >= '2026-11-20 00:00:00+00' AND "at (UTC)" < '2026-11-21 00:00:00+00');
BEGIN;
ALTER TABLE "it's gone" RENAME TO "readings_p20261120";
ALTER TABLE "readings" ATTACH PARTITION "readings_p20261120" FOR VALUES FROM ('2026-11-20 00:00:00+00') TO ('2026-11-21 00:00:00+00');
ALTER TABLE "readings_p20261120" DROP CONSTRAINT "rowmill_bounds_1795132800000000_1795219200000000";
COMMIT;
-- engine.Replace
ALTER TABLE "sorted" ADD CONSTRAINT "rowmill_bounds_1795132800000000_1795219200000000" CHECK ("at (UTC)" IS NOT NULL AND "at (UTC)" >= '2026-11-20 00:00:00+00' AND "at (UTC)" < '2026-11-21 00:00:00+00');
BEGIN;
SET LOCAL lock_timeout = '500ms';
SET LOCAL statement_timeout = '1s';
LOCK TABLE ONLY "readings", ONLY "sorted", ONLY "readings_p20261120" IN ACCESS EXCLUSIVE MODE;
ALTER TABLE "readings" DETACH PARTITION "readings_p20261120";
ALTER TABLE "readings_p20261120" RENAME TO "old";
COMMENT ON TABLE "old" IS 'rowmill: replaced';
ALTER TABLE "sorted" RENAME TO "readings_p20261120";
ALTER TABLE "readings" ATTACH PARTITION "readings_p20261120" FOR VALUES FROM ('2026-11-20 00:00:00+00') TO ('2026-11-21 00:00:00+00');
ALTER TABLE "readings_p20261120" DROP CONSTRAINT "rowmill_bounds_1795132800000000_1795219200000000";
COMMIT;
-- engine.Replace
ALTER TABLE "merged" ADD CONSTRAINT "rowmill_bounds_1795132800000000_1795392000000000" CHECK ("at (UTC)" IS NOT NULL AND "at (UTC)" >= '2026-11-20 00:00:00+00' AND "at (UTC)" < '2026-11-23 00:00:00+00');
BEGIN;
SET LOCAL lock_timeout = '500ms';
SET LOCAL statement_timeout = '1s';
LOCK TABLE ONLY "readings", ONLY "merged", ONLY "readings_p20261120", ONLY "readings_p20261121", ONLY "readings_p20261122" IN ACCESS EXCLUSIVE MODE;
ALTER TABLE "merged" RENAME TO "rowmill_swap_36d0e2dc56f197cf";
ALTER TABLE "readings" DETACH PARTITION "readings_p20261120";
ALTER TABLE "readings_p20261120" RENAME TO "old1";
COMMENT ON TABLE "old1" IS 'rowmill: replaced';
ALTER TABLE "readings" DETACH PARTITION "readings_p20261121";
ALTER TABLE "readings_p20261121" RENAME TO "old2";
COMMENT ON TABLE "old2" IS 'rowmill: replaced';
ALTER TABLE "readings" DETACH PARTITION "readings_p20261122";
ALTER TABLE "readings_p20261122" RENAME TO "merged";
COMMENT ON TABLE "merged" IS 'rowmill: replaced';
ALTER TABLE "rowmill_swap_36d0e2dc56f197cf" RENAME TO "readings_whole";
ALTER TABLE "readings" ATTACH PARTITION "readings_whole" FOR VALUES FROM ('2026-11-20 00:00:00+00') TO ('2026-11-23 00:00:00+00');
ALTER TABLE "readings_whole" DROP CONSTRAINT "rowmill_bounds_1795132800000000_1795392000000000";
COMMIT;
-- engine.DropTables
DROP TABLE IF EXISTS "old";
DROP TABLE IF EXISTS "a""b";
-- engine.AddColumn
BEGIN;
SET LOCAL lock_timeout = '500ms';
SET LOCAL statement_timeout = '1s';
LOCK TABLE "readings" IN ACCESS EXCLUSIVE MODE;
ALTER TABLE "readings" ADD COLUMN IF NOT EXISTS x INT DEFAULT 0 -- why;
COMMIT;
