package engine

import (
	"context"
	"database/sql"
	"strings"
)

// A Trigger is how to make one, and how to remove it.
type Trigger struct {
	// Name, Table and Body are what HaveTriggers returns of one that is made by
	// Statements.
	Name, Table, Body string
	Statements, Drop  []string
	// Replace gives one that is there, on its table, this body. Empty, it is
	// Drop and then Statements, in a transaction where the server has that for
	// changes of the schema.
	Replace []string
	// Other is the same under another name, on servers where a trigger can't be
	// replaced without a moment in which it isn't there: the name that is free is
	// taken, and then the old trigger dropped. For a moment both run.
	Other *Trigger
}

// A TriggerChange is what makes a table's triggers those that are wanted.
type TriggerChange struct {
	// Missing and Old are how many triggers are to be made and to be
	// replaced, Unwanted how many are there and not to be. Old are those whose
	// body is another than this version of rowmill, or the declaration, has.
	Missing, Old, Unwanted int
	// Hidden is how many of the missing ones are there after all, and not shown to
	// the account.
	Hidden int
	// SQL is to be run in order, in one transaction where the server has that for
	// changes of the schema. Run again after it was broken off, what ChangeTriggers
	// returns then completes it; no writer meets a moment without a trigger that is
	// replaced.
	SQL []string
}

// What says what the change is, "" for none; of are the triggers' words.
func (c TriggerChange) What(of string) string {
	var out []string
	if c.Missing > 0 {
		out = append(out, "create "+of)
	}
	if c.Old > 0 {
		out = append(out, "replace "+of+", which were made by an earlier version or declaration")
	}
	if c.Unwanted > 0 {
		out = append(out, "drop "+of)
	}
	return strings.Join(out, "; ")
}

// ChangeTriggers returns what makes the triggers of a table that are wanted and
// missing, replaces those that differ, and removes those that are there and not
// wanted. Have is SumWords.HaveTriggers.
func ChangeTriggers(ctx context.Context, db Keeper, have func(table string) string, table string, triggers []Trigger, wanted bool) (TriggerChange, error) {
	if wanted {
		// Mostly they are as they are to be, and no name needs to be found free.
		out, _, err := changes(ctx, db, have(table), triggers, wanted)
		if err != nil || out.Missing+out.Old == 0 {
			return out, err
		}
	}
	out, there, err := changes(ctx, db, have(""), triggers, wanted)
	if err != nil {
		return TriggerChange{}, err
	}
	if hider, ok := db.(TriggerHider); ok && out.Missing > 0 {
		for i := range triggers {
			hidden, err := hides(ctx, hider, &triggers[i], there)
			if err != nil {
				return TriggerChange{}, err
			}
			if hidden {
				out.Hidden++
			}
		}
	}
	return out, nil
}

// changes compares triggers with those that a query returns, which are there.
func changes(ctx context.Context, db Keeper, have string, triggers []Trigger, wanted bool) (out TriggerChange, there map[string]Trigger, err error) {
	there = map[string]Trigger{}
	err = Each(ctx, db, db.SQL(), func(r *sql.Rows) error {
		var t Trigger
		var body sql.NullString
		if err := r.Scan(&t.Name, &t.Table, &body); err != nil {
			return err
		}
		if t.Body = body.String; body.Valid { // without a body, the account may not see it
			there[t.Name] = t
		}
		return nil
	}, have)
	if err != nil {
		return TriggerChange{}, nil, err
	}
	for i := range triggers {
		out.change(&triggers[i], there, wanted)
	}
	return out, there, nil
}

// A TriggerHider is an engine whose catalog leaves out triggers that the account
// has no privilege for.
type TriggerHider interface {
	// TriggerExists reports whether the database has a trigger of that name,
	// whether or not the account is shown it.
	TriggerExists(ctx context.Context, name string) (bool, error)
}

// hides reports whether a trigger that isn't among those shown exists, under one
// of its names.
func hides(ctx context.Context, db TriggerHider, t *Trigger, shown map[string]Trigger) (bool, error) {
	for x := t; x != nil; x = x.Other {
		if _, found := shown[x.Name]; found {
			return false, nil
		}
	}
	for x := t; x != nil; x = x.Other {
		if exists, err := db.TriggerExists(ctx, x.Name); exists || err != nil {
			return exists, err
		}
	}
	return false, nil
}

// change adds what one trigger needs.
func (c *TriggerChange) change(t *Trigger, there map[string]Trigger, wanted bool) {
	var current, free *Trigger
	var old []*Trigger
	for x := t; x != nil; x = x.Other {
		switch is, found := there[x.Name]; {
		case !found && free == nil:
			free = x
		case !found:
		case current == nil && is.sameAs(x):
			current = x
		default:
			old = append(old, x)
		}
	}
	switch {
	case !wanted:
		if current != nil {
			old = append(old, current)
		}
		if len(old) > 0 {
			c.Unwanted++
		}
	case current != nil || free != nil:
		if current == nil {
			c.SQL = append(c.SQL, free.Statements...)
		}
		switch {
		case len(old) > 0:
			c.Old++
		case current == nil:
			c.Missing++
		}
	case len(t.Replace) > 0 && strings.EqualFold(there[t.Name].Table, t.Table):
		c.Old++
		c.SQL = append(c.SQL, t.Replace...)
		return
	default:
		// Every name is taken: where there are two, the other one stays meanwhile.
		c.Old++
		last := old[0]
		c.SQL = append(append(c.SQL, last.Drop...), last.Statements...)
		old = old[1:]
	}
	for _, x := range old {
		c.SQL = append(c.SQL, x.Drop...)
	}
}

// sameAs tells whether a trigger that is there is the one that is wanted. A
// server may fold the case of tables' names.
func (t Trigger) sameAs(want *Trigger) bool {
	return strings.EqualFold(t.Table, want.Table) && t.Body == want.Body
}
