package postgres

import "github.com/rowmill/rowmill/internal/engine"

// Dump describes the dumps of pg_dump.
func Dump() engine.Dump {
	return engine.Dump{Marks: []string{"-- PostgreSQL database dump", "standard_conforming_strings", "SELECT pg_catalog.set_config", "FROM stdin;", "INSERT INTO public."},
		Begin: []string{"-- PostgreSQL database dump\n"}, End: []string{"-- PostgreSQL database dump complete"}, Standard: true,
		Packed: "PGDMP", Unpack: "pg_restore -f FILE.sql -a -t TABLE DUMP, and FILE.sql as the source"}
}
