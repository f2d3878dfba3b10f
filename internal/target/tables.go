package target

import (
	"context"
	"fmt"
	"strconv"

	"github.com/rowmill/rowmill/internal/engine"
)

// In opens another database of the same server, with the same account. The caller closes it.
func (d *DB) In(ctx context.Context, database string) (engine.DB, error) {
	t := d.opened
	t.Path = database
	return Connect(ctx, t)
}

// Lowered returns a numeric setting of a private server's target that is lower on the server: a
// server silently lowers a setting for which it may open too few files.
func Lowered(text string, is map[string]string) (s Setting, got int64, ok bool) {
	p, err := parse(text)
	if err != nil {
		return s, 0, false
	}
	for name, value := range p.options.Set {
		want, err1 := strconv.ParseInt(value, 10, 64)
		got, err2 := strconv.ParseInt(is[name], 10, 64)
		if err1 == nil && err2 == nil && got < want {
			return Setting{name, value}, got, true
		}
	}
	return s, 0, false
}

// PrivateLike returns the target of a private server of the same kind as an engine's. It is fast
// rather than durable.
func PrivateLike(kind string) (string, error) {
	text := "sandbox:" + kind + "?durability=none"
	if err := Check(text); err != nil {
		return "", engine.Hinted(fmt.Errorf("there is no private server like %s, to calibrate on", kind), "a table on MariaDB, MySQL or PostgreSQL")
	}
	return text, nil
}
