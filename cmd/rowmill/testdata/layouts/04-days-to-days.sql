-- layout: by day, TO_DAYS of a DATETIME, and a first partition of what has no date
-- server: mysql
-- says: time   = "at"; every = "1d"
CREATE TABLE events (id BIGINT NOT NULL, at DATETIME NOT NULL, note VARCHAR(40), PRIMARY KEY (id, at))
PARTITION BY RANGE (TO_DAYS(at)) (
  PARTITION p_none VALUES LESS THAN (0), PARTITION p_2 VALUES LESS THAN (TO_DAYS('{{date -1}}')), PARTITION p_1 VALUES LESS THAN (TO_DAYS('{{date 0}}')), PARTITION p_0 VALUES LESS THAN (TO_DAYS('{{date 1}}')), PARTITION n1 VALUES LESS THAN (TO_DAYS('{{date 2}}')))

INSERT INTO events VALUES (1, '{{date -2}}', 'a'), (2, '{{date -1}}', 'b'), (3, '{{date 0}}', 'c')
