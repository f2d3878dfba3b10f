-- layout: by day, an integer of seconds since 1970, kept by a job of pg_cron
-- server: postgres
-- says: time   = "clock"; epoch  = "s"; every = "1d"; job 7 of pg_cron
-- plan: stop job 7 of pg_cron; UPDATE cron.job SET active = false WHERE jobid = 7
CREATE TABLE events (id bigint NOT NULL, clock int NOT NULL, PRIMARY KEY (id, clock)) PARTITION BY RANGE (clock)

CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM ({{unix -1}}) TO ({{unix 0}})

CREATE TABLE events_0 PARTITION OF events FOR VALUES FROM ({{unix 0}}) TO ({{unix 1}})

CREATE SCHEMA cron

CREATE TABLE cron.job (jobid bigint PRIMARY KEY, schedule text NOT NULL, command text NOT NULL, database text NOT NULL, active boolean NOT NULL DEFAULT true)

CREATE FUNCTION more_events() RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'CREATE TABLE events_next PARTITION OF events FOR VALUES FROM (9) TO (10)'; END $$

INSERT INTO cron.job VALUES (7, '0 3 * * *', 'SELECT more_events()', current_database()), (8, '@hourly', 'VACUUM events', current_database())

INSERT INTO events VALUES (1, {{unix -1}} + 5), (2, {{unix 0}})
