// Package noask keeps libraries from asking the terminal questions as a program
// starts. Bubble Tea asks for the background's colour in an init function, with
// ESC]11;? and ESC[6n, and waits up to 5 s for an answer, whatever the program
// then does; nothing of it is told apart by that colour here.
//
// While packages are initialised, TERM is "dumb", of which nobody asks anything.
// Go initialises the first package, by import path, whose imports all are
// initialised (Go specification, "Program initialization"). This one imports
// only syscall and comes before os, on which all others that ask depend.
package noask

import "syscall"

const variable = "TERM"

var was, isSet = replace("dumb")

func replace(value string) (was string, isSet bool) {
	was, isSet = syscall.Getenv(variable)
	_ = syscall.Setenv(variable, value) // at worst the terminal is asked
	return was, isSet
}

// Restore gives TERM back its value. A program calls it first of all.
func Restore() {
	if isSet {
		_ = syscall.Setenv(variable, was) // it was its value before
		return
	}
	_ = syscall.Unsetenv(variable) // it fails for names that can't be
}
