-- engine.CreateTable
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS rowmill_periods (
  table_name TEXT NOT NULL,
  name TEXT NOT NULL,
  lower INTEGER NOT NULL,
  upper INTEGER NOT NULL,
  PRIMARY KEY (table_name, name)
) WITHOUT ROWID;
CREATE TABLE "rea""dings_p20261120" (
  sensor INTEGER NOT NULL, ts DATETIME NOT NULL, value REAL DEFAULT 1.5, unit TEXT NOT NULL DEFAULT 'it''s C',
  twice REAL GENERATED ALWAYS AS (value * 2) VIRTUAL, level INTEGER NOT NULL DEFAULT (1 + 2) CHECK (level < 100),
  PRIMARY KEY (sensor, ts)) WITHOUT ROWID;
CREATE INDEX "rea""dings_p20261120_by_ts" ON "rea""dings_p20261120" (ts, value);
INSERT INTO rowmill_periods (table_name, name, lower, upper) VALUES ('rea"dings', 'p20261120', 1795132800000000, 1795219200000000);
CREATE TABLE "rea""dings_p20261121" (
  sensor INTEGER NOT NULL, ts DATETIME NOT NULL, value REAL DEFAULT 1.5, unit TEXT NOT NULL DEFAULT 'it''s C',
  twice REAL GENERATED ALWAYS AS (value * 2) VIRTUAL, level INTEGER NOT NULL DEFAULT (1 + 2) CHECK (level < 100),
  PRIMARY KEY (sensor, ts)) WITHOUT ROWID;
