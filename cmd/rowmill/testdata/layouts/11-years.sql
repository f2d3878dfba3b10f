-- layout: by year, YEAR of a DATETIME
-- server: mysql
-- says: time   = "at"; every = "1y"
CREATE TABLE events (id BIGINT NOT NULL, at DATETIME NOT NULL, PRIMARY KEY (id, at))
PARTITION BY RANGE (YEAR(at)) (PARTITION a VALUES LESS THAN ({{year -1}}), PARTITION b VALUES LESS THAN ({{year 0}}), PARTITION c VALUES LESS THAN ({{year 1}}))

INSERT INTO events VALUES (1, '{{year -1}}-05-01'), (2, '{{date 0}}')
