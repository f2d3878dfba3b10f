package declared

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/maintain/schedule"
	"github.com/rowmill/rowmill/internal/target"
)

// A Fleet keeps the tables of many declarations for as long as it runs. Tables of one target share
// a database and a scheduler. All SQLite files share one scheduler, because SQLite does its work in
// this process. A table that can't be kept is reported and tried again, and delays no other table.
type Fleet struct {
	// Paths are files and directories (*.toml) of declarations. They are searched for added, changed
	// and removed files at intervals of Every. Without paths, only the tables of Keep are kept.
	Paths []string
	Every time.Duration
	// Read reads a file.
	Read func(ctx context.Context, path string) (*File, error)
	// Prepare is called for each table before it is kept.
	Prepare func(ctx context.Context, t *Table) error
	// Leads is called when this process begins or ceases to lead a table: only the leader keeps it.
	Leads func(t *Table, leads bool)
	// Say receives the events of a member, and the reason why it isn't kept, each reason once.
	Say func(m *Member, text string, err error)
	// Servers are the open databases.
	Servers *Servers

	mu      sync.Mutex
	members map[string]*Member // by path and node
	places  map[string]*place  // by target.ServerOf, for as long as the fleet runs
	running sync.WaitGroup
}

// A Member is a table of a fleet, or a file that can't be read.
type Member struct {
	// Path is the declaration's file. Node is the name of the node if the table is on several servers.
	// Name and Target are "" if the file has never been valid.
	Path, Node, Name, Target string

	file  *File
	place *place // nil without a target
	stamp string // identifies the version of the file that was read: see list
	// Guarded by the fleet's lock.
	table *Table // nil while it isn't kept
	check bool   // the file may have changed since it was applied
	err   error  // the reason why it isn't kept, or is kept as it was last applied
	said  string
	again time.Time // the time of the next attempt to open it
	tries int
	gone  bool // the file was missing at the last look
}

// A place is a target with its tables. All SQLite files are one place.
type place struct {
	scheduler *schedule.Scheduler
	wake      chan struct{}
	byTable   map[*maintain.Table]*Table
	left      []*Table // tables to close: they are no longer kept
}

// wakeUp makes the goroutine of openAll look for something to do.
func (p *place) wakeUp() {
	select {
	case p.wake <- struct{}{}:
	default: // it is about to look
	}
}

func (m *Member) key() string { return m.Path + "\x00" + m.Node }

// Title names a member: by its table or, if that is unknown, by its file.
func (m *Member) Title() string {
	name := cmp.Or(m.Name, m.Path)
	if m.Node != "" {
		name = "node " + m.Node + ": " + name
	}
	return name
}

// A Standing is the state of a member.
type Standing struct {
	*Member
	// Table is nil while the table isn't kept. Err is the reason why it isn't kept, or why it is kept
	// by the last applied declaration instead of the present file, or the error of its last look.
	Table *Table
	Err   error
	schedule.TableState
}

// Standings returns the state of all members, in the order of their names.
func (f *Fleet) Standings() []Standing {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []Standing
	for _, m := range f.members {
		s := Standing{Member: m, Table: m.table, Err: m.err}
		if m.table != nil {
			s.TableState = m.place.scheduler.State(m.table.Table)
			if s.Err == nil {
				s.Err = s.TableState.Err
			}
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Standing) int {
		return cmp.Or(strings.Compare(a.Title(), b.Title()), strings.Compare(a.Path, b.Path), strings.Compare(a.Target, b.Target))
	})
	return out
}

// Keep adds a table that is open and prepared.
func (f *Fleet) Keep(ctx context.Context, t *Table) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := &Member{Path: t.Declared.Source, Node: t.Node, Name: t.Declared.Name, Target: t.file.Target, file: t.file}
	f.add(ctx, m)
	f.keep(m, t)
}

// add adds a member to the fleet. The member's place begins to run with its first member.
func (f *Fleet) add(ctx context.Context, m *Member) {
	if f.members == nil {
		f.members, f.places = map[string]*Member{}, map[string]*place{}
	}
	f.members[m.key()] = m
	if m.Target == "" {
		return
	}
	name := target.ServerOf(m.Target)
	p := f.places[name]
	if p == nil {
		p = &place{wake: make(chan struct{}, 1), byTable: map[*maintain.Table]*Table{}}
		p.scheduler = &schedule.Scheduler{Poll: f.Every, Leads: func(t *maintain.Table, leads bool) {
			f.mu.Lock()
			of := p.byTable[t]
			f.mu.Unlock()
			f.Leads(of, leads)
		}}
		f.places[name] = p
		f.running.Go(func() { p.scheduler.Run(ctx) })
		f.running.Go(func() { f.openAll(ctx, p) })
	}
	m.place = p
	p.wakeUp()
}