CREATE INDEX "rea""dings_p20261121_by_ts" ON "rea""dings_p20261121" (ts, value);
INSERT INTO rowmill_periods (table_name, name, lower, upper) VALUES ('rea"dings', 'p20261121', 1795219200000000, 1795305600000000);
CREATE VIEW "rea""dings" AS /* rowmill: rolls by ts */
SELECT "sensor", "ts", "value", "unit", "twice", "level" FROM "rea""dings_p20261120"
UNION ALL SELECT "sensor", "ts", "value", "unit", "twice", "level" FROM "rea""dings_p20261121";
CREATE TRIGGER "rea""dings_rowmill_insert_1" INSTEAD OF INSERT ON "rea""dings" WHEN NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-22 00:00:00' BEGIN
INSERT INTO "rea""dings_p20261120" ("sensor", "ts", "value", "unit", "level") SELECT NEW."sensor", substr(NEW."ts", 1, 19) || CASE WHEN rtrim(substr(NEW."ts", 20), '.0') = '' THEN '' ELSE '.' || substr(substr(NEW."ts", 21) || '00000', 1, 6) END, NEW."value", COALESCE(NEW."unit", 'it''s C'), COALESCE(NEW."level", (1 + 2)) WHERE NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-21 00:00:00';
INSERT INTO "rea""dings_p20261121" ("sensor", "ts", "value", "unit", "level") SELECT NEW."sensor", substr(NEW."ts", 1, 19) || CASE WHEN rtrim(substr(NEW."ts", 20), '.0') = '' THEN '' ELSE '.' || substr(substr(NEW."ts", 21) || '00000', 1, 6) END, NEW."value", COALESCE(NEW."unit", 'it''s C'), COALESCE(NEW."level", (1 + 2)) WHERE NEW."ts" >= '2026-11-21 00:00:00' AND NEW."ts" < '2026-11-22 00:00:00';
END;
CREATE TRIGGER "rea""dings_rowmill_update_1" INSTEAD OF UPDATE ON "rea""dings" WHEN OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-22 00:00:00' BEGIN
SELECT RAISE(ABORT, 'rowmill: an UPDATE can''t take a row to another period; delete it and insert it there') WHERE NEW."ts" IS NOT OLD."ts" AND NOT ((OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-21 00:00:00' AND NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-21 00:00:00') OR (OLD."ts" >= '2026-11-21 00:00:00' AND OLD."ts" < '2026-11-22 00:00:00' AND NEW."ts" >= '2026-11-21 00:00:00' AND NEW."ts" < '2026-11-22 00:00:00'));
UPDATE "rea""dings_p20261120" SET "sensor" = NEW."sensor", "ts" = CASE WHEN NEW."ts" IS OLD."ts" THEN NEW."ts" ELSE substr(NEW."ts", 1, 19) || CASE WHEN rtrim(substr(NEW."ts", 20), '.0') = '' THEN '' ELSE '.' || substr(substr(NEW."ts", 21) || '00000', 1, 6) END END, "value" = NEW."value", "unit" = NEW."unit", "level" = NEW."level" WHERE "sensor" IS OLD."sensor" AND "ts" IS OLD."ts" AND OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-21 00:00:00';
UPDATE "rea""dings_p20261121" SET "sensor" = NEW."sensor", "ts" = CASE WHEN NEW."ts" IS OLD."ts" THEN NEW."ts" ELSE substr(NEW."ts", 1, 19) || CASE WHEN rtrim(substr(NEW."ts", 20), '.0') = '' THEN '' ELSE '.' || substr(substr(NEW."ts", 21) || '00000', 1, 6) END END, "value" = NEW."value", "unit" = NEW."unit", "level" = NEW."level" WHERE "sensor" IS OLD."sensor" AND "ts" IS OLD."ts" AND OLD."ts" >= '2026-11-21 00:00:00' AND OLD."ts" < '2026-11-22 00:00:00';
END;
CREATE TRIGGER "rea""dings_rowmill_delete_1" INSTEAD OF DELETE ON "rea""dings" WHEN OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-22 00:00:00' BEGIN
DELETE FROM "rea""dings_p20261120" WHERE "sensor" IS OLD."sensor" AND "ts" IS OLD."ts" AND OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-21 00:00:00';
DELETE FROM "rea""dings_p20261121" WHERE "sensor" IS OLD."sensor" AND "ts" IS OLD."ts" AND OLD."ts" >= '2026-11-21 00:00:00' AND OLD."ts" < '2026-11-22 00:00:00';
END;
CREATE TRIGGER "rea""dings_rowmill_insert" INSTEAD OF INSERT ON "rea""dings" BEGIN
SELECT CASE WHEN (typeof(NEW."ts") = 'text' AND strftime('%Y-%m-%d %H:%M:%S', substr(NEW."ts", 1, 19)) = substr(NEW."ts", 1, 19) AND substr(NEW."ts", 12, 2) < '24' AND (length(NEW."ts") = 19 OR length(NEW."ts") BETWEEN 21 AND 26 AND substr(NEW."ts", 20, 1) = '.' AND substr(NEW."ts", 21) NOT GLOB '*[^0-9]*')) IS NOT 1 THEN RAISE(ABORT, 'rowmill: rea"dings.ts must be YYYY-MM-DD hh:mm:ss, with up to 6 digits of a second')
WHEN NOT ((NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-22 00:00:00')) THEN RAISE(ABORT, 'rowmill: row outside every period of rea"dings') END;
END;
CREATE TRIGGER "rea""dings_rowmill_update" INSTEAD OF UPDATE ON "rea""dings" WHEN NEW."ts" IS NOT OLD."ts" BEGIN
SELECT CASE WHEN (typeof(NEW."ts") = 'text' AND strftime('%Y-%m-%d %H:%M:%S', substr(NEW."ts", 1, 19)) = substr(NEW."ts", 1, 19) AND substr(NEW."ts", 12, 2) < '24' AND (length(NEW."ts") = 19 OR length(NEW."ts") BETWEEN 21 AND 26 AND substr(NEW."ts", 20, 1) = '.' AND substr(NEW."ts", 21) NOT GLOB '*[^0-9]*')) IS NOT 1 THEN RAISE(ABORT, 'rowmill: rea"dings.ts must be YYYY-MM-DD hh:mm:ss, with up to 6 digits of a second')
WHEN NOT ((NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-22 00:00:00')) THEN RAISE(ABORT, 'rowmill: row outside every period of rea"dings') END;
END;
COMMIT;
-- engine.CreatePartitions
BEGIN IMMEDIATE;
CREATE TABLE "rea""dings_p20261123" (
  sensor INTEGER NOT NULL, ts DATETIME NOT NULL, value REAL DEFAULT 1.5, unit TEXT NOT NULL DEFAULT 'it''s C',
  twice REAL GENERATED ALWAYS AS (value * 2) VIRTUAL, level INTEGER NOT NULL DEFAULT (1 + 2) CHECK (level < 100),
  PRIMARY KEY (sensor, ts)) WITHOUT ROWID;
CREATE INDEX "rea""dings_p20261123_by_ts" ON "rea""dings_p20261123" (ts, value);
INSERT INTO rowmill_periods (table_name, name, lower, upper) VALUES ('rea"dings', 'p20261123', 1795392000000000, 1795478400000000);
DROP VIEW "rea""dings";
CREATE VIEW "rea""dings" AS /* rowmill: rolls by ts */
SELECT "sensor", "ts", "value", "unit", "twice", "level" FROM "rea""dings_p20261120"
UNION ALL SELECT "sensor", "ts", "value", "unit", "twice", "level" FROM "rea""dings_p20261121"
UNION ALL SELECT "sensor", "ts", "value", "unit", "twice", "level" FROM "rea""dings_p20261123";
CREATE TRIGGER "rea""dings_rowmill_insert_1" INSTEAD OF INSERT ON "rea""dings" WHEN NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-24 00:00:00' BEGIN
INSERT INTO "rea""dings_p20261120" ("sensor", "ts", "value", "unit", "level") SELECT NEW."sensor", substr(NEW."ts", 1, 19) || CASE WHEN rtrim(substr(NEW."ts", 20), '.0') = '' THEN '' ELSE '.' || substr(substr(NEW."ts", 21) || '00000', 1, 6) END, NEW."value", COALESCE(NEW."unit", 'it''s C'), COALESCE(NEW."level", (1 + 2)) WHERE NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-21 00:00:00';
INSERT INTO "rea""dings_p20261121" ("sensor", "ts", "value", "unit", "level") SELECT NEW."sensor", substr(NEW."ts", 1, 19) || CASE WHEN rtrim(substr(NEW."ts", 20), '.0') = '' THEN '' ELSE '.' || substr(substr(NEW."ts", 21) || '00000', 1, 6) END, NEW."value", COALESCE(NEW."unit", 'it''s C'), COALESCE(NEW."level", (1 + 2)) WHERE NEW."ts" >= '2026-11-21 00:00:00' AND NEW."ts" < '2026-11-22 00:00:00';
INSERT INTO "rea""dings_p20261123" ("sensor", "ts", "value", "unit", "level") SELECT NEW."sensor", substr(NEW."ts", 1, 19) || CASE WHEN rtrim(substr(NEW."ts", 20), '.0') = '' THEN '' ELSE '.' || substr(substr(NEW."ts", 21) || '00000', 1, 6) END, NEW."value", COALESCE(NEW."unit", 'it''s C'), COALESCE(NEW."level", (1 + 2)) WHERE NEW."ts" >= '2026-11-23 00:00:00' AND NEW."ts" < '2026-11-24 00:00:00';
END;
CREATE TRIGGER "rea""dings_rowmill_update_1" INSTEAD OF UPDATE ON "rea""dings" WHEN OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-24 00:00:00' BEGIN
SELECT RAISE(ABORT, 'rowmill: an UPDATE can''t take a row to another period; delete it and insert it there') WHERE NEW."ts" IS NOT OLD."ts" AND NOT ((OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-21 00:00:00' AND NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-21 00:00:00') OR (OLD."ts" >= '2026-11-21 00:00:00' AND OLD."ts" < '2026-11-22 00:00:00' AND NEW."ts" >= '2026-11-21 00:00:00' AND NEW."ts" < '2026-11-22 00:00:00') OR (OLD."ts" >= '2026-11-23 00:00:00' AND OLD."ts" < '2026-11-24 00:00:00' AND NEW."ts" >= '2026-11-23 00:00:00' AND NEW."ts" < '2026-11-24 00:00:00'));
UPDATE "rea""dings_p20261120" SET "sensor" = NEW."sensor", "ts" = CASE WHEN NEW."ts" IS OLD."ts" THEN NEW."ts" ELSE substr(NEW."ts", 1, 19) || CASE WHEN rtrim(substr(NEW."ts", 20), '.0') = '' THEN '' ELSE '.' || substr(substr(NEW."ts", 21) || '00000', 1, 6) END END, "value" = NEW."value", "unit" = NEW."unit", "level" = NEW."level" WHERE "sensor" IS OLD."sensor" AND "ts" IS OLD."ts" AND OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-21 00:00:00';
UPDATE "rea""dings_p20261121" SET "sensor" = NEW."sensor", "ts" = CASE WHEN NEW."ts" IS OLD."ts" THEN NEW."ts" ELSE substr(NEW."ts", 1, 19) || CASE WHEN rtrim(substr(NEW."ts", 20), '.0') = '' THEN '' ELSE '.' || substr(substr(NEW."ts", 21) || '00000', 1, 6) END END, "value" = NEW."value", "unit" = NEW."unit", "level" = NEW."level" WHERE "sensor" IS OLD."sensor" AND "ts" IS OLD."ts" AND OLD."ts" >= '2026-11-21 00:00:00' AND OLD."ts" < '2026-11-22 00:00:00';
UPDATE "rea""dings_p20261123" SET "sensor" = NEW."sensor", "ts" = CASE WHEN NEW."ts" IS OLD."ts" THEN NEW."ts" ELSE substr(NEW."ts", 1, 19) || CASE WHEN rtrim(substr(NEW."ts", 20), '.0') = '' THEN '' ELSE '.' || substr(substr(NEW."ts", 21) || '00000', 1, 6) END END, "value" = NEW."value", "unit" = NEW."unit", "level" = NEW."level" WHERE "sensor" IS OLD."sensor" AND "ts" IS OLD."ts" AND OLD."ts" >= '2026-11-23 00:00:00' AND OLD."ts" < '2026-11-24 00:00:00';
END;
CREATE TRIGGER "rea""dings_rowmill_delete_1" INSTEAD OF DELETE ON "rea""dings" WHEN OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-24 00:00:00' BEGIN
DELETE FROM "rea""dings_p20261120" WHERE "sensor" IS OLD."sensor" AND "ts" IS OLD."ts" AND OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-21 00:00:00';
DELETE FROM "rea""dings_p20261121" WHERE "sensor" IS OLD."sensor" AND "ts" IS OLD."ts" AND OLD."ts" >= '2026-11-21 00:00:00' AND OLD."ts" < '2026-11-22 00:00:00';
DELETE FROM "rea""dings_p20261123" WHERE "sensor" IS OLD."sensor" AND "ts" IS OLD."ts" AND OLD."ts" >= '2026-11-23 00:00:00' AND OLD."ts" < '2026-11-24 00:00:00';
END;
CREATE TRIGGER "rea""dings_rowmill_insert" INSTEAD OF INSERT ON "rea""dings" BEGIN
SELECT CASE WHEN (typeof(NEW."ts") = 'text' AND strftime('%Y-%m-%d %H:%M:%S', substr(NEW."ts", 1, 19)) = substr(NEW."ts", 1, 19) AND substr(NEW."ts", 12, 2) < '24' AND (length(NEW."ts") = 19 OR length(NEW."ts") BETWEEN 21 AND 26 AND substr(NEW."ts", 20, 1) = '.' AND substr(NEW."ts", 21) NOT GLOB '*[^0-9]*')) IS NOT 1 THEN RAISE(ABORT, 'rowmill: rea"dings.ts must be YYYY-MM-DD hh:mm:ss, with up to 6 digits of a second')
WHEN NOT ((NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-22 00:00:00') OR (NEW."ts" >= '2026-11-23 00:00:00' AND NEW."ts" < '2026-11-24 00:00:00')) THEN RAISE(ABORT, 'rowmill: row outside every period of rea"dings') END;
END;
CREATE TRIGGER "rea""dings_rowmill_update" INSTEAD OF UPDATE ON "rea""dings" WHEN NEW."ts" IS NOT OLD."ts" BEGIN
SELECT CASE WHEN (typeof(NEW."ts") = 'text' AND strftime('%Y-%m-%d %H:%M:%S', substr(NEW."ts", 1, 19)) = substr(NEW."ts", 1, 19) AND substr(NEW."ts", 12, 2) < '24' AND (length(NEW."ts") = 19 OR length(NEW."ts") BETWEEN 21 AND 26 AND substr(NEW."ts", 20, 1) = '.' AND substr(NEW."ts", 21) NOT GLOB '*[^0-9]*')) IS NOT 1 THEN RAISE(ABORT, 'rowmill: rea"dings.ts must be YYYY-MM-DD hh:mm:ss, with up to 6 digits of a second')
WHEN NOT ((NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-22 00:00:00') OR (NEW."ts" >= '2026-11-23 00:00:00' AND NEW."ts" < '2026-11-24 00:00:00')) THEN RAISE(ABORT, 'rowmill: row outside every period of rea"dings') END;
END;
COMMIT;
-- engine.DropPartition
BEGIN IMMEDIATE;
DROP VIEW "rea""dings";
DROP TABLE IF EXISTS "rea""dings_p20261120";
DELETE FROM rowmill_periods WHERE table_name = 'rea"dings' AND name = 'p20261120';
CREATE VIEW "rea""dings" AS /* rowmill: rolls by ts */
SELECT "sensor", "ts", "value", "unit", "twice", "level" FROM "rea""dings_p20261121";
CREATE TRIGGER "rea""dings_rowmill_insert_1" INSTEAD OF INSERT ON "rea""dings" WHEN NEW."ts" >= '2026-11-21 00:00:00' AND NEW."ts" < '2026-11-22 00:00:00' BEGIN
INSERT INTO "rea""dings_p20261121" ("sensor", "ts", "value", "unit", "level") SELECT NEW."sensor", substr(NEW."ts", 1, 19) || CASE WHEN rtrim(substr(NEW."ts", 20), '.0') = '' THEN '' ELSE '.' || substr(substr(NEW."ts", 21) || '00000', 1, 6) END, NEW."value", COALESCE(NEW."unit", 'it''s C'), COALESCE(NEW."level", (1 + 2)) WHERE NEW."ts" >= '2026-11-21 00:00:00' AND NEW."ts" < '2026-11-22 00:00:00';
END;
CREATE TRIGGER "rea""dings_rowmill_update_1" INSTEAD OF UPDATE ON "rea""dings" WHEN OLD."ts" >= '2026-11-21 00:00:00' AND OLD."ts" < '2026-11-22 00:00:00' BEGIN
SELECT RAISE(ABORT, 'rowmill: an UPDATE can''t take a row to another period; delete it and insert it there') WHERE NEW."ts" IS NOT OLD."ts" AND NOT ((OLD."ts" >= '2026-11-21 00:00:00' AND OLD."ts" < '2026-11-22 00:00:00' AND NEW."ts" >= '2026-11-21 00:00:00' AND NEW."ts" < '2026-11-22 00:00:00'));
UPDATE "rea""dings_p20261121" SET "sensor" = NEW."sensor", "ts" = CASE WHEN NEW."ts" IS OLD."ts" THEN NEW."ts" ELSE substr(NEW."ts", 1, 19) || CASE WHEN rtrim(substr(NEW."ts", 20), '.0') = '' THEN '' ELSE '.' || substr(substr(NEW."ts", 21) || '00000', 1, 6) END END, "value" = NEW."value", "unit" = NEW."unit", "level" = NEW."level" WHERE "sensor" IS OLD."sensor" AND "ts" IS OLD."ts" AND OLD."ts" >= '2026-11-21 00:00:00' AND OLD."ts" < '2026-11-22 00:00:00';
END;
CREATE TRIGGER "rea""dings_rowmill_delete_1" INSTEAD OF DELETE ON "rea""dings" WHEN OLD."ts" >= '2026-11-21 00:00:00' AND OLD."ts" < '2026-11-22 00:00:00' BEGIN
DELETE FROM "rea""dings_p20261121" WHERE "sensor" IS OLD."sensor" AND "ts" IS OLD."ts" AND OLD."ts" >= '2026-11-21 00:00:00' AND OLD."ts" < '2026-11-22 00:00:00';
END;
CREATE TRIGGER "rea""dings_rowmill_insert" INSTEAD OF INSERT ON "rea""dings" BEGIN
SELECT CASE WHEN (typeof(NEW."ts") = 'text' AND strftime('%Y-%m-%d %H:%M:%S', substr(NEW."ts", 1, 19)) = substr(NEW."ts", 1, 19) AND substr(NEW."ts", 12, 2) < '24' AND (length(NEW."ts") = 19 OR length(NEW."ts") BETWEEN 21 AND 26 AND substr(NEW."ts", 20, 1) = '.' AND substr(NEW."ts", 21) NOT GLOB '*[^0-9]*')) IS NOT 1 THEN RAISE(ABORT, 'rowmill: rea"dings.ts must be YYYY-MM-DD hh:mm:ss, with up to 6 digits of a second')
WHEN NOT ((NEW."ts" >= '2026-11-21 00:00:00' AND NEW."ts" < '2026-11-22 00:00:00')) THEN RAISE(ABORT, 'rowmill: row outside every period of rea"dings') END;
END;
CREATE TRIGGER "rea""dings_rowmill_update" INSTEAD OF UPDATE ON "rea""dings" WHEN NEW."ts" IS NOT OLD."ts" BEGIN
SELECT CASE WHEN (typeof(NEW."ts") = 'text' AND strftime('%Y-%m-%d %H:%M:%S', substr(NEW."ts", 1, 19)) = substr(NEW."ts", 1, 19) AND substr(NEW."ts", 12, 2) < '24' AND (length(NEW."ts") = 19 OR length(NEW."ts") BETWEEN 21 AND 26 AND substr(NEW."ts", 20, 1) = '.' AND substr(NEW."ts", 21) NOT GLOB '*[^0-9]*')) IS NOT 1 THEN RAISE(ABORT, 'rowmill: rea"dings.ts must be YYYY-MM-DD hh:mm:ss, with up to 6 digits of a second')
WHEN NOT ((NEW."ts" >= '2026-11-21 00:00:00' AND NEW."ts" < '2026-11-22 00:00:00')) THEN RAISE(ABORT, 'rowmill: row outside every period of rea"dings') END;
END;
COMMIT;
-- engine.Detach
PRAGMA legacy_alter_table = ON;
BEGIN IMMEDIATE;
DROP VIEW "rea""dings";
ALTER TABLE "rea""dings_p20261121" RENAME TO "out";
DELETE FROM rowmill_periods WHERE table_name = 'rea"dings' AND name = 'p20261121';
CREATE VIEW "rea""dings" AS /* rowmill: rolls by ts */
SELECT "sensor", "ts", "value", "unit", "twice", "level" FROM "rea""dings_p20261120";
CREATE TRIGGER "rea""dings_rowmill_insert_1" INSTEAD OF INSERT ON "rea""dings" WHEN NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-21 00:00:00' BEGIN
INSERT INTO "rea""dings_p20261120" ("sensor", "ts", "value", "unit", "level") SELECT NEW."sensor", substr(NEW."ts", 1, 19) || CASE WHEN rtrim(substr(NEW."ts", 20), '.0') = '' THEN '' ELSE '.' || substr(substr(NEW."ts", 21) || '00000', 1, 6) END, NEW."value", COALESCE(NEW."unit", 'it''s C'), COALESCE(NEW."level", (1 + 2)) WHERE NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-21 00:00:00';
END;
CREATE TRIGGER "rea""dings_rowmill_update_1" INSTEAD OF UPDATE ON "rea""dings" WHEN OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-21 00:00:00' BEGIN
SELECT RAISE(ABORT, 'rowmill: an UPDATE can''t take a row to another period; delete it and insert it there') WHERE NEW."ts" IS NOT OLD."ts" AND NOT ((OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-21 00:00:00' AND NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-21 00:00:00'));
UPDATE "rea""dings_p20261120" SET "sensor" = NEW."sensor", "ts" = CASE WHEN NEW."ts" IS OLD."ts" THEN NEW."ts" ELSE substr(NEW."ts", 1, 19) || CASE WHEN rtrim(substr(NEW."ts", 20), '.0') = '' THEN '' ELSE '.' || substr(substr(NEW."ts", 21) || '00000', 1, 6) END END, "value" = NEW."value", "unit" = NEW."unit", "level" = NEW."level" WHERE "sensor" IS OLD."sensor" AND "ts" IS OLD."ts" AND OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-21 00:00:00';
END;
CREATE TRIGGER "rea""dings_rowmill_delete_1" INSTEAD OF DELETE ON "rea""dings" WHEN OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-21 00:00:00' BEGIN
DELETE FROM "rea""dings_p20261120" WHERE "sensor" IS OLD."sensor" AND "ts" IS OLD."ts" AND OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-21 00:00:00';
END;
CREATE TRIGGER "rea""dings_rowmill_insert" INSTEAD OF INSERT ON "rea""dings" BEGIN
SELECT CASE WHEN (typeof(NEW."ts") = 'text' AND strftime('%Y-%m-%d %H:%M:%S', substr(NEW."ts", 1, 19)) = substr(NEW."ts", 1, 19) AND substr(NEW."ts", 12, 2) < '24' AND (length(NEW."ts") = 19 OR length(NEW."ts") BETWEEN 21 AND 26 AND substr(NEW."ts", 20, 1) = '.' AND substr(NEW."ts", 21) NOT GLOB '*[^0-9]*')) IS NOT 1 THEN RAISE(ABORT, 'rowmill: rea"dings.ts must be YYYY-MM-DD hh:mm:ss, with up to 6 digits of a second')
WHEN NOT ((NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-21 00:00:00')) THEN RAISE(ABORT, 'rowmill: row outside every period of rea"dings') END;
END;
CREATE TRIGGER "rea""dings_rowmill_update" INSTEAD OF UPDATE ON "rea""dings" WHEN NEW."ts" IS NOT OLD."ts" BEGIN
SELECT CASE WHEN (typeof(NEW."ts") = 'text' AND strftime('%Y-%m-%d %H:%M:%S', substr(NEW."ts", 1, 19)) = substr(NEW."ts", 1, 19) AND substr(NEW."ts", 12, 2) < '24' AND (length(NEW."ts") = 19 OR length(NEW."ts") BETWEEN 21 AND 26 AND substr(NEW."ts", 20, 1) = '.' AND substr(NEW."ts", 21) NOT GLOB '*[^0-9]*')) IS NOT 1 THEN RAISE(ABORT, 'rowmill: rea"dings.ts must be YYYY-MM-DD hh:mm:ss, with up to 6 digits of a second')
WHEN NOT ((NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-21 00:00:00')) THEN RAISE(ABORT, 'rowmill: row outside every period of rea"dings') END;
END;
COMMIT;
PRAGMA legacy_alter_table = OFF;
-- engine.Attach
PRAGMA legacy_alter_table = ON;
BEGIN IMMEDIATE;
DROP VIEW "rea""dings";
ALTER TABLE "in" RENAME TO "rea""dings_p20261121";
INSERT INTO rowmill_periods (table_name, name, lower, upper) VALUES ('rea"dings', 'p20261121', 1795219200000000, 1795305600000000);
CREATE VIEW "rea""dings" AS /* rowmill: rolls by ts */
SELECT "sensor", "ts", "value", "unit", "twice", "level" FROM "rea""dings_p20261120"
UNION ALL SELECT "sensor", "ts", "value", "unit", "twice", "level" FROM "rea""dings_p20261121";
CREATE TRIGGER "rea""dings_rowmill_insert_1" INSTEAD OF INSERT ON "rea""dings" WHEN NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-22 00:00:00' BEGIN
INSERT INTO "rea""dings_p20261120" ("sensor", "ts", "value", "unit", "level") SELECT NEW."sensor", substr(NEW."ts", 1, 19) || CASE WHEN rtrim(substr(NEW."ts", 20), '.0') = '' THEN '' ELSE '.' || substr(substr(NEW."ts", 21) || '00000', 1, 6) END, NEW."value", COALESCE(NEW."unit", 'it''s C'), COALESCE(NEW."level", (1 + 2)) WHERE NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-21 00:00:00';
INSERT INTO "rea""dings_p20261121" ("sensor", "ts", "value", "unit", "level") SELECT NEW."sensor", substr(NEW."ts", 1, 19) || CASE WHEN rtrim(substr(NEW."ts", 20), '.0') = '' THEN '' ELSE '.' || substr(substr(NEW."ts", 21) || '00000', 1, 6) END, NEW."value", COALESCE(NEW."unit", 'it''s C'), COALESCE(NEW."level", (1 + 2)) WHERE NEW."ts" >= '2026-11-21 00:00:00' AND NEW."ts" < '2026-11-22 00:00:00';
END;
CREATE TRIGGER "rea""dings_rowmill_update_1" INSTEAD OF UPDATE ON "rea""dings" WHEN OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-22 00:00:00' BEGIN
SELECT RAISE(ABORT, 'rowmill: an UPDATE can''t take a row to another period; delete it and insert it there') WHERE NEW."ts" IS NOT OLD."ts" AND NOT ((OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-21 00:00:00' AND NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-21 00:00:00') OR (OLD."ts" >= '2026-11-21 00:00:00' AND OLD."ts" < '2026-11-22 00:00:00' AND NEW."ts" >= '2026-11-21 00:00:00' AND NEW."ts" < '2026-11-22 00:00:00'));
UPDATE "rea""dings_p20261120" SET "sensor" = NEW."sensor", "ts" = CASE WHEN NEW."ts" IS OLD."ts" THEN NEW."ts" ELSE substr(NEW."ts", 1, 19) || CASE WHEN rtrim(substr(NEW."ts", 20), '.0') = '' THEN '' ELSE '.' || substr(substr(NEW."ts", 21) || '00000', 1, 6) END END, "value" = NEW."value", "unit" = NEW."unit", "level" = NEW."level" WHERE "sensor" IS OLD."sensor" AND "ts" IS OLD."ts" AND OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-21 00:00:00';
UPDATE "rea""dings_p20261121" SET "sensor" = NEW."sensor", "ts" = CASE WHEN NEW."ts" IS OLD."ts" THEN NEW."ts" ELSE substr(NEW."ts", 1, 19) || CASE WHEN rtrim(substr(NEW."ts", 20), '.0') = '' THEN '' ELSE '.' || substr(substr(NEW."ts", 21) || '00000', 1, 6) END END, "value" = NEW."value", "unit" = NEW."unit", "level" = NEW."level" WHERE "sensor" IS OLD."sensor" AND "ts" IS OLD."ts" AND OLD."ts" >= '2026-11-21 00:00:00' AND OLD."ts" < '2026-11-22 00:00:00';
END;
CREATE TRIGGER "rea""dings_rowmill_delete_1" INSTEAD OF DELETE ON "rea""dings" WHEN OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-22 00:00:00' BEGIN
DELETE FROM "rea""dings_p20261120" WHERE "sensor" IS OLD."sensor" AND "ts" IS OLD."ts" AND OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-21 00:00:00';
DELETE FROM "rea""dings_p20261121" WHERE "sensor" IS OLD."sensor" AND "ts" IS OLD."ts" AND OLD."ts" >= '2026-11-21 00:00:00' AND OLD."ts" < '2026-11-22 00:00:00';
END;
CREATE TRIGGER "rea""dings_rowmill_insert" INSTEAD OF INSERT ON "rea""dings" BEGIN
SELECT CASE WHEN (typeof(NEW."ts") = 'text' AND strftime('%Y-%m-%d %H:%M:%S', substr(NEW."ts", 1, 19)) = substr(NEW."ts", 1, 19) AND substr(NEW."ts", 12, 2) < '24' AND (length(NEW."ts") = 19 OR length(NEW."ts") BETWEEN 21 AND 26 AND substr(NEW."ts", 20, 1) = '.' AND substr(NEW."ts", 21) NOT GLOB '*[^0-9]*')) IS NOT 1 THEN RAISE(ABORT, 'rowmill: rea"dings.ts must be YYYY-MM-DD hh:mm:ss, with up to 6 digits of a second')
WHEN NOT ((NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-22 00:00:00')) THEN RAISE(ABORT, 'rowmill: row outside every period of rea"dings') END;
END;
CREATE TRIGGER "rea""dings_rowmill_update" INSTEAD OF UPDATE ON "rea""dings" WHEN NEW."ts" IS NOT OLD."ts" BEGIN
SELECT CASE WHEN (typeof(NEW."ts") = 'text' AND strftime('%Y-%m-%d %H:%M:%S', substr(NEW."ts", 1, 19)) = substr(NEW."ts", 1, 19) AND substr(NEW."ts", 12, 2) < '24' AND (length(NEW."ts") = 19 OR length(NEW."ts") BETWEEN 21 AND 26 AND substr(NEW."ts", 20, 1) = '.' AND substr(NEW."ts", 21) NOT GLOB '*[^0-9]*')) IS NOT 1 THEN RAISE(ABORT, 'rowmill: rea"dings.ts must be YYYY-MM-DD hh:mm:ss, with up to 6 digits of a second')
WHEN NOT ((NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-22 00:00:00')) THEN RAISE(ABORT, 'rowmill: row outside every period of rea"dings') END;
END;
COMMIT;
PRAGMA legacy_alter_table = OFF;
-- engine.Replace
PRAGMA legacy_alter_table = ON;
BEGIN IMMEDIATE;
DROP VIEW "rea""dings";
ALTER TABLE "rea""dings_p20261120" RENAME TO "out1";
DELETE FROM rowmill_periods WHERE table_name = 'rea"dings' AND name = 'p20261120';
ALTER TABLE "rea""dings_p20261121" RENAME TO "out2";
DELETE FROM rowmill_periods WHERE table_name = 'rea"dings' AND name = 'p20261121';
ALTER TABLE "in" RENAME TO "rea""dings_p20261120m";
INSERT INTO rowmill_periods (table_name, name, lower, upper) VALUES ('rea"dings', 'p20261120m', 1795132800000000, 1795305600000000);
CREATE VIEW "rea""dings" AS /* rowmill: rolls by ts */
SELECT "sensor", "ts", "value", "unit", "twice", "level" FROM "rea""dings_p20261120m"
UNION ALL SELECT "sensor", "ts", "value", "unit", "twice", "level" FROM "rea""dings_p20261122"
UNION ALL SELECT "sensor", "ts", "value", "unit", "twice", "level" FROM "rea""dings_p20261123";
CREATE TRIGGER "rea""dings_rowmill_insert_1" INSTEAD OF INSERT ON "rea""dings" WHEN NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-24 00:00:00' BEGIN
INSERT INTO "rea""dings_p20261120m" ("sensor", "ts", "value", "unit", "level") SELECT NEW."sensor", substr(NEW."ts", 1, 19) || CASE WHEN rtrim(substr(NEW."ts", 20), '.0') = '' THEN '' ELSE '.' || substr(substr(NEW."ts", 21) || '00000', 1, 6) END, NEW."value", COALESCE(NEW."unit", 'it''s C'), COALESCE(NEW."level", (1 + 2)) WHERE NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-22 00:00:00';
INSERT INTO "rea""dings_p20261122" ("sensor", "ts", "value", "unit", "level") SELECT NEW."sensor", substr(NEW."ts", 1, 19) || CASE WHEN rtrim(substr(NEW."ts", 20), '.0') = '' THEN '' ELSE '.' || substr(substr(NEW."ts", 21) || '00000', 1, 6) END, NEW."value", COALESCE(NEW."unit", 'it''s C'), COALESCE(NEW."level", (1 + 2)) WHERE NEW."ts" >= '2026-11-22 00:00:00' AND NEW."ts" < '2026-11-23 00:00:00';
INSERT INTO "rea""dings_p20261123" ("sensor", "ts", "value", "unit", "level") SELECT NEW."sensor", substr(NEW."ts", 1, 19) || CASE WHEN rtrim(substr(NEW."ts", 20), '.0') = '' THEN '' ELSE '.' || substr(substr(NEW."ts", 21) || '00000', 1, 6) END, NEW."value", COALESCE(NEW."unit", 'it''s C'), COALESCE(NEW."level", (1 + 2)) WHERE NEW."ts" >= '2026-11-23 00:00:00' AND NEW."ts" < '2026-11-24 00:00:00';
END;
CREATE TRIGGER "rea""dings_rowmill_update_1" INSTEAD OF UPDATE ON "rea""dings" WHEN OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-24 00:00:00' BEGIN
SELECT RAISE(ABORT, 'rowmill: an UPDATE can''t take a row to another period; delete it and insert it there') WHERE NEW."ts" IS NOT OLD."ts" AND NOT ((OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-22 00:00:00' AND NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-22 00:00:00') OR (OLD."ts" >= '2026-11-22 00:00:00' AND OLD."ts" < '2026-11-23 00:00:00' AND NEW."ts" >= '2026-11-22 00:00:00' AND NEW."ts" < '2026-11-23 00:00:00') OR (OLD."ts" >= '2026-11-23 00:00:00' AND OLD."ts" < '2026-11-24 00:00:00' AND NEW."ts" >= '2026-11-23 00:00:00' AND NEW."ts" < '2026-11-24 00:00:00'));
UPDATE "rea""dings_p20261120m" SET "sensor" = NEW."sensor", "ts" = CASE WHEN NEW."ts" IS OLD."ts" THEN NEW."ts" ELSE substr(NEW."ts", 1, 19) || CASE WHEN rtrim(substr(NEW."ts", 20), '.0') = '' THEN '' ELSE '.' || substr(substr(NEW."ts", 21) || '00000', 1, 6) END END, "value" = NEW."value", "unit" = NEW."unit", "level" = NEW."level" WHERE "sensor" IS OLD."sensor" AND "ts" IS OLD."ts" AND OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-22 00:00:00';
UPDATE "rea""dings_p20261122" SET "sensor" = NEW."sensor", "ts" = CASE WHEN NEW."ts" IS OLD."ts" THEN NEW."ts" ELSE substr(NEW."ts", 1, 19) || CASE WHEN rtrim(substr(NEW."ts", 20), '.0') = '' THEN '' ELSE '.' || substr(substr(NEW."ts", 21) || '00000', 1, 6) END END, "value" = NEW."value", "unit" = NEW."unit", "level" = NEW."level" WHERE "sensor" IS OLD."sensor" AND "ts" IS OLD."ts" AND OLD."ts" >= '2026-11-22 00:00:00' AND OLD."ts" < '2026-11-23 00:00:00';
UPDATE "rea""dings_p20261123" SET "sensor" = NEW."sensor", "ts" = CASE WHEN NEW."ts" IS OLD."ts" THEN NEW."ts" ELSE substr(NEW."ts", 1, 19) || CASE WHEN rtrim(substr(NEW."ts", 20), '.0') = '' THEN '' ELSE '.' || substr(substr(NEW."ts", 21) || '00000', 1, 6) END END, "value" = NEW."value", "unit" = NEW."unit", "level" = NEW."level" WHERE "sensor" IS OLD."sensor" AND "ts" IS OLD."ts" AND OLD."ts" >= '2026-11-23 00:00:00' AND OLD."ts" < '2026-11-24 00:00:00';
END;
CREATE TRIGGER "rea""dings_rowmill_delete_1" INSTEAD OF DELETE ON "rea""dings" WHEN OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-24 00:00:00' BEGIN
DELETE FROM "rea""dings_p20261120m" WHERE "sensor" IS OLD."sensor" AND "ts" IS OLD."ts" AND OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-22 00:00:00';
DELETE FROM "rea""dings_p20261122" WHERE "sensor" IS OLD."sensor" AND "ts" IS OLD."ts" AND OLD."ts" >= '2026-11-22 00:00:00' AND OLD."ts" < '2026-11-23 00:00:00';
DELETE FROM "rea""dings_p20261123" WHERE "sensor" IS OLD."sensor" AND "ts" IS OLD."ts" AND OLD."ts" >= '2026-11-23 00:00:00' AND OLD."ts" < '2026-11-24 00:00:00';
END;
CREATE TRIGGER "rea""dings_rowmill_insert" INSTEAD OF INSERT ON "rea""dings" BEGIN
SELECT CASE WHEN (typeof(NEW."ts") = 'text' AND strftime('%Y-%m-%d %H:%M:%S', substr(NEW."ts", 1, 19)) = substr(NEW."ts", 1, 19) AND substr(NEW."ts", 12, 2) < '24' AND (length(NEW."ts") = 19 OR length(NEW."ts") BETWEEN 21 AND 26 AND substr(NEW."ts", 20, 1) = '.' AND substr(NEW."ts", 21) NOT GLOB '*[^0-9]*')) IS NOT 1 THEN RAISE(ABORT, 'rowmill: rea"dings.ts must be YYYY-MM-DD hh:mm:ss, with up to 6 digits of a second')
WHEN NOT ((NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-24 00:00:00')) THEN RAISE(ABORT, 'rowmill: row outside every period of rea"dings') END;
END;
CREATE TRIGGER "rea""dings_rowmill_update" INSTEAD OF UPDATE ON "rea""dings" WHEN NEW."ts" IS NOT OLD."ts" BEGIN
SELECT CASE WHEN (typeof(NEW."ts") = 'text' AND strftime('%Y-%m-%d %H:%M:%S', substr(NEW."ts", 1, 19)) = substr(NEW."ts", 1, 19) AND substr(NEW."ts", 12, 2) < '24' AND (length(NEW."ts") = 19 OR length(NEW."ts") BETWEEN 21 AND 26 AND substr(NEW."ts", 20, 1) = '.' AND substr(NEW."ts", 21) NOT GLOB '*[^0-9]*')) IS NOT 1 THEN RAISE(ABORT, 'rowmill: rea"dings.ts must be YYYY-MM-DD hh:mm:ss, with up to 6 digits of a second')
WHEN NOT ((NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-24 00:00:00')) THEN RAISE(ABORT, 'rowmill: row outside every period of rea"dings') END;
END;
COMMIT;
PRAGMA legacy_alter_table = OFF;
-- engine.AddColumn
BEGIN IMMEDIATE;
ALTER TABLE "rea""dings_p20261120" ADD COLUMN x INTEGER NOT NULL DEFAULT -1;
DROP VIEW "rea""dings";
CREATE VIEW "rea""dings" AS /* rowmill: rolls by ts */
SELECT "sensor", "ts", "value", "unit", "twice", "level", "x" FROM "rea""dings_p20261120";
CREATE TRIGGER "rea""dings_rowmill_insert_1" INSTEAD OF INSERT ON "rea""dings" WHEN NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-21 00:00:00' BEGIN
INSERT INTO "rea""dings_p20261120" ("sensor", "ts", "value", "unit", "level", "x") SELECT NEW."sensor", substr(NEW."ts", 1, 19) || CASE WHEN rtrim(substr(NEW."ts", 20), '.0') = '' THEN '' ELSE '.' || substr(substr(NEW."ts", 21) || '00000', 1, 6) END, NEW."value", COALESCE(NEW."unit", 'it''s C'), COALESCE(NEW."level", (1 + 2)), COALESCE(NEW."x", -1) WHERE NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-21 00:00:00';
END;
CREATE TRIGGER "rea""dings_rowmill_update_1" INSTEAD OF UPDATE ON "rea""dings" WHEN OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-21 00:00:00' BEGIN
SELECT RAISE(ABORT, 'rowmill: an UPDATE can''t take a row to another period; delete it and insert it there') WHERE NEW."ts" IS NOT OLD."ts" AND NOT ((OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-21 00:00:00' AND NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-21 00:00:00'));
UPDATE "rea""dings_p20261120" SET "sensor" = NEW."sensor", "ts" = CASE WHEN NEW."ts" IS OLD."ts" THEN NEW."ts" ELSE substr(NEW."ts", 1, 19) || CASE WHEN rtrim(substr(NEW."ts", 20), '.0') = '' THEN '' ELSE '.' || substr(substr(NEW."ts", 21) || '00000', 1, 6) END END, "value" = NEW."value", "unit" = NEW."unit", "level" = NEW."level", "x" = NEW."x" WHERE "sensor" IS OLD."sensor" AND "ts" IS OLD."ts" AND OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-21 00:00:00';
END;
CREATE TRIGGER "rea""dings_rowmill_delete_1" INSTEAD OF DELETE ON "rea""dings" WHEN OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-21 00:00:00' BEGIN
DELETE FROM "rea""dings_p20261120" WHERE "sensor" IS OLD."sensor" AND "ts" IS OLD."ts" AND OLD."ts" >= '2026-11-20 00:00:00' AND OLD."ts" < '2026-11-21 00:00:00';
END;
CREATE TRIGGER "rea""dings_rowmill_insert" INSTEAD OF INSERT ON "rea""dings" BEGIN
SELECT CASE WHEN (typeof(NEW."ts") = 'text' AND strftime('%Y-%m-%d %H:%M:%S', substr(NEW."ts", 1, 19)) = substr(NEW."ts", 1, 19) AND substr(NEW."ts", 12, 2) < '24' AND (length(NEW."ts") = 19 OR length(NEW."ts") BETWEEN 21 AND 26 AND substr(NEW."ts", 20, 1) = '.' AND substr(NEW."ts", 21) NOT GLOB '*[^0-9]*')) IS NOT 1 THEN RAISE(ABORT, 'rowmill: rea"dings.ts must be YYYY-MM-DD hh:mm:ss, with up to 6 digits of a second')
WHEN NOT ((NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-21 00:00:00')) THEN RAISE(ABORT, 'rowmill: row outside every period of rea"dings') END;
END;
CREATE TRIGGER "rea""dings_rowmill_update" INSTEAD OF UPDATE ON "rea""dings" WHEN NEW."ts" IS NOT OLD."ts" BEGIN
SELECT CASE WHEN (typeof(NEW."ts") = 'text' AND strftime('%Y-%m-%d %H:%M:%S', substr(NEW."ts", 1, 19)) = substr(NEW."ts", 1, 19) AND substr(NEW."ts", 12, 2) < '24' AND (length(NEW."ts") = 19 OR length(NEW."ts") BETWEEN 21 AND 26 AND substr(NEW."ts", 20, 1) = '.' AND substr(NEW."ts", 21) NOT GLOB '*[^0-9]*')) IS NOT 1 THEN RAISE(ABORT, 'rowmill: rea"dings.ts must be YYYY-MM-DD hh:mm:ss, with up to 6 digits of a second')
WHEN NOT ((NEW."ts" >= '2026-11-20 00:00:00' AND NEW."ts" < '2026-11-21 00:00:00')) THEN RAISE(ABORT, 'rowmill: row outside every period of rea"dings') END;
END;
COMMIT;
-- engine.AddColumn
ALTER TABLE "plain" ADD COLUMN x INTEGER;
-- engine.DropTables
DROP TABLE IF EXISTS "a";
DROP TABLE IF EXISTS "b""c";
-- engine.CreateTable
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS rowmill_periods (
  table_name TEXT NOT NULL,
  name TEXT NOT NULL,
  lower INTEGER NOT NULL,
  upper INTEGER NOT NULL,
  PRIMARY KEY (table_name, name)
) WITHOUT ROWID;
CREATE TABLE "events_p0000000000000000000" (id INTEGER NOT NULL, note TEXT, PRIMARY KEY (id));
INSERT INTO rowmill_periods (table_name, name, lower, upper) VALUES ('events', 'p0000000000000000000', 0, 1000);
CREATE TABLE "events_p0000000000000001000" (id INTEGER NOT NULL, note TEXT, PRIMARY KEY (id));
INSERT INTO rowmill_periods (table_name, name, lower, upper) VALUES ('events', 'p0000000000000001000', 1000, 2000);
CREATE VIEW "events" AS /* rowmill: rolls by id */
SELECT "id", "note" FROM "events_p0000000000000000000"
UNION ALL SELECT "id", "note" FROM "events_p0000000000000001000";
CREATE TRIGGER "events_rowmill_insert_1" INSTEAD OF INSERT ON "events" WHEN NEW."id" >= 0 AND NEW."id" < 2000 BEGIN
INSERT INTO "events_p0000000000000000000" ("id", "note") SELECT NEW."id", NEW."note" WHERE NEW."id" >= 0 AND NEW."id" < 1000;
INSERT INTO "events_p0000000000000001000" ("id", "note") SELECT NEW."id", NEW."note" WHERE NEW."id" >= 1000 AND NEW."id" < 2000;
END;
CREATE TRIGGER "events_rowmill_update_1" INSTEAD OF UPDATE ON "events" WHEN OLD."id" >= 0 AND OLD."id" < 2000 BEGIN
SELECT RAISE(ABORT, 'rowmill: an UPDATE can''t take a row to another period; delete it and insert it there') WHERE NEW."id" IS NOT OLD."id" AND NOT ((OLD."id" >= 0 AND OLD."id" < 1000 AND NEW."id" >= 0 AND NEW."id" < 1000) OR (OLD."id" >= 1000 AND OLD."id" < 2000 AND NEW."id" >= 1000 AND NEW."id" < 2000));
UPDATE "events_p0000000000000000000" SET "id" = NEW."id", "note" = NEW."note" WHERE "id" IS OLD."id" AND OLD."id" >= 0 AND OLD."id" < 1000;
UPDATE "events_p0000000000000001000" SET "id" = NEW."id", "note" = NEW."note" WHERE "id" IS OLD."id" AND OLD."id" >= 1000 AND OLD."id" < 2000;
END;
CREATE TRIGGER "events_rowmill_delete_1" INSTEAD OF DELETE ON "events" WHEN OLD."id" >= 0 AND OLD."id" < 2000 BEGIN
DELETE FROM "events_p0000000000000000000" WHERE "id" IS OLD."id" AND OLD."id" >= 0 AND OLD."id" < 1000;
DELETE FROM "events_p0000000000000001000" WHERE "id" IS OLD."id" AND OLD."id" >= 1000 AND OLD."id" < 2000;
END;
CREATE TRIGGER "events_rowmill_insert" INSTEAD OF INSERT ON "events" BEGIN
SELECT CASE WHEN (typeof(NEW."id") = 'integer') IS NOT 1 THEN RAISE(ABORT, 'rowmill: events.id must be an integer')
WHEN NOT ((NEW."id" >= 0 AND NEW."id" < 2000)) THEN RAISE(ABORT, 'rowmill: row outside every period of events') END;
END;
CREATE TRIGGER "events_rowmill_update" INSTEAD OF UPDATE ON "events" WHEN NEW."id" IS NOT OLD."id" BEGIN
SELECT CASE WHEN (typeof(NEW."id") = 'integer') IS NOT 1 THEN RAISE(ABORT, 'rowmill: events.id must be an integer')
WHEN NOT ((NEW."id" >= 0 AND NEW."id" < 2000)) THEN RAISE(ABORT, 'rowmill: row outside every period of events') END;
END;
COMMIT;
-- engine.CreateTable
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS rowmill_periods (
  table_name TEXT NOT NULL,
  name TEXT NOT NULL,
  lower INTEGER NOT NULL,
  upper INTEGER NOT NULL,
  PRIMARY KEY (table_name, name)
) WITHOUT ROWID;
CREATE TABLE "hits_p20261120" (at INTEGER PRIMARY KEY, n INTEGER);
INSERT INTO rowmill_periods (table_name, name, lower, upper) VALUES ('hits', 'p20261120', 1795132800000000, 1795219200000000);
CREATE VIEW "hits" AS /* rowmill: rolls by at */
SELECT "at", "n" FROM "hits_p20261120";
CREATE TRIGGER "hits_rowmill_insert_1" INSTEAD OF INSERT ON "hits" WHEN NEW."at" >= 1795132800000 AND NEW."at" < 1795219200000 BEGIN
INSERT INTO "hits_p20261120" ("at", "n") SELECT NEW."at", NEW."n" WHERE NEW."at" >= 1795132800000 AND NEW."at" < 1795219200000;
END;
CREATE TRIGGER "hits_rowmill_update_1" INSTEAD OF UPDATE ON "hits" WHEN OLD."at" >= 1795132800000 AND OLD."at" < 1795219200000 BEGIN
SELECT RAISE(ABORT, 'rowmill: an UPDATE can''t take a row to another period; delete it and insert it there') WHERE NEW."at" IS NOT OLD."at" AND NOT ((OLD."at" >= 1795132800000 AND OLD."at" < 1795219200000 AND NEW."at" >= 1795132800000 AND NEW."at" < 1795219200000));
UPDATE "hits_p20261120" SET "at" = NEW."at", "n" = NEW."n" WHERE "at" IS OLD."at" AND OLD."at" >= 1795132800000 AND OLD."at" < 1795219200000;
END;
CREATE TRIGGER "hits_rowmill_delete_1" INSTEAD OF DELETE ON "hits" WHEN OLD."at" >= 1795132800000 AND OLD."at" < 1795219200000 BEGIN
DELETE FROM "hits_p20261120" WHERE "at" IS OLD."at" AND OLD."at" >= 1795132800000 AND OLD."at" < 1795219200000;
END;
CREATE TRIGGER "hits_rowmill_insert" INSTEAD OF INSERT ON "hits" BEGIN
SELECT CASE WHEN (typeof(NEW."at") = 'integer') IS NOT 1 THEN RAISE(ABORT, 'rowmill: hits.at must be an integer')
WHEN NOT ((NEW."at" >= 1795132800000 AND NEW."at" < 1795219200000)) THEN RAISE(ABORT, 'rowmill: row outside every period of hits') END;
END;
CREATE TRIGGER "hits_rowmill_update" INSTEAD OF UPDATE ON "hits" WHEN NEW."at" IS NOT OLD."at" BEGIN
SELECT CASE WHEN (typeof(NEW."at") = 'integer') IS NOT 1 THEN RAISE(ABORT, 'rowmill: hits.at must be an integer')
WHEN NOT ((NEW."at" >= 1795132800000 AND NEW."at" < 1795219200000)) THEN RAISE(ABORT, 'rowmill: row outside every period of hits') END;
END;
COMMIT;
