-- engine.Connect
PRAGMA x = 1;
-- engine.CreateTable
BEGIN IMMEDIATE;
CREATE TABLE "ord""ers" (
  "id" INTEGER PRIMARY KEY,
  "at" DATETIME NOT NULL,
  "register" INTEGER,
  "price" REAL NOT NULL,
  "weight" REAL DEFAULT 0 NOT NULL,
  "it's" VARCHAR(40),
  "code" CHAR(4) NOT NULL,
  "total" TEXT NOT NULL
);
CREATE INDEX "ord""ers_market" ON "ord""ers" ("price", "register");
COMMIT;
-- engine.Inspect
SELECT 1 FROM sqlite_schema WHERE name = 'ord"ers' AND type IN ('table', 'view');
SELECT name, lower, upper FROM rowmill_periods WHERE table_name = 'ord"ers' ORDER BY lower;
-- engine.Select
SELECT "id", CAST("at" AS TEXT), "register", "price", "weight", "it's", "code", "total" FROM "ord""ers";
-- engine.Measure
PRAGMA wal_checkpoint(PASSIVE);
SELECT type, name, tbl_name, rootpage FROM sqlite_schema WHERE rootpage > 0 AND tbl_name = 'ord"ers';
-- engine.Sample
-- engine.DropTable
DROP TABLE IF EXISTS "ord""ers";
-- engine.CreateTable
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS rowmill_periods (
  table_name TEXT NOT NULL,
  name TEXT NOT NULL,
  lower INTEGER NOT NULL,
  upper INTEGER NOT NULL,
  PRIMARY KEY (table_name, name)
) WITHOUT ROWID;
CREATE TABLE "ord""ers_p20261120_18" (
  "id" INTEGER NOT NULL,
  "at" DATETIME NOT NULL,
  "register" INTEGER,
  "price" REAL NOT NULL,
  "weight" REAL DEFAULT 0 NOT NULL,
  "it's" VARCHAR(40),
  "code" CHAR(4) NOT NULL,
  "total" TEXT NOT NULL,
  PRIMARY KEY ("id", "at")
) WITHOUT ROWID;
CREATE INDEX "ord""ers_p20261120_18_market" ON "ord""ers_p20261120_18" ("price", "register");
INSERT INTO rowmill_periods (table_name, name, lower, upper) VALUES ('ord"ers', 'p20261120_18', 1795197600000000, 1795204800000000);
CREATE VIEW "ord""ers" AS
SELECT "id", "at", "register", "price", "weight", "it's", "code", "total" FROM "ord""ers_p20261120_18";
COMMIT;
-- engine.CreatePartitions
-- engine.CreatePartitions
BEGIN IMMEDIATE;
CREATE TABLE "ord""ers_p20261120_20" (
  "id" INTEGER NOT NULL,
  "at" DATETIME NOT NULL,
  "register" INTEGER,
  "price" REAL NOT NULL,
  "weight" REAL DEFAULT 0 NOT NULL,
  "it's" VARCHAR(40),
  "code" CHAR(4) NOT NULL,
  "total" TEXT NOT NULL,
  PRIMARY KEY ("id", "at")
) WITHOUT ROWID;
CREATE INDEX "ord""ers_p20261120_20_market" ON "ord""ers_p20261120_20" ("price", "register");
INSERT INTO rowmill_periods (table_name, name, lower, upper) VALUES ('ord"ers', 'p20261120_20', 1795204800000000, 1795212000000000);
CREATE TABLE "ord""ers_p20261120_22" (
  "id" INTEGER NOT NULL,
  "at" DATETIME NOT NULL,
  "register" INTEGER,
  "price" REAL NOT NULL,
  "weight" REAL DEFAULT 0 NOT NULL,
  "it's" VARCHAR(40),
  "code" CHAR(4) NOT NULL,
  "total" TEXT NOT NULL,
  PRIMARY KEY ("id", "at")
) WITHOUT ROWID;
CREATE INDEX "ord""ers_p20261120_22_market" ON "ord""ers_p20261120_22" ("price", "register");
INSERT INTO rowmill_periods (table_name, name, lower, upper) VALUES ('ord"ers', 'p20261120_22', 1795212000000000, 1795219200000000);
DROP VIEW "ord""ers";
CREATE VIEW "ord""ers" AS
SELECT "id", "at", "register", "price", "weight", "it's", "code", "total" FROM "ord""ers_p20261120_18"
UNION ALL SELECT "id", "at", "register", "price", "weight", "it's", "code", "total" FROM "ord""ers_p20261120_20"
UNION ALL SELECT "id", "at", "register", "price", "weight", "it's", "code", "total" FROM "ord""ers_p20261120_22";
COMMIT;
-- engine.DropPartition
BEGIN IMMEDIATE;
DROP VIEW "ord""ers";
DROP TABLE IF EXISTS "ord""ers_p20261120_18";
DELETE FROM rowmill_periods WHERE table_name = 'ord"ers' AND name = 'p20261120_18';
CREATE VIEW "ord""ers" AS
SELECT "id", "at", "register", "price", "weight", "it's", "code", "total" FROM "ord""ers_p20261120_20"
UNION ALL SELECT "id", "at", "register", "price", "weight", "it's", "code", "total" FROM "ord""ers_p20261120_22";
COMMIT;
-- engine.Select
SELECT "id", CAST("at" AS TEXT), "register", "price", "weight", "it's", "code", "total" FROM "ord""ers_p20261120_20";
-- engine.Measure
PRAGMA wal_checkpoint(PASSIVE);
SELECT type, name, tbl_name, rootpage FROM sqlite_schema WHERE rootpage > 0 AND tbl_name IN (SELECT table_name || '_' || name FROM rowmill_periods WHERE table_name = 'ord"ers');
-- engine.DropTable
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS rowmill_periods (
  table_name TEXT NOT NULL,
  name TEXT NOT NULL,
  lower INTEGER NOT NULL,
  upper INTEGER NOT NULL,
  PRIMARY KEY (table_name, name)
) WITHOUT ROWID;
DROP VIEW IF EXISTS "ord""ers";
DROP TABLE IF EXISTS "ord""ers_p20261120_18";
DELETE FROM rowmill_periods WHERE table_name = 'ord"ers' AND name = 'p20261120_18';
DROP TABLE IF EXISTS "ord""ers_p20261120_20";
DELETE FROM rowmill_periods WHERE table_name = 'ord"ers' AND name = 'p20261120_20';
DROP TABLE IF EXISTS "ord""ers_p20261120_22";
DELETE FROM rowmill_periods WHERE table_name = 'ord"ers' AND name = 'p20261120_22';
COMMIT;
-- engine.Insert
BEGIN IMMEDIATE;
INSERT INTO "ord""ers" ("id", "at", "register", "price", "weight", "it's", "code", "total") VALUES (?, ?, ?, ?, ?, ?, ?, ?);
COMMIT;
-- engine.Insert
INSERT INTO "ord""ers" ("id", "at", "register", "price", "weight", "it's", "code", "total") VALUES (1, '2026-11-20 18:00:00', NULL, 0.10000000149011612, 1e+21, 'it''s \ 😀', CAST(X'610062' AS TEXT), '12.50'),(2, '2026-11-20 18:00:00', 7, 0.10000000149011612, 1e+21, NULL, CAST(X'610062' AS TEXT), '12.50');
-- engine.Insert
BEGIN IMMEDIATE;
INSERT INTO "ord""ers" ("id", "at", "register", "price", "weight", "it's", "code", "total") VALUES (1, '2026-11-20 18:00:00', NULL, 0.10000000149011612, 1e+21, 'it''s \ 😀', CAST(X'610062' AS TEXT), '12.50');
INSERT INTO "ord""ers" ("id", "at", "register", "price", "weight", "it's", "code", "total") VALUES (2, '2026-11-20 18:00:00', 7, 0.10000000149011612, 1e+21, NULL, CAST(X'610062' AS TEXT), '12.50');
COMMIT;
-- engine.Insert
BEGIN IMMEDIATE;
INSERT INTO "ord""ers_PERIOD" ("id", "at", "register", "price", "weight", "it's", "code", "total") VALUES (1, '2026-11-20 18:00:00', NULL, 0.10000000149011612, 1e+21, 'it''s \ 😀', CAST(X'610062' AS TEXT), '12.50'),(2, '2026-11-20 18:00:00', 7, 0.10000000149011612, 1e+21, NULL, CAST(X'610062' AS TEXT), '12.50');
COMMIT;
-- engine.Settle
PRAGMA wal_checkpoint(TRUNCATE);
-- engine.Find
SELECT "id", "at", "register", "price", "weight", "it's", "code", "total" FROM "ord""ers" WHERE "id" = ?1;
-- engine.Find
SELECT "id", "at", "register", "price", "weight", "it's", "code", "total" FROM "ord""ers" WHERE "id" IN (?1, ?2, ?3);
-- engine.Find
SELECT "id", "price" FROM "ord""ers" WHERE "id" >= ?1 ORDER BY "id" LIMIT 10;
-- engine.Find
SELECT "id", "at", "register", "price", "weight", "it's", "code", "total" FROM "ord""ers" INDEXED BY "ord""ers_market" WHERE "price" > ?1 ORDER BY "price", "register" LIMIT 10;
-- engine.Find
SELECT "id", "at", "register", "price", "weight", "it's", "code", "total" FROM "ord""ers" INDEXED BY "ord""ers_market" WHERE "price" = ?1 AND "register" = ?2;
-- engine.Find
SELECT "id", "at", "register", "price", "weight", "it's", "code", "total" FROM "ord""ers" INDEXED BY "ord""ers_market" WHERE "price" >= ?1;
-- engine.Find
SELECT "price", "register" FROM "ord""ers" INDEXED BY "ord""ers_market" WHERE "price" >= ?1 AND (("price" = ?1 AND "register" >= ?2) OR "price" > ?1) ORDER BY "price", "register" LIMIT 10;
-- engine.Find
SELECT "price", "register" FROM "ord""ers" WHERE "price" >= ?1 AND (("price" = ?1 AND "at" = ?2 AND "register" >= ?3) OR ("price" = ?1 AND "at" > ?2) OR "price" > ?1);
-- engine.Delete
BEGIN IMMEDIATE;
DELETE FROM "ord""ers" WHERE "id" >= ?1 AND "id" < ?2;
COMMIT;
-- engine.CreateIndexes
BEGIN IMMEDIATE;
CREATE INDEX "ord""ers_market" ON "ord""ers" ("price", "register");
COMMIT;
-- engine.Find
SELECT "id", "at", "register", "price", "weight", "it's", "code", "total" FROM "ord""ers" WHERE "price" >= ?1;
-- engine.Delete
BEGIN IMMEDIATE;
DELETE FROM "ord""ers_PERIOD" WHERE "at" >= ?1 AND "at" < ?2;
COMMIT;
-- engine.CreateIndexes
BEGIN IMMEDIATE;
CREATE INDEX "ord""ers_p20261120_18_market" ON "ord""ers_p20261120_18" ("price", "register");
CREATE INDEX "ord""ers_p20261120_20_market" ON "ord""ers_p20261120_20" ("price", "register");
CREATE INDEX "ord""ers_p20261120_22_market" ON "ord""ers_p20261120_22" ("price", "register");
COMMIT;
