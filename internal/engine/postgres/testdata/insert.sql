-- engine.Insert
INSERT INTO "purchases" ("id", "at", "register", "price", "weight", "note's ""name""", "code", "total") VALUES (1,'2026-11-20 18:00:00',NULL,'0.1','1e+21','it''s \ 	😀','ab','12.50'),(2,'2026-11-20 18:00:00',7,'0.1','1e+21',NULL,'ab','12.50');
-- engine.Insert
BEGIN;
INSERT INTO "purchases" ("id", "at", "register", "price", "weight", "note's ""name""", "code", "total") VALUES (1,'2026-11-20 18:00:00',NULL,'0.1','1e+21','it''s \ 	😀','ab','12.50');
INSERT INTO "purchases" ("id", "at", "register", "price", "weight", "note's ""name""", "code", "total") VALUES (2,'2026-11-20 18:00:00',7,'0.1','1e+21',NULL,'ab','12.50');
COMMIT;
-- engine.Insert
INSERT INTO "purchases" ("id", "at", "register", "price", "weight", "note's ""name""", "code", "total") VALUES ($1,$2,$3,$4,$5,$6,$7,$8),($9,$10,$11,$12,$13,$14,$15,$16);
-- engine.Insert
INSERT INTO "purchases" ("id", "at", "register", "price", "weight", "note's ""name""", "code", "total") VALUES ($1,$2,$3,$4,$5,$6,$7,$8);
-- engine.Insert
COPY "purchases" ("id", "at", "register", "price", "weight", "note's ""name""", "code", "total") FROM STDIN (FORMAT binary);
-- engine.Insert
INSERT INTO "purchases" ("at", "register", "price", "weight", "note's ""name""", "code", "total") VALUES ('2026-11-20 18:00:00',NULL,'0.1','1e+21','it''s \ 	😀','ab','12.50'),('2026-11-20 18:00:00',7,'0.1','1e+21',NULL,'ab','12.50');
-- engine.Insert
INSERT INTO "purchases" ("at", "register", "price", "weight", "note's ""name""", "code", "total") VALUES ($1,$2,$3,$4,$5,$6,$7),($8,$9,$10,$11,$12,$13,$14);
-- engine.Insert
COPY "purchases" ("at", "register", "price", "weight", "note's ""name""", "code", "total") FROM STDIN (FORMAT binary);