// keep begins to keep a table.
func (f *Fleet) keep(m *Member, t *Table) {
	p := m.place
	m.table, p.byTable[t.Table] = t, t
	p.scheduler.Add(t.Table)
}

// drop removes a member from the fleet.
func (f *Fleet) drop(m *Member) {
	delete(f.members, m.key())
	if p := m.place; p != nil && m.table != nil {
		p.left = append(p.left, m.table)
		p.wakeUp()
	}
}

// Run keeps the tables until ctx ends. It then waits until actions in progress reach a point where
// they can stop.
func (f *Fleet) Run(ctx context.Context) {
	for len(f.Paths) > 0 && ctx.Err() == nil {
		f.look(ctx)
		_ = engine.Sleep(ctx, f.Every) // the loop checks ctx
	}
	<-ctx.Done()
	f.running.Wait()
}

// openAll opens the tables of a place, new ones first, and stops keeping the tables in p.left.
func (f *Fleet) openAll(ctx context.Context, p *place) {
	for ctx.Err() == nil {
		m, left, pause := f.nextOf(p)
		switch {
		case left != nil:
			p.scheduler.Remove(left.Table)
			f.mu.Lock()
			delete(p.byTable, left.Table)
			f.mu.Unlock()
		case m != nil:
			f.open(ctx, m)
		default:
			select {
			case <-ctx.Done():
			case <-p.wake:
			case <-time.After(pause):
			}
		}
	}
}

// nextOf returns what is due in a place. What is due is left, a table that is no longer to be kept;
// or else next, the next member to open. If nothing is due, nextOf returns the pause until
// something is.
func (f *Fleet) nextOf(p *place) (next *Member, left *Table, pause time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(p.left); n > 0 {
		left, p.left = p.left[n-1], p.left[:n-1]
		return nil, left, 0
	}
	for _, m := range f.members {
		if (m.table == nil || m.check) && m.file != nil && m.place == p && (next == nil || m.again.Before(next.again)) {
			next = m
		}
	}
	if next == nil {
		return nil, nil, time.Minute
	}
	if pause = time.Until(next.again); pause > 0 {
		return nil, nil, pause
	}
	return next, nil, 0
}

// openTime limits the time to open a table. openAgain is the longest pause before another attempt
// to open it.
const (
	openTime  = 30 * time.Second
	openAgain = time.Minute
)

// open opens a member's table and begins to keep it.
func (f *Fleet) open(ctx context.Context, m *Member) {
	opening, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	t, err := f.tryOpen(opening, m)
	if ctx.Err() != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.members[m.key()] != m { // it has changed meanwhile
		return
	}
	if m.check = errors.Is(err, maintain.ErrOtherDeclaration) || t == nil && m.table != nil; m.check {
		m.again = time.Now().Add(openAgain)
	}
	if m.table != nil {
		if t != nil { // else the running maintenance notices the error, too
			f.report(m, err)
		}
		return
	}
	if t == nil {
		m.again = time.Now().Add(engine.Backoff(time.Second, openAgain, m.tries))
		m.tries++
		f.report(m, maintain.InNode(m.Node, err))
		return
	}
	m.tries = 0
	f.keep(m, t)
	f.report(m, err)
}

// tryOpen opens a table that was applied. If the file differs from the applied declaration, it
// returns both the table and an error.
func (f *Fleet) tryOpen(ctx context.Context, m *Member) (*Table, error) {
	t, err := m.file.openLocked(ctx, true)
	if err != nil {
		return nil, err
	}
	differs := t.wantApplied(ctx)
	if differs != nil && !errors.Is(differs, maintain.ErrOtherDeclaration) {
		return nil, differs
	}
	if err := f.Prepare(ctx, t); err != nil {
		return nil, err
	}
	return t, differs
}

