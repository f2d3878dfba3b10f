package engine

import (
	"context"
	"database/sql"
	"strings"
)

// A Trigger is the definition of a trigger, with the statements to create and remove it.
type Trigger struct {
	// Name, Table and Body are what HaveTriggers returns after Statements have created the trigger.
	Name, Table, Body string
	Statements, Drop  []string
	// Replace changes the body of an existing trigger. If Replace is empty, the body is changed by
	// Drop and then Statements, in a transaction if the server supports transactions of schema
	// changes.
	Replace []string
	// Other is the same trigger under another name, on servers that can't replace a trigger at once.
	// The new trigger gets the unused one of the two names before the old one is dropped.
	Other *Trigger
}

// A TriggerChange is the difference between the existing and the required triggers of a table.
type TriggerChange struct {
	// Missing, Old and Unwanted are the numbers of triggers to create, replace and remove. An Old
	// trigger has the body of another version of rowmill, or of another declaration.
	Missing, Old, Unwanted int
	// Hidden is how many of the Missing triggers exist, but are hidden from the account.
	Hidden int
	// SQL are statements, to be run in order and, if possible, in one transaction. If their execution
	// was interrupted, the SQL of another ChangeTriggers completes the change. A trigger never
	// disappears while it is replaced.
	SQL []string
}

// What describes the change, "" if there is none. of describes the triggers.
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

// ChangeTriggers returns the change after which a table has the given triggers, with the
// definitions given, or, if wanted is false, none of them. have is SumWords.HaveTriggers.
func ChangeTriggers(ctx context.Context, db Keeper, have func(table string) string, table string, triggers []Trigger, wanted bool) (TriggerChange, error) {
	if wanted {
		// Usually all triggers are right. Else an unused name is needed, and so all existing names.
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

// changes compares the given triggers with the existing ones, there, which the query have returns.
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

// TriggerDrops returns the statements that drop triggers, for both names of each.
func TriggerDrops(triggers []Trigger) (out []string) {
	for i := range triggers {
		for x := &triggers[i]; x != nil; x = x.Other {
			out = append(out, x.Drop...)
		}
	}
	return out
}

// A TriggerHider is an engine whose catalog hides triggers from accounts without a privilege.
type TriggerHider interface {
	// TriggerExists reports whether a trigger exists, whether or not it is shown.
	TriggerExists(ctx context.Context, name string) (bool, error)
}

// hides reports whether a trigger exists, under one of its names, without being among shown.
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

// change adds the statements for one trigger.
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
		// All names are in use. If there are two triggers, one stays while the other is replaced.
		c.Old++
		last := old[0]
		c.SQL = append(append(c.SQL, last.Drop...), last.Statements...)
		old = old[1:]
	}
	for _, x := range old {
		c.SQL = append(c.SQL, x.Drop...)
	}
}

// sameAs reports whether a trigger is the required one. A server may fold its table's name.
func (t Trigger) sameAs(want *Trigger) bool {
	return strings.EqualFold(t.Table, want.Table) && t.Body == want.Body
}
