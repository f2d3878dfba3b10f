-- engine.Detach
ALTER TABLE "purchases" DETACH PARTITION "purchases_p0000000000000000000" CONCURRENTLY;
ALTER TABLE "purchases_p0000000000000000000" RENAME TO "it's gone";
-- engine.Attach
ALTER TABLE "it's gone" ADD CONSTRAINT "rowmill_bounds_0_1000" CHECK ("id" IS NOT NULL AND "id" >= '0' AND "id" < '1000');
BEGIN;
ALTER TABLE "it's gone" RENAME TO "purchases_p0000000000000000000";
ALTER TABLE "purchases" ATTACH PARTITION "purchases_p0000000000000000000" FOR VALUES FROM (0) TO (1000);
ALTER TABLE "purchases_p0000000000000000000" DROP CONSTRAINT "rowmill_bounds_0_1000";
COMMIT;
-- engine.Replace
ALTER TABLE "sorted" ADD CONSTRAINT "rowmill_bounds_0_1000" CHECK ("id" IS NOT NULL AND "id" >= '0' AND "id" < '1000');
BEGIN;
SET LOCAL lock_timeout = '500ms';
SET LOCAL statement_timeout = '1s';
LOCK TABLE ONLY "purchases", ONLY "sorted", ONLY "purchases_p0000000000000000000" IN ACCESS EXCLUSIVE MODE;
ALTER TABLE "purchases" DETACH PARTITION "purchases_p0000000000000000000";
ALTER TABLE "purchases_p0000000000000000000" RENAME TO "old";
COMMENT ON TABLE "old" IS 'rowmill: replaced';
ALTER TABLE "sorted" RENAME TO "purchases_p0000000000000000000";
ALTER TABLE "purchases" ATTACH PARTITION "purchases_p0000000000000000000" FOR VALUES FROM (0) TO (1000);
ALTER TABLE "purchases_p0000000000000000000" DROP CONSTRAINT "rowmill_bounds_0_1000";
COMMIT;
-- engine.Replace
ALTER TABLE "merged" ADD CONSTRAINT "rowmill_bounds_0_3000" CHECK ("id" IS NOT NULL AND "id" >= '0' AND "id" < '3000');
BEGIN;
SET LOCAL lock_timeout = '500ms';
SET LOCAL statement_timeout = '1s';
LOCK TABLE ONLY "purchases", ONLY "merged", ONLY "purchases_p0000000000000000000", ONLY "purchases_p0000000000000001000", ONLY "purchases_p0000000000000002000" IN ACCESS EXCLUSIVE MODE;
ALTER TABLE "merged" RENAME TO "rowmill_swap_36d0e2dc56f197cf";
ALTER TABLE "purchases" DETACH PARTITION "purchases_p0000000000000000000";
ALTER TABLE "purchases_p0000000000000000000" RENAME TO "old1";
COMMENT ON TABLE "old1" IS 'rowmill: replaced';
ALTER TABLE "purchases" DETACH PARTITION "purchases_p0000000000000001000";
ALTER TABLE "purchases_p0000000000000001000" RENAME TO "old2";
COMMENT ON TABLE "old2" IS 'rowmill: replaced';
ALTER TABLE "purchases" DETACH PARTITION "purchases_p0000000000000002000";
ALTER TABLE "purchases_p0000000000000002000" RENAME TO "merged";
COMMENT ON TABLE "merged" IS 'rowmill: replaced';
ALTER TABLE "rowmill_swap_36d0e2dc56f197cf" RENAME TO "purchases_whole";
ALTER TABLE "purchases" ATTACH PARTITION "purchases_whole" FOR VALUES FROM (0) TO (3000);
ALTER TABLE "purchases_whole" DROP CONSTRAINT "rowmill_bounds_0_3000";
COMMIT;
-- engine.DropTables
DROP TABLE IF EXISTS "old";
DROP TABLE IF EXISTS "a""b";
-- engine.AddColumn
BEGIN;
SET LOCAL lock_timeout = '500ms';
SET LOCAL statement_timeout = '1s';
LOCK TABLE "purchases" IN ACCESS EXCLUSIVE MODE;
ALTER TABLE "purchases" ADD COLUMN IF NOT EXISTS x INT DEFAULT 0 -- why;
COMMIT;
