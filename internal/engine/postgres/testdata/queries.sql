-- engine.Find
SELECT "id", "at", "register", "price", "weight", "note's ""name""", "code", "total" FROM "purchases" WHERE "id" = $1;
-- engine.Find
SELECT "id", "at", "register", "price", "weight", "note's ""name""", "code", "total" FROM "purchases" WHERE "id" IN ($1, $2, $3);
-- engine.Find
SELECT "id", "price" FROM "purchases" WHERE "id" >= $1 ORDER BY "id" LIMIT 10;
-- engine.Find
SELECT "id", "at", "register", "price", "weight", "note's ""name""", "code", "total" FROM "purchases" WHERE "price" > $1 ORDER BY "price", "register" LIMIT 10;
-- engine.Find
SELECT "id", "at", "register", "price", "weight", "note's ""name""", "code", "total" FROM "purchases" WHERE "price" = $1 AND "register" = $2;
-- engine.Find
SELECT "id", "at", "register", "price", "weight", "note's ""name""", "code", "total" FROM "purchases" WHERE "price" >= $1;
-- engine.Find
SELECT "price", "register" FROM "purchases" WHERE "price" >= $1 AND (("price" = $1 AND "register" >= $2) OR "price" > $1) ORDER BY "price", "register" LIMIT 10;
-- engine.Find
SELECT "price", "register" FROM "purchases" WHERE "price" >= $1 AND (("price" = $1 AND "at" = $2 AND "register" >= $3) OR ("price" = $1 AND "at" > $2) OR "price" > $1);
-- engine.Delete
DELETE FROM "purchases" WHERE "id" >= $1 AND "id" < $2;
-- engine.CreateIndexes
CREATE INDEX "purchases_market_idx" ON "purchases" ("price", "register");
CREATE INDEX "purchases_a""b_idx" ON "purchases" ("note's ""name""");
-- engine.Find
SELECT "id", "at", "register", "price", "weight", "note's ""name""", "code", "total" FROM "purchases" WHERE "price" >= $1 LIMIT 5;
-- engine.Delete
DELETE FROM "purchases" WHERE "at" >= $1 AND "at" < $2;
-- engine.CreateIndexes
CREATE INDEX "purchases_market_idx" ON "purchases" ("price", "register");
CREATE INDEX "purchases_a""b_idx" ON "purchases" ("note's ""name""");
-- engine.Settle
VACUUM (ANALYZE) "purchases";
VACUUM (ANALYZE) "purchases";
CHECKPOINT;
