-- engine.Connect
PRAGMA x = 1;
-- engine.CreatePartitions
-- engine.Measure
PRAGMA wal_checkpoint(PASSIVE);
SELECT type, name, tbl_name, rootpage FROM sqlite_schema WHERE rootpage > 0 AND tbl_name IN (SELECT table_name || '_' || name FROM rowmill_periods WHERE table_name = 'ord"ers');
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
SELECT "id", "at", "register", "price", "weight", "it's", "code", "total" FROM "ord""ers" WHERE "price" >= ?1 LIMIT 5;
-- engine.Delete
BEGIN IMMEDIATE;
DELETE FROM "ord""ers_PERIOD" WHERE "at" >= ?1 AND "at" < ?2;
COMMIT;
-- engine.CreateIndexes
BEGIN IMMEDIATE;
CREATE INDEX "ord""ers_p0000000000000000000_market" ON "ord""ers_p0000000000000000000" ("price", "register");
CREATE INDEX "ord""ers_p0000000000000001000_market" ON "ord""ers_p0000000000000001000" ("price", "register");
CREATE INDEX "ord""ers_p0000000000000002000_market" ON "ord""ers_p0000000000000002000" ("price", "register");
COMMIT;
-- engine.Settle
PRAGMA wal_checkpoint(TRUNCATE);
