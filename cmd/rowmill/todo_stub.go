package main

import (
	"context"
	"errors"
	"github.com/rowmill/rowmill/maintain"
)

func (a *app) adopt(ctx context.Context, k *kept, plan *maintain.Application, f applyFlags) error {
	return errors.New("todo")
}
func (a *app) endAdoption(ctx context.Context, k *kept, f applyFlags) error {
	return errors.New("todo")
}
func (a *app) findPeriod(ctx context.Context, k *kept, f applyFlags) error { return nil }
