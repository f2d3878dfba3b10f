-- engine.CreateTable
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS rowmill_periods (
  table_name TEXT NOT NULL,
  name TEXT NOT NULL,
  lower INTEGER NOT NULL,
  upper INTEGER NOT NULL,
  PRIMARY KEY (table_name, name)
) WITHOUT ROWID;
CREATE TABLE "ord""ers_p0000000000000000000" (
  "id" INTEGER PRIMARY KEY,
  "at" DATETIME NOT NULL,
  "register" INTEGER,
  "price" REAL NOT NULL,
  "weight" REAL DEFAULT 0 NOT NULL,
  "it's" VARCHAR(40),
  "code" CHAR(4) NOT NULL,
  "total" TEXT NOT NULL
);
CREATE INDEX "ord""ers_p0000000000000000000_market" ON "ord""ers_p0000000000000000000" ("price", "register");
INSERT INTO rowmill_periods (table_name, name, lower, upper) VALUES ('ord"ers', 'p0000000000000000000', 0, 1000);
CREATE TABLE "ord""ers_p0000000000000001000" (
  "id" INTEGER PRIMARY KEY,
  "at" DATETIME NOT NULL,
  "register" INTEGER,
  "price" REAL NOT NULL,
  "weight" REAL DEFAULT 0 NOT NULL,
  "it's" VARCHAR(40),
  "code" CHAR(4) NOT NULL,
  "total" TEXT NOT NULL
);
CREATE INDEX "ord""ers_p0000000000000001000_market" ON "ord""ers_p0000000000000001000" ("price", "register");
INSERT INTO rowmill_periods (table_name, name, lower, upper) VALUES ('ord"ers', 'p0000000000000001000', 1000, 2000);
CREATE VIEW "ord""ers" AS
SELECT "id", "at", "register", "price", "weight", "it's", "code", "total" FROM "ord""ers_p0000000000000000000"
UNION ALL SELECT "id", "at", "register", "price", "weight", "it's", "code", "total" FROM "ord""ers_p0000000000000001000";
COMMIT;
-- engine.CreatePartitions
BEGIN IMMEDIATE;
CREATE TABLE "ord""ers_p0000000000000002000" (
  "id" INTEGER PRIMARY KEY,
  "at" DATETIME NOT NULL,
  "register" INTEGER,
  "price" REAL NOT NULL,
  "weight" REAL DEFAULT 0 NOT NULL,
  "it's" VARCHAR(40),
  "code" CHAR(4) NOT NULL,
  "total" TEXT NOT NULL
);
CREATE INDEX "ord""ers_p0000000000000002000_market" ON "ord""ers_p0000000000000002000" ("price", "register");
INSERT INTO rowmill_periods (table_name, name, lower, upper) VALUES ('ord"ers', 'p0000000000000002000', 2000, 3000);
DROP VIEW "ord""ers";
CREATE VIEW "ord""ers" AS
SELECT "id", "at", "register", "price", "weight", "it's", "code", "total" FROM "ord""ers_p0000000000000000000"
UNION ALL SELECT "id", "at", "register", "price", "weight", "it's", "code", "total" FROM "ord""ers_p0000000000000001000"
UNION ALL SELECT "id", "at", "register", "price", "weight", "it's", "code", "total" FROM "ord""ers_p0000000000000002000";
COMMIT;
-- engine.DropPartition
BEGIN IMMEDIATE;
DROP VIEW "ord""ers";
DROP TABLE IF EXISTS "ord""ers_p0000000000000000000";
DELETE FROM rowmill_periods WHERE table_name = 'ord"ers' AND name = 'p0000000000000000000';
CREATE VIEW "ord""ers" AS
SELECT "id", "at", "register", "price", "weight", "it's", "code", "total" FROM "ord""ers_p0000000000000001000"
UNION ALL SELECT "id", "at", "register", "price", "weight", "it's", "code", "total" FROM "ord""ers_p0000000000000002000";
COMMIT;
-- engine.Select
SELECT "id", CAST("at" AS TEXT), "register", "price", "weight", "it's", "code", "total" FROM "ord""ers_p0000000000000001000";
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
DROP TABLE IF EXISTS "ord""ers_p0000000000000000000";
DELETE FROM rowmill_periods WHERE table_name = 'ord"ers' AND name = 'p0000000000000000000';
DROP TABLE IF EXISTS "ord""ers_p0000000000000001000";
DELETE FROM rowmill_periods WHERE table_name = 'ord"ers' AND name = 'p0000000000000001000';
DROP TABLE IF EXISTS "ord""ers_p0000000000000002000";
DELETE FROM rowmill_periods WHERE table_name = 'ord"ers' AND name = 'p0000000000000002000';
COMMIT;
