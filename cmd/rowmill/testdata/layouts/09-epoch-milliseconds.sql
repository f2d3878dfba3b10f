-- layout: by day, an integer of milliseconds since 1970
-- server: mysql
-- says: time   = "created_ms"; epoch  = "ms"; every = "1d"
CREATE TABLE events (id BIGINT NOT NULL, created_ms BIGINT NOT NULL, PRIMARY KEY (id, created_ms))
PARTITION BY RANGE (created_ms) (
  PARTITION p_1 VALUES LESS THAN ({{unix 0}}000), PARTITION p_0 VALUES LESS THAN ({{unix 1}}000), PARTITION n1 VALUES LESS THAN ({{unix 2}}000))

INSERT INTO events VALUES (1, {{unix -1}}000), (2, {{unix 0}}001)
