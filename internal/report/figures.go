package report

import (
	"fmt"
	"time"

	figures "github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/result"
)

// footer tells which rowmill measured, and when.
func footer(r *result.Run) string {
	return fmt.Sprintf("Measured by rowmill %s, started %s. This page is one file: it loads nothing and sends nothing.",
		r.Rowmill, r.Started.UTC().Format(time.DateTime+" UTC"))
}

// The figures of reports, under short names.
const none = figures.None

var (
	figure, short, seconds, clock = figures.Number, figures.Short, figures.Seconds, figures.Clock
	percent, ratio, oneLine       = figures.Percent, figures.Ratio, figures.OneLine
	rowsRate                      = figures.Rate
	either, onlyIf                = document.Either, document.If
)

func count[N int | int64](n N) string { return figures.Count(n) }

func micros[N int64 | float64](us N) string { return figures.Micros(us) }

func bytes[N int64 | float64](n N) string { return figures.Bytes(n) }

func plural[N int | int64](n N, one, many string) string { return figures.Plural(n, one, many) }
