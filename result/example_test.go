package result_test

import (
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/result"
)

// A record is read from its file, also if the run was killed.
func ExampleRead() {
	recs, err := result.Read(strings.NewReader(`
{"type":"run","format":"rowmill.run/1","name":"classic plain","workload":"insert","layout":"plain","engine":"mariadb","rows":3000}
{"type":"interval","elapsed":1,"seconds":1,"rows":2000,"new_rows":2000}
{"type":"interval","elapsed":2,"seconds":1,"rows":3000,"new_rows":1000}
`), "run.jsonl")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range recs {
		s := r.Summary()
		fmt.Printf("%s: %d rows in %.0f s, %.0f rows/s\n", s.Name, s.Rows, s.Seconds, s.RowsPerSecond)
		fmt.Println(r.Warnings)
	}
	// Output:
	// classic plain: 3000 rows in 2 s, 1500 rows/s
	// [the run was cut off: its record has no end, the figures cover what was written]
}
