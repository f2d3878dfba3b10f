-- layout: by month, TO_DAYS of a DATE
-- server: mysql
-- says: time   = "day"; every = "1mo"
CREATE TABLE events (id BIGINT NOT NULL, day DATE NOT NULL, note VARCHAR(40), PRIMARY KEY (id, day))
PARTITION BY RANGE (TO_DAYS(day)) (
  PARTITION p_2 VALUES LESS THAN (TO_DAYS('{{month -1}}')), PARTITION p_1 VALUES LESS THAN (TO_DAYS('{{month 0}}')), PARTITION p_0 VALUES LESS THAN (TO_DAYS('{{month 1}}')))

INSERT INTO events VALUES (1, '{{month -1}}', 'a'), (2, '{{month 0}}', 'b'), (3, '{{date 0}}', 'c')
