-- layout: by week, RANGE COLUMNS of a DATE
-- server: mysql
-- says: time   = "day"; every = "1w"
CREATE TABLE events (id BIGINT NOT NULL, day DATE NOT NULL, PRIMARY KEY (id, day))
PARTITION BY RANGE COLUMNS (day) (PARTITION a VALUES LESS THAN ('{{date -11}}'), PARTITION b VALUES LESS THAN ('{{date -4}}'), PARTITION c VALUES LESS THAN ('{{date 3}}'))

INSERT INTO events VALUES (1, '{{date -5}}'), (2, '{{date 0}}')
