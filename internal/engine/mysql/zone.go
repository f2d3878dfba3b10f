package mysql

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// ownZone is the time zone of a session that has the server's, which is that of its operating system.
const ownZone = "SYSTEM"

// InOwnZone implements engine.ZoneReader.
func (db *DB) InOwnZone(st engine.State) bool { return strings.EqualFold(st.Get("time_zone"), ownZone) }

// OwnZone implements engine.ZoneReader. Servers tell the abbreviation of their zone, which several have. So it is when the first hours of
// weeks are, in the years that all of them know.
func (db *DB) OwnZone(ctx context.Context, s *engine.Session) (zone string, err error) {
	if err := s.SetState(ctx, "time_zone", ownZone); err != nil {
		return "", err
	}
	var list []string
	for at := time.Date(1971, 1, 3, 0, 0, 0, 0, time.UTC); at.Year() < 2038; at = at.AddDate(0, 0, 7) {
		list = append(list, at.Format("UNIX_TIMESTAMP('2006-01-02')"))
	}
	err = s.Text(ctx, "SELECT "+unlimited+"SHA1(CONCAT_WS(',', "+strings.Join(list, ", ")+"))", nil, func(v [][]byte) error {
		zone = string(v[0])
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("read the server's time zone: %w", err)
	}
	return zone, nil
}

var _ engine.ZoneReader = (*DB)(nil)
