package query

import "testing"

func (d *differential) generated(*testing.T) {}
