package report

import figures "github.com/rowmill/rowmill/internal/figure"

// The figures of reports, under short names.
const none = figures.None

func count[N int | int64](n N) string { return figures.Count(n) }

func figure(f float64) string { return figures.Number(f) }

func short(f float64) string { return figures.Short(f) }

// rowsRate formats a rate in rows per second.
func rowsRate(f float64) string { return figure(f) + " rows/s" }

func micros[N int64 | float64](us N) string { return figures.Micros(us) }

func seconds(s float64) string { return figures.Seconds(s) }

func clock(s float64) string { return figures.Clock(s) }

func percent(f float64) string { return figures.Percent(f) }

func ratio(f float64) string { return figures.Ratio(f) }

func bytes[N int64 | float64](n N) string { return figures.Bytes(n) }

func plural[N int | int64](n N, one, many string) string { return figures.Plural(n, one, many) }

func oneLine(s string) string { return figures.OneLine(s) }
