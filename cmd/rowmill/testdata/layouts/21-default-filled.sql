-- layout: by day until three days ago, and a DEFAULT partition with the rows since
-- server: postgres
-- says: time   = "at"; every = "1d"
-- plan: one period from; VALIDATE CONSTRAINT; ATTACH PARTITION
CREATE TABLE events (id bigint NOT NULL, at timestamp NOT NULL, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)

CREATE TABLE events_5 PARTITION OF events FOR VALUES FROM ('{{date -5}}') TO ('{{date -4}}')

CREATE TABLE events_4 PARTITION OF events FOR VALUES FROM ('{{date -4}}') TO ('{{date -3}}')

CREATE TABLE events_default PARTITION OF events DEFAULT

INSERT INTO events VALUES (1, '{{date -4}}'), (2, '{{date -2}}'), (3, '{{date 0}}')

INSERT INTO events SELECT i, timestamp '{{date -3}}' + i * interval '1 minute' FROM generate_series(1, 3000) i
