-- engine.Session
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SET DateStyle = 'ISO, YMD';
SET TimeZone = 'UTC';
-- engine.Session
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SET DateStyle = 'ISO, YMD';
SET TimeZone = 'UTC';
SET extra_float_digits = 1;
SET bytea_output = 'hex';
SET IntervalStyle = 'postgres';
SET statement_timeout = 0;
SET default_transaction_isolation = 'read committed';
SET lock_timeout = '2s';
