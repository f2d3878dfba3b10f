-- layout: by month, YEAR * 100 + MONTH of a DATETIME
-- server: mysql
-- says: time   = "at"; every = "1mo"
CREATE TABLE events (id BIGINT NOT NULL, at DATETIME NOT NULL, PRIMARY KEY (id, at))
PARTITION BY RANGE (YEAR(at) * 100 + MONTH(at)) (PARTITION a VALUES LESS THAN ({{ym -1}}), PARTITION b VALUES LESS THAN ({{ym 0}}), PARTITION c VALUES LESS THAN ({{ym 1}}))

INSERT INTO events VALUES (1, '{{month -1}}'), (2, '{{date 0}}')
