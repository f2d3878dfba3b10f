-- layout: by day, RANGE COLUMNS of a DATETIME, kept by an event of its own
-- server: mysql
-- says: time   = "at"; every = "1d"; event events_daily
-- plan: stop event events_daily; ALTER DEFINER
CREATE TABLE events (id BIGINT NOT NULL AUTO_INCREMENT, at DATETIME(6) NOT NULL, note VARCHAR(40), PRIMARY KEY (id, at))
PARTITION BY RANGE COLUMNS (at) (
  PARTITION p_2 VALUES LESS THAN ('{{date -1}}'), PARTITION p_1 VALUES LESS THAN ('{{date 0}} 00:00:00'), PARTITION p_0 VALUES LESS THAN ('{{date 1}}'), PARTITION n1 VALUES LESS THAN ('{{date 2}}'))

CREATE EVENT events_daily ON SCHEDULE EVERY 1 DAY DO ALTER TABLE events DROP PARTITION p_2

INSERT INTO events (at) VALUES ('{{date -1}}'), ('{{date 0}}')
