// Package noask prevents libraries from sending queries to the terminal when a
// program starts. Bubble Tea queries the background colour in an init function,
// with ESC]11;? and ESC[6n, and waits up to 5 s for an answer, whatever the
// program does afterwards; rowmill does not use that colour.
//
// While packages are initialised, TERM is "dumb", for which libraries send no
// query. Go initialises the packages sorted by import path, always the first one
// whose imports are all initialised (Go specification, "Program
// initialization"). This package imports only syscall and is therefore
// initialised before os, on which all packages that query the terminal depend.
package noask

import "syscall"

const variable = "TERM"

var was, isSet = replace("dumb")

func replace(value string) (was string, isSet bool) {
	was, isSet = syscall.Getenv(variable)
	_ = syscall.Setenv(variable, value) // on an error the terminal is queried
	return was, isSet
}

// Restore restores the value of TERM. A program must call it before anything else.
func Restore() {
	if isSet {
		_ = syscall.Setenv(variable, was) // can't fail, because the variable had this value
		return
	}
	_ = syscall.Unsetenv(variable) // fails only for invalid names
}
