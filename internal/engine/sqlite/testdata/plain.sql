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
