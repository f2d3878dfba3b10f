package copier

import (
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/internal/value"
)

// TestTrapKeyDoesntReadBack: a key may be greater than the value that its text reads
// back as, and is then found again after itself, as with bytes in a text column of
// SQLite. A traversal of such keys must end.
func TestTrapKeyDoesntReadBack(t *testing.T) {
	db := testdb.Open(t, "sqlite").(engine.Keeper)
	exec(t, db, "CREATE TABLE a (id TEXT NOT NULL PRIMARY KEY)")
	exec(t, db, "INSERT INTO a VALUES ('b'), (x'63')")
	keys, err := NewKeys(db, []engine.SchemaColumn{{Name: "id", Native: "TEXT", Type: value.Type{Kind: value.Text}}})
	must(t, err)
	var at []string
	var seen []string
	for range 5 {
		if at, err = keys.Nth(t.Context(), db.SQL(), "a", "", at, nil, 1); err != nil || at == nil {
			break
		}
		seen = append(seen, at...)
	}
	if err == nil || !strings.Contains(err.Error(), "key c of a doesn't read back as the same value") || !slices.Equal(seen, []string{"b", "c"}) {
		t.Errorf("keys %q, error %v", seen, err)
	}
}
