-- layout: by day, each day divided by a hash, on PostgreSQL
-- server: postgres
-- refused: partition events_0; has partitions of its own; a plain table
CREATE TABLE events (id bigint NOT NULL, at timestamp NOT NULL, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)

CREATE TABLE events_0 PARTITION OF events FOR VALUES FROM ('{{date 0}}') TO ('{{date 1}}') PARTITION BY HASH (id)

CREATE TABLE events_0_0 PARTITION OF events_0 FOR VALUES WITH (MODULUS 1, REMAINDER 0)

INSERT INTO events VALUES (1, '{{date 0}}')
