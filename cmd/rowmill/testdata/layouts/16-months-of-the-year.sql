-- layout: by month of the year, MONTH of a DATETIME, whatever the year
-- server: mysql
-- refused: is partitioned by RANGE (month(; REMOVE PARTITIONING
CREATE TABLE events (id BIGINT NOT NULL, at DATETIME NOT NULL, PRIMARY KEY (id, at))
PARTITION BY RANGE (MONTH(at)) (PARTITION a VALUES LESS THAN (7), PARTITION b VALUES LESS THAN (13))

INSERT INTO events VALUES (1, '{{date 0}}')
