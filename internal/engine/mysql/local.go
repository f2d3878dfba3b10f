package mysql

import (
	"context"
	"regexp"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// Locals implements engine.LocalReader. The only definition that may differ from server to server
// is that of the session's time zone, which comes from the operating system or from the server's
// tables. A zone's name doesn't identify its definition: different zones share abbreviations. So
// the identity is a hash of the Unix times at which each week from 1971 to 2037 begins in the zone.
func (db *reader) Locals(ctx context.Context, s *engine.Session, st engine.State) (map[string]string, error) {
	zone := "''"
	if !fixedZone(st.Get("time_zone")) {
		var list []string
		for at := time.Date(1971, 1, 3, 0, 0, 0, 0, time.UTC); at.Year() < 2038; at = at.AddDate(0, 0, 7) {
			list = append(list, at.Format("UNIX_TIMESTAMP('2006-01-02')"))
		}
		zone = "SHA2(CONCAT_WS(',', " + strings.Join(list, ", ") + "), 256)"
	}
	own := map[string]string{}
	err := s.Text(ctx, "SELECT "+unlimited+zone, nil, func(v [][]byte) error {
		own["the session's time zone"] = string(v[0])
		return nil
	})
	return own, engine.About(ctx, err, "read the session's time zone")
}

// localWords finds functions that look up a time zone's name in the server's tables.
var localWords = regexp.MustCompile(`(?i)\bCONVERT_TZ\b`)

func (db *reader) LocalWord(query string) string { return localWords.FindString(query) }

var _ engine.LocalReader = (*DB)(nil)
