package enginetest

import "testing"

func (s readers) parts(t *testing.T) {}
func (s readers) plans(t *testing.T) {}
