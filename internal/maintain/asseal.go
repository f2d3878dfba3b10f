package maintain

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain/archive"
	"github.com/rowmill/rowmill/internal/state"
)

// asSealed compares the restored rows with the count and checksum of their seal.
// The file's own checksums have already proven that it is what was archived. A seal
// that this server can't compare is therefore no reason to withhold the rows. A
// seal made by a session with other settings is compared under those settings.
func (r *Restoration) asSealed(ctx context.Context, d restoring, f archive.File, known *state.Period, sameColumns bool) error {
	t := r.t
	if known == nil || known.ArchiveSum != f.Sum || !sameColumns {
		return nil
	}
	from := t.DB.Dialect().Quote(d.Table)
	now, _, err := t.sumLike(ctx, t.State.DB(), from, known.Checksum)
	if errors.Is(err, engine.ErrUnsupported) {
		t.log(ctx, string(Restore), fmt.Sprintf("%s: compared with its file only, not with its seal: %v", d.Part.Name, err), 0, nil)
		return nil
	}
	if err != nil {
		return err
	}
	if now.Rows != known.Rows {
		return fmt.Errorf("restore %s: the server has %d rows of it, and it had %d when it was sealed", d.Part.Name, now.Rows, known.Rows)
	}
	if now.Hash == known.Checksum {
		return nil
	}
	settings := ""
	if !r.WithoutSeal {
		if settings, err = t.sealedUnder(ctx, from, known); err != nil {
			return fmt.Errorf("restore %s: compare with its seal under other settings: %w", d.Part.Name, err)
		}
	}
	if settings != "" {
		t.log(ctx, string(Restore), fmt.Sprintf("%s: as it was sealed, by a session with %s", d.Part.Name, settings), 0, nil)
		return nil
	}
	differs := fmt.Sprintf("the checksum of its %d rows is %s on the server, and its seal has %s", now.Rows, now.Hash, known.Checksum)
	if r.WithoutSeal {
		t.log(ctx, string(Restore), fmt.Sprintf("%s: compared with its file only: %s", d.Part.Name, differs), 0, nil)
		return nil
	}
	return engine.Hinted(fmt.Errorf("restore %s: %s. The file is the one that was archived, and the server has its values; "+
		"the seal was made under settings of a session that are not known, or a value was another one when it was sealed", d.Part.Name, differs),
		"--without-seal, to go by the file alone; with --into TABLE the rows can be looked at first")
}

// sealedUnder returns the settings under which the rows have the checksum of their
// seal, "" if there are none.
func (t *Table) sealedUnder(ctx context.Context, from string, known *state.Period) (settings string, err error) {
	words, ok := t.DB.Words().(engine.RenderWords)
	if !ok {
		return "", nil
	}
	hash, err := t.DB.Words().RowHashLike(known.Checksum, t.columns())
	if err != nil {
		return "", err
	}
	all := words.Renderings(t.columns())
	if len(all) > 0 {
		t.log(ctx, string(Restore), fmt.Sprintf("%s: its checksum differs from its seal: compared under other settings of a session, which reads its %s up to %s; "+
			"restore --without-seal does without", known.Name, figure.Plural(known.Rows, "row", "rows"), figure.Plural(len(all), "time", "times")), 0, nil)
	}
	for i, set := range all {
		t.say(Event{At: time.Now(), Action: string(Restore), Detail: fmt.Sprintf("%s: compared under other settings, %d of %d: %s", known.Name, i+1, len(all), settingsOf(set))})
		var is string
		err := t.inTx(ctx, func(tx *sql.Tx) error {
			for _, q := range set {
				if _, err := tx.ExecContext(ctx, q); err != nil {
					return t.DB.Classify(err)
				}
			}
			return t.DB.Classify(tx.QueryRowContext(ctx, "SELECT "+hash+" FROM "+from).Scan(&is))
		})
		if err != nil {
			return "", err
		}
		if is == known.Checksum {
			return settingsOf(set), nil
		}
	}
	return "", nil
}

// settingsOf returns the names of the settings that the statements change.
func settingsOf(set []string) string {
	return strings.ReplaceAll(strings.Join(set, ", "), "SET LOCAL ", "")
}
