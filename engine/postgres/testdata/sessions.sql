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
SET lock_timeout = '2s';
