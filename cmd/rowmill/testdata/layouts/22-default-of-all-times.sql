-- layout: by day, and a DEFAULT partition with rows from before and after the others
-- server: postgres
-- says: time   = "at"; every = "1d"
-- apply: partition default lie before; DETACH PARTITION
CREATE TABLE events (id bigint NOT NULL, at timestamp NOT NULL, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)

CREATE TABLE events_4 PARTITION OF events FOR VALUES FROM ('{{date -4}}') TO ('{{date -3}}')

CREATE TABLE events_3 PARTITION OF events FOR VALUES FROM ('{{date -3}}') TO ('{{date -2}}')

CREATE TABLE events_default PARTITION OF events DEFAULT

INSERT INTO events VALUES (1, '{{date -300}}'), (2, '{{date -3}}'), (3, '{{date 0}}')
