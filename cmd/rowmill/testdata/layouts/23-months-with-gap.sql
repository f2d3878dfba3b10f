-- layout: by month of a date by hand, uneven and with a gap
-- server: postgres
-- says: time   = "day"; every = "1mo"
CREATE TABLE events (id bigint NOT NULL, day date NOT NULL, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)

CREATE TABLE events_old PARTITION OF events FOR VALUES FROM (MINVALUE) TO ('{{month -8}}')

CREATE TABLE events_quarter PARTITION OF events FOR VALUES FROM ('{{month -8}}') TO ('{{month -5}}')

CREATE TABLE "events of a month" PARTITION OF events FOR VALUES FROM ('{{month -1}}') TO ('{{month 0}}')

CREATE TABLE events_now PARTITION OF events FOR VALUES FROM ('{{month 0}}') TO ('{{month 1}}')

INSERT INTO events VALUES (1, '{{month -7}}'), (2, '{{month -1}}'), (3, '{{date 0}}')
