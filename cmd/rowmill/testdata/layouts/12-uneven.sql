-- layout: uneven: a year, months, then weeks and days, TO_SECONDS of a DATETIME
-- server: mysql
-- says: time   = "at"; every = "1d"
CREATE TABLE events (id BIGINT NOT NULL, at DATETIME NOT NULL, PRIMARY KEY (id, at))
PARTITION BY RANGE (TO_SECONDS(at)) (
  PARTITION y VALUES LESS THAN (TO_SECONDS('{{month -3}}')), PARTITION m VALUES LESS THAN (TO_SECONDS('{{month -1}}')), PARTITION w VALUES LESS THAN (TO_SECONDS('{{date -1}}')),
  PARTITION d1 VALUES LESS THAN (TO_SECONDS('{{date 0}}')), PARTITION d2 VALUES LESS THAN (TO_SECONDS('{{date 1}}')))

INSERT INTO events VALUES (1, '{{month -4}}'), (2, '{{date 0}}')
