package postgres

import (
	"context"
	"regexp"

	"github.com/rowmill/rowmill/internal/engine"
)

// locals is a query for the names and definitions of all that users or extensions have made.
// Another row describes the session's time zone, by the instants at which weeks begin. Object
// identifiers below 16384 belong to the server itself: see FirstNormalObjectId in its transam.h.
const locals = `SELECT 'the session''s time zone', (SELECT pg_catalog.md5(pg_catalog.string_agg(EXTRACT(epoch FROM d::timestamptz)::text, ',' ORDER BY d))
	FROM pg_catalog.generate_series('1971-01-03'::timestamp, '2037-12-27'::timestamp, '7 days'::interval) d) UNION ALL
SELECT 'type ' || pg_catalog.format_type(t.oid, NULL), CASE t.typtype
	WHEN 'e' THEN (SELECT pg_catalog.string_agg(pg_catalog.quote_literal(e.enumlabel), ',' ORDER BY e.enumsortorder) FROM pg_catalog.pg_enum e WHERE e.enumtypid = t.oid)
	WHEN 'd' THEN pg_catalog.format_type(t.typbasetype, t.typtypmod) || COALESCE(' ' || (SELECT c.collname FROM pg_catalog.pg_collation c WHERE c.oid = t.typcollation), '')
	WHEN 'r' THEN (SELECT pg_catalog.format_type(r.rngsubtype, NULL) || ' ' || o.opcname || COALESCE(' ' || (SELECT c.collname FROM pg_catalog.pg_collation c WHERE c.oid = r.rngcollation), '')
		FROM pg_catalog.pg_range r JOIN pg_catalog.pg_opclass o ON o.oid = r.rngsubopc WHERE r.rngtypid = t.oid)
	ELSE (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(a.attname) || ' ' || pg_catalog.format_type(a.atttypid, a.atttypmod), ',' ORDER BY a.attnum)
		FROM pg_catalog.pg_attribute a WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped) END
	FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_class c ON c.oid = t.typrelid WHERE t.oid >= 16384 AND (t.typtype IN ('e', 'd', 'r') OR c.relkind = 'c') UNION ALL
SELECT 'collation ' || pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.collname), (pg_catalog.to_jsonb(c) - 'oid' - 'collnamespace' - 'collowner')::text
	FROM pg_catalog.pg_collation c JOIN pg_catalog.pg_namespace n ON n.oid = c.collnamespace WHERE c.oid >= 16384 UNION ALL
SELECT 'operator ' || pg_catalog.quote_ident(n.nspname) || '.' || o.oprname || ' of ' || pg_catalog.format_type(o.oprleft, NULL) || ' and ' || pg_catalog.format_type(o.oprright, NULL),
	pg_catalog.pg_get_functiondef(o.oprcode) FROM pg_catalog.pg_operator o JOIN pg_catalog.pg_namespace n ON n.oid = o.oprnamespace WHERE o.oid >= 16384 AND o.oprcode <> 0 UNION ALL
SELECT 'cast from ' || pg_catalog.format_type(k.castsource, NULL) || ' to ' || pg_catalog.format_type(k.casttarget, NULL),
	k.castcontext::text || ' ' || k.castmethod::text || CASE k.castfunc WHEN 0 THEN '' ELSE pg_catalog.pg_get_functiondef(k.castfunc) END FROM pg_catalog.pg_cast k WHERE k.oid >= 16384`

func (db reader) Locals(ctx context.Context, s *engine.Session, _ engine.State) (map[string]string, error) {
	list := map[string]string{}
	err := s.Text(ctx, locals, nil, func(v [][]byte) error {
		list[string(v[0])] += string(v[1])
		return nil
	})
	return list, engine.About(ctx, err, "read what users have defined")
}

// localWords finds types and functions whose results differ between databases: those with object
// identifiers, which each database assigns itself, and those that use the configuration of text
// search.
var localWords = regexp.MustCompile(`(?i)\b(reg(class|collation|config|dictionary|namespace|oper|operator|proc|procedure|role|type)|pg_typeof|\w*ts(vector|query)|ts_\w+)\b`)

func (db reader) LocalWord(query string) string { return localWords.FindString(query) }

var _ engine.LocalReader = (*DB)(nil)
