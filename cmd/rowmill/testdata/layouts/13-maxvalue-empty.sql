-- layout: by day, and a MAXVALUE tail without rows
-- server: mysql
-- says: time   = "at"; every = "1d"
-- plan: REORGANIZE PARTITION `pmax`
CREATE TABLE events (id BIGINT NOT NULL, at DATETIME NOT NULL, PRIMARY KEY (id, at))
PARTITION BY RANGE (TO_DAYS(at)) (PARTITION p_1 VALUES LESS THAN (TO_DAYS('{{date 0}}')), PARTITION p_0 VALUES LESS THAN (TO_DAYS('{{date 1}}')), PARTITION pmax VALUES LESS THAN MAXVALUE)

INSERT INTO events VALUES (1, '{{date -1}}'), (2, '{{date 0}}')
