package lane

import (
	"fmt"
	"time"

	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/state"
)

// A Progress describes how far a load has come.
type Progress struct {
	// Rows counts the rows sent by this load: inserted, duplicate and rejected.
	Rows int64
	// Size is the source's size on disk, 0 if unknown. Bytes is the part of it that is loaded, or
	// checked by a dry run. Sent is the part of Bytes that this load has sent, and Sending is how long
	// it has been sending.
	Bytes, Size int64
	Sent        int64
	Sending     time.Duration
	// If the source has no size, Share is the share of it that has been read, 0 to 1, and
	// ShareBefore the share that earlier loads had read.
	Share, ShareBefore float64
	// Collected counts the rows to publish, Written those of them that are written so far, and
	// Publishing is how long the load has been writing them.
	Collected, Written int64
	Publishing         time.Duration
	// Waiting is the bytes in the spool; Full is how long the stream has waited for room there.
	Waiting int64
	Full    time.Duration
	Elapsed time.Duration
}

// A Result summarises a load.
type Result struct {
	// Source is the source's name.
	Source string `json:"source"`
	// Counts are the rows of this load. Continued are the rows of the interrupted loads that this load
	// continues. After a dry run, Sent rows were checked, and Inserted rows could be inserted.
	state.Counts
	Continued int64 `json:"continued,omitempty"`
	// Before counts the rows of earlier, completed loads, BeforeRejected the bad ones among them.
	Before         int64 `json:"before"`
	BeforeRejected int64 `json:"before_rejected"`
	// LoadedAt is when earlier loads last recorded rows. Of the rows that earlier loads read from this
	// file, Missing are not in the table, and Gone were in dropped periods. Unlooked says why some of
	// these rows were not looked for.
	LoadedAt time.Time `json:"loaded_at,omitzero"`
	Missing  int64     `json:"missing,omitempty"`
	Gone     int64     `json:"gone_with_periods,omitempty"`
	Unlooked string    `json:"not_looked,omitempty"`
	// Created are the names of created periods, in order; after a dry run, of periods to create.
	// TooOld counts the rejected rows that are past the table's retention.
	Created []string `json:"periods_created,omitempty"`
	TooOld  int64    `json:"older_than_keep,omitempty"`
	// Why has the reasons of this load's rejected rows.
	Why
	// NotCompared is the number of duplicates that were not compared with the table's rows.
	NotCompared int64 `json:"not_compared,omitempty"`
	// Batches and Bytes count the batches of this load and their bytes.
	Batches int64 `json:"batches"`
	Bytes   int64 `json:"bytes"`
	// Finished means that the source was loaded to its end.
	Finished bool `json:"finished"`
	// Damaged lists byte ranges of the spool that were set aside, with the path of their copy.
	Damaged []string `json:"damaged,omitempty"`
	// Unfinished is the bytes of a stream's last record, in the middle of which the load ended.
	Unfinished int `json:"unread_bytes,omitempty"`
	// Lost counts rows of a stream that were read, but neither loaded nor kept in a spool.
	Lost    int64   `json:"not_loaded,omitempty"`
	Seconds float64 `json:"seconds"`
}

// Text describes the progress. The time left is computed from what this load itself has sent.
func (p Progress) Text(dry bool) string {
	sending := p.Sending
	if sending <= 0 {
		sending = p.Elapsed
	}
	line := fmt.Sprintf("%s rows, %s rows/s", figure.Count(p.Rows), figure.Rounded(float64(p.Rows)/max(sending.Seconds(), 1e-3)))
	left := func(took time.Duration, done, rest float64) {
		if done > 0 && rest > 0 && took >= time.Second {
			line += fmt.Sprintf(", %s left", time.Duration(float64(took)*rest/done).Round(time.Second))
		}
	}
	if p.Size > 0 {
		what := "loaded"
		if dry {
			what = "checked"
		}
		done := min(p.Bytes, p.Size)
		line += fmt.Sprintf(", %d%% of %s %s", int64(100*float64(done)/float64(p.Size)), figure.Bytes(p.Size), what)
		left(p.Sending, float64(p.Sent), float64(p.Size-done))
	} else if p.Share > 0 {
		line += fmt.Sprintf(", about %d%% read", int64(100*p.Share))
		left(p.Sending, p.Share-p.ShareBefore, 1-p.Share)
	}
	switch {
	case p.Publishing > 0:
		line = fmt.Sprintf("%s rows; publishing %s of %s collected rows", figure.Count(p.Rows), figure.Count(p.Written), figure.Count(p.Collected))
		left(p.Publishing, float64(p.Written), float64(p.Collected-p.Written))
	case p.Collected > 0:
		line += fmt.Sprintf(", %s rows collected to be published", figure.Count(p.Collected))
	}
	if p.Waiting > 0 {
		line += fmt.Sprintf(", %s in the spool", figure.Bytes(p.Waiting))
	}
	if p.Full > time.Second {
		line += fmt.Sprintf(", which is full: the sender has been waiting for %s", p.Full.Round(time.Second))
	}
	return line
}
