-- layout: by day, UUIDs of version 7, on PostgreSQL
-- server: postgres
-- refused: is partitioned by RANGE (id); a plain table
CREATE TABLE events (id uuid NOT NULL, note text, PRIMARY KEY (id)) PARTITION BY RANGE (id)

CREATE TABLE events_0 PARTITION OF events FOR VALUES FROM ('{{uuid 0}}') TO ('{{uuid 1}}')

INSERT INTO events VALUES ('{{uuid 0}}', 'a')
