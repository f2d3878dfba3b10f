-- layout plain on sqlite

-- each connection
PRAGMA busy_timeout = 10000;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA cache_size = -2000;

-- the connection that changes tables
PRAGMA busy_timeout = 10000;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA cache_size = -2000;

-- look for the table and its periods
SELECT 1 FROM sqlite_schema WHERE name = 'purchases' AND type IN ('table', 'view');
SELECT name, lower, upper FROM rowmill_periods WHERE table_name = 'purchases' ORDER BY lower;

-- create the table
BEGIN IMMEDIATE;
CREATE TABLE "purchases" (
  "transactionid" INTEGER PRIMARY KEY,
  "dateandtime" DATETIME NOT NULL,
  "cashregisterid" INTEGER NOT NULL,
  "customerid" INTEGER NOT NULL,
  "productid" INTEGER NOT NULL,
  "price" REAL NOT NULL
);
CREATE INDEX "purchases_marketsegment" ON "purchases" ("price", "customerid");
CREATE INDEX "purchases_registersegment" ON "purchases" ("cashregisterid", "price", "customerid");
CREATE INDEX "purchases_pdc" ON "purchases" ("price", "dateandtime", "customerid");
COMMIT;

-- insert a batch of 1000 rows in one transaction; its first 2 are shown
BEGIN IMMEDIATE;
INSERT INTO "purchases" ("transactionid", "dateandtime", "cashregisterid", "customerid", "productid", "price") VALUES (?, ?, ?, ?, ?, ?);
COMMIT;

-- verify every row at the end
SELECT "transactionid", CAST("dateandtime" AS TEXT), "cashregisterid", "customerid", "productid", "price" FROM "purchases";

-- measure the table at the end
PRAGMA wal_checkpoint(PASSIVE);
SELECT type, name, tbl_name, rootpage FROM sqlite_schema WHERE rootpage > 0 AND tbl_name = 'purchases';

-- layout rolling on sqlite

-- each connection
PRAGMA busy_timeout = 10000;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA cache_size = -2000;

-- the connection that changes tables
PRAGMA busy_timeout = 10000;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA cache_size = -2000;

-- measure bytes per row on a sample, to find the period
DROP TABLE IF EXISTS "rowmill_sample_purchases";
BEGIN IMMEDIATE;
CREATE TABLE "rowmill_sample_purchases" (
  "transactionid" INTEGER PRIMARY KEY,
  "dateandtime" DATETIME NOT NULL,
  "cashregisterid" INTEGER NOT NULL,
  "customerid" INTEGER NOT NULL,
  "productid" INTEGER NOT NULL,
  "price" REAL NOT NULL
);
CREATE INDEX "rowmill_sample_purchases_marketsegment" ON "rowmill_sample_purchases" ("price", "customerid");
CREATE INDEX "rowmill_sample_purchases_registersegment" ON "rowmill_sample_purchases" ("cashregisterid", "price", "customerid");
CREATE INDEX "rowmill_sample_purchases_pdc" ON "rowmill_sample_purchases" ("price", "dateandtime", "customerid");
COMMIT;

-- load the sample; its first 2 are shown
BEGIN IMMEDIATE;
INSERT INTO "rowmill_sample_purchases" ("transactionid", "dateandtime", "cashregisterid", "customerid", "productid", "price") VALUES (?, ?, ?, ?, ?, ?);
COMMIT;

-- measure bytes per row on a sample, to find the period
PRAGMA wal_checkpoint(PASSIVE);
SELECT type, name, tbl_name, rootpage FROM sqlite_schema WHERE rootpage > 0 AND tbl_name = 'rowmill_sample_purchases';
DROP TABLE IF EXISTS "rowmill_sample_purchases";

-- look for the table and its periods
SELECT 1 FROM sqlite_schema WHERE name = 'purchases' AND type IN ('table', 'view');
SELECT name, lower, upper FROM rowmill_periods WHERE table_name = 'purchases' ORDER BY lower;

