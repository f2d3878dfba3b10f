package ingest

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/ingest/lane"
	"github.com/rowmill/rowmill/internal/textfile"
)

// Load loads a source: the path of a file or of a stream such as a pipe, "-" for stdin, or "" for
// the contents of the spool.
func Load(ctx context.Context, o Options, source string, stdin io.Reader) (lane.Result, error) {
	switch source {
	case "":
		return Stream(ctx, o, nil)
	case "-":
		return Stream(ctx, o, stdin)
	}
	if info, err := os.Stat(source); err != nil || info.Mode().IsRegular() {
		return File(ctx, o, source)
	}
	if o.Again || o.AcceptMissing || o.Lane == lane.Publish || o.Lane == lane.Merge {
		return lane.Result{}, engine.Hinted(fmt.Errorf("source %s isn't a file on disk: --again, --accept-missing, --lane publish and --lane merge need one that can be read again", source),
			"the file itself as SOURCE")
	}
	in, err := textfile.Open(ctx, source)
	if err != nil {
		return lane.Result{}, err
	}
	defer in.Close()
	if o.Format.Kind == "" {
		o.Format.Kind = format.KindOf(source)
	}
	if o.Name == "" {
		o.Name = source
	}
	return Stream(ctx, o, in)
}
