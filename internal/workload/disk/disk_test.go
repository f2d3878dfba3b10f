package disk

import (
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/result"
)

// TestFioClock: a report from before the job has begun, whose time is that since the machine was
// started, is left out, and no other.
func TestFioClock(t *testing.T) {
	t.Parallel()
	var told []result.Interval
	r := fioReader{began: time.Now().Add(-2 * time.Second), tell: func(iv result.Interval) error {
		told = append(told, iv)
		return nil
	}}
	job := func(runtime, reads string) string {
		return "{\n\"jobs\": [{\"job_runtime\": " + runtime + ", \"read\": {\"total_ios\": " + reads + "}}]\n}\n"
	}
	if err := r.read(strings.NewReader(job("17059000", "0") + job("1000", "40") + job("2000", "100"))); err != nil {
		t.Fatal(err)
	}
	if len(told) != 2 || told[0].Seconds != 1 || told[0].NewRows != 40 || told[1].NewRows != 60 || told[1].Elapsed != 2 {
		t.Errorf("%+v", told)
	}
}