-- create the table
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS rowmill_periods (
  table_name TEXT NOT NULL,
  name TEXT NOT NULL,
  lower INTEGER NOT NULL,
  upper INTEGER NOT NULL,
  PRIMARY KEY (table_name, name)
) WITHOUT ROWID;
CREATE TABLE "purchases_p0000000000000000000" (
  "transactionid" INTEGER PRIMARY KEY,
  "dateandtime" DATETIME NOT NULL,
  "cashregisterid" INTEGER NOT NULL,
  "customerid" INTEGER NOT NULL,
  "productid" INTEGER NOT NULL,
  "price" REAL NOT NULL
);
CREATE INDEX "purchases_p0000000000000000000_marketsegment" ON "purchases_p0000000000000000000" ("price", "customerid");
CREATE INDEX "purchases_p0000000000000000000_registersegment" ON "purchases_p0000000000000000000" ("cashregisterid", "price", "customerid");
CREATE INDEX "purchases_p0000000000000000000_pdc" ON "purchases_p0000000000000000000" ("price", "dateandtime", "customerid");
INSERT INTO rowmill_periods (table_name, name, lower, upper) VALUES ('purchases', 'p0000000000000000000', 0, 100000);
CREATE TABLE "purchases_p0000000000000100000" (
  "transactionid" INTEGER PRIMARY KEY,
  "dateandtime" DATETIME NOT NULL,
  "cashregisterid" INTEGER NOT NULL,
  "customerid" INTEGER NOT NULL,
  "productid" INTEGER NOT NULL,
  "price" REAL NOT NULL
);
CREATE INDEX "purchases_p0000000000000100000_marketsegment" ON "purchases_p0000000000000100000" ("price", "customerid");
CREATE INDEX "purchases_p0000000000000100000_registersegment" ON "purchases_p0000000000000100000" ("cashregisterid", "price", "customerid");
CREATE INDEX "purchases_p0000000000000100000_pdc" ON "purchases_p0000000000000100000" ("price", "dateandtime", "customerid");
INSERT INTO rowmill_periods (table_name, name, lower, upper) VALUES ('purchases', 'p0000000000000100000', 100000, 200000);
CREATE TABLE "purchases_p0000000000000200000" (
  "transactionid" INTEGER PRIMARY KEY,
  "dateandtime" DATETIME NOT NULL,
  "cashregisterid" INTEGER NOT NULL,
  "customerid" INTEGER NOT NULL,
  "productid" INTEGER NOT NULL,
  "price" REAL NOT NULL
);
CREATE INDEX "purchases_p0000000000000200000_marketsegment" ON "purchases_p0000000000000200000" ("price", "customerid");
CREATE INDEX "purchases_p0000000000000200000_registersegment" ON "purchases_p0000000000000200000" ("cashregisterid", "price", "customerid");
CREATE INDEX "purchases_p0000000000000200000_pdc" ON "purchases_p0000000000000200000" ("price", "dateandtime", "customerid");
INSERT INTO rowmill_periods (table_name, name, lower, upper) VALUES ('purchases', 'p0000000000000200000', 200000, 300000);
CREATE VIEW "purchases" AS
SELECT "transactionid", "dateandtime", "cashregisterid", "customerid", "productid", "price" FROM "purchases_p0000000000000000000"
UNION ALL SELECT "transactionid", "dateandtime", "cashregisterid", "customerid", "productid", "price" FROM "purchases_p0000000000000100000"
UNION ALL SELECT "transactionid", "dateandtime", "cashregisterid", "customerid", "productid", "price" FROM "purchases_p0000000000000200000";
COMMIT;

-- insert a batch of 1000 rows in one transaction; its first 2 are shown
BEGIN IMMEDIATE;
INSERT INTO "purchases_PERIOD" ("transactionid", "dateandtime", "cashregisterid", "customerid", "productid", "price") VALUES (?, ?, ?, ?, ?, ?);
COMMIT;

-- create periods ahead, while inserts run
BEGIN IMMEDIATE;
CREATE TABLE "purchases_p0000000000000300000" (
  "transactionid" INTEGER PRIMARY KEY,
  "dateandtime" DATETIME NOT NULL,
  "cashregisterid" INTEGER NOT NULL,
  "customerid" INTEGER NOT NULL,
  "productid" INTEGER NOT NULL,
  "price" REAL NOT NULL
);
CREATE INDEX "purchases_p0000000000000300000_marketsegment" ON "purchases_p0000000000000300000" ("price", "customerid");
CREATE INDEX "purchases_p0000000000000300000_registersegment" ON "purchases_p0000000000000300000" ("cashregisterid", "price", "customerid");
CREATE INDEX "purchases_p0000000000000300000_pdc" ON "purchases_p0000000000000300000" ("price", "dateandtime", "customerid");
INSERT INTO rowmill_periods (table_name, name, lower, upper) VALUES ('purchases', 'p0000000000000300000', 300000, 400000);
DROP VIEW "purchases";
CREATE VIEW "purchases" AS
SELECT "transactionid", "dateandtime", "cashregisterid", "customerid", "productid", "price" FROM "purchases_p0000000000000000000"
UNION ALL SELECT "transactionid", "dateandtime", "cashregisterid", "customerid", "productid", "price" FROM "purchases_p0000000000000100000"
UNION ALL SELECT "transactionid", "dateandtime", "cashregisterid", "customerid", "productid", "price" FROM "purchases_p0000000000000200000"
UNION ALL SELECT "transactionid", "dateandtime", "cashregisterid", "customerid", "productid", "price" FROM "purchases_p0000000000000300000";
COMMIT;

-- drop the oldest period, while inserts run
BEGIN IMMEDIATE;
DROP VIEW "purchases";
DROP TABLE IF EXISTS "purchases_p0000000000000000000";
DELETE FROM rowmill_periods WHERE table_name = 'purchases' AND name = 'p0000000000000000000';
CREATE VIEW "purchases" AS
SELECT "transactionid", "dateandtime", "cashregisterid", "customerid", "productid", "price" FROM "purchases_p0000000000000100000"
UNION ALL SELECT "transactionid", "dateandtime", "cashregisterid", "customerid", "productid", "price" FROM "purchases_p0000000000000200000";
COMMIT;

-- verify every row at the end
SELECT "transactionid", CAST("dateandtime" AS TEXT), "cashregisterid", "customerid", "productid", "price" FROM "purchases_p0000000000000000000";

-- measure the table at the end
PRAGMA wal_checkpoint(PASSIVE);
SELECT type, name, tbl_name, rootpage FROM sqlite_schema WHERE rootpage > 0 AND tbl_name IN (SELECT table_name || '_' || name FROM rowmill_periods WHERE table_name = 'purchases');

