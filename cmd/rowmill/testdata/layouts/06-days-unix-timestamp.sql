-- layout: by day, UNIX_TIMESTAMP of a TIMESTAMP
-- server: mysql
-- says: time   = "at"; every = "1d"
CREATE TABLE events (id BIGINT NOT NULL, at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, note VARCHAR(40), PRIMARY KEY (id, at))
PARTITION BY RANGE (UNIX_TIMESTAMP(at)) (
  PARTITION p_2 VALUES LESS THAN ({{unix -1}}), PARTITION p_1 VALUES LESS THAN ({{unix 0}}), PARTITION p_0 VALUES LESS THAN ({{unix 1}}), PARTITION n1 VALUES LESS THAN ({{unix 2}}))

INSERT INTO events (id, at) VALUES (1, FROM_UNIXTIME({{unix -1}})), (2, FROM_UNIXTIME({{unix 0}}))
