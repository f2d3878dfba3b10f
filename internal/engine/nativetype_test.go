package engine

import (
	"fmt"
	"testing"
)

func TestNativeType(t *testing.T) {
	for native, want := range map[string]string{
		"decimal(10,2) unsigned": "decimal [10 2]", "DECIMAL(10, 2)": "decimal [10 2]", "timestamp(3) with time zone": "timestamp [3]",
		"TIMESTAMP WITH TIME ZONE": "timestamp []", "double precision": "double []", "numeric": "numeric []", "numeric(5,-2)": "numeric [5 -2]",
		"enum('a','b')": "enum []", "enum('(3)')": "enum []", "bigint(20) unsigned": "bigint [20]", " int": "int []", "datetime\t(6)": "datetime [6]",
		"json[]": "json[] []", "": " []", "x(": "x []", "x()": "x []",
	} {
		name, digits := NativeType(native)
		if got := fmt.Sprint(name, " ", digits); got != want {
			t.Errorf("%q: %s, want %s", native, got, want)
		}
	}
}
