package main

import "context"

func (a *app) findPeriod(ctx context.Context, k *kept, f applyFlags) error { return nil }