// report records and reports err: why a member isn't kept as its file says; nil if it is.
func (f *Fleet) report(m *Member, err error) {
	m.err = err
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == m.said {
		return
	}
	m.said = text
	switch {
	case err == nil:
		f.Say(m, "is kept again", nil)
	case m.table != nil:
		f.Say(m, "is kept as it was applied", err)
	default:
		f.Say(m, "is not kept, and will be tried again", err)
	}
}

// look finds files that were added, changed or removed.
func (f *Fleet) look(ctx context.Context) {
	found, failed := map[string]string{}, map[string]error{} // stamps of files, errors of paths
	for _, path := range f.Paths {
		if err := list(path, found); err != nil {
			failed[path] = err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	byPath := map[string][]*Member{}
	for _, m := range f.members {
		byPath[m.Path] = append(byPath[m.Path], m)
	}
	for path, members := range byPath {
		_, there := found[path]
		for _, m := range members {
			switch {
			case there || failed[path] != nil || failed[filepath.Dir(path)] != nil:
				m.gone = false
			case !m.gone: // it may be about to be replaced
				m.gone = true
			default:
				f.Say(m, "is no longer kept by this process: its file is gone", nil)
				f.drop(m)
			}
		}
	}
	for path, err := range failed {
		if byPath[path] == nil {
			byPath[path] = []*Member{{Path: path}}
			f.add(ctx, byPath[path][0])
		}
		f.report(byPath[path][0], err)
	}
	for _, path := range slices.Sorted(maps.Keys(found)) {
		if of, stamp := byPath[path], found[path]; len(of) == 0 || of[0].stamp != stamp {
			f.read(ctx, path, stamp, of)
		}
	}
}

// read reads a new or changed file. The parameter were holds the members of the file's former
// content. They stay if the file is invalid.
func (f *Fleet) read(ctx context.Context, path, stamp string, were []*Member) {
	file, err := f.Read(ctx, path)
	if err != nil {
		if len(were) == 0 {
			were = []*Member{{Path: path}}
			f.add(ctx, were[0])
		}
		for _, m := range were {
			m.stamp = stamp
			f.report(m, err)
		}
		return
	}
	file.Servers = f.Servers
	files := []*File{file}
	if file.Sharded() {
		files = file.OfNodes()
	}
	for _, m := range were {
		i := slices.IndexFunc(files, func(n *File) bool { return n.Node == m.Node && n.Name == m.Name && n.Target == m.Target })
		if i < 0 {
			f.drop(m)
			continue
		}
		m.file, m.stamp, m.again, m.tries = files[i], stamp, time.Time{}, 0
		files = slices.Delete(files, i, i+1)
		m.check = m.table != nil // it is kept by the declaration that was applied
		f.add(ctx, m)            // wakes its place
	}
	for _, n := range files {
		m := &Member{Path: path, Node: n.Node, Name: n.Name, Target: n.Target, file: n, stamp: stamp}
		err := WantTarget(n.Declaration)
		if other := f.same(m); other != nil {
			m.Name, m.Target = "", ""
			err = fmt.Errorf("file %s declares table %s, too", other.Path, n.Name)
		}
		if err != nil {
			m.file = nil
		}
		f.add(ctx, m)
		if err != nil {
			f.report(m, err)
		}
	}
}

// same returns the member of another file that declares the table of m, or nil.
func (f *Fleet) same(m *Member) *Member {
	for _, other := range f.members {
		if other.Path != m.Path && other.Name == m.Name && other.Target == m.Target && other.Target != "" {
			return other
		}
	}
	return nil
}

// Files returns the path of a file, or the sorted paths of a directory's declarations.
func Files(path string) ([]string, error) {
	found := map[string]string{}
	if err := list(path, found); err != nil {
		if errors.Is(err, fs.ErrNotExist) { // the error of reading it says more
			return []string{path}, nil
		}
		return nil, err
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// list adds declaration files to a map: the file path or, if path is a directory, its *.toml files.
// The value is the file's stamp, which changes when the file is written or replaced.
func list(path string, into map[string]string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		into[path] = stampOf(info)
		return nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if !strings.HasSuffix(name, ".toml") || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "#") {
			continue
		}
		info, err := os.Stat(filepath.Join(path, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if !info.IsDir() {
			into[filepath.Join(path, name)] = stampOf(info)
		}
	}
	return nil
}

func stampOf(info fs.FileInfo) string {
	var inode any
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = st.Ino
	}
	return fmt.Sprint(info.ModTime().UnixNano(), " ", info.Size(), " ", inode)
}
