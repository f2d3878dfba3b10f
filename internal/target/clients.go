package target

import (
	"fmt"
	"strconv"

	"github.com/rowmill/rowmill/internal/engine"
)

// spareConnections are for rowmill's own monitoring, and for a person who looks.
const spareConnections = 50

// waySettings are the server settings that ways of `bench hotrow` need, by way and kind of server.
var waySettings = map[string]map[string]Setting{
	"no-detect": {
		"mariadb":  {"innodb_deadlock_detect", "OFF"},
		"mysql":    {"innodb_deadlock_detect", "OFF"},
		"postgres": {"deadlock_timeout", "1d"},
	},
	"thread-pool": {"mariadb": {"thread_handling", "pool-of-threads"}},
}

// lockWaits are the settings, by kind of server, that say for how many seconds a transaction waits
// for a row's lock; the default is 50. A client whose wait ends gives up and begins again. That
// happens if, each second, fewer than a 50th of the clients get the lock.
var lockWaits = map[string]string{"mariadb": "innodb_lock_wait_timeout", "mysql": "innodb_lock_wait_timeout"}

// For up to patientClients clients, the server's default lock wait is enough. For more clients, the
// lock wait is one second per client: no client gives up if each second one client gets the lock.
const patientClients = 1000

// ForClients returns a target that accepts n connections and has the settings of way, one of
// result.HotWays. Only the target of a private server is changed. Any other server must accept so
// many connections already; if way needs settings, ForClients returns an error.
func ForClients(text string, n int, way string) (string, error) {
	p, err := parse(text)
	if err != nil {
		return text, err
	}
	by, isSetting := waySettings[way]
	if p.Scheme != "sandbox" {
		if isSetting {
			return text, engine.Hinted(fmt.Errorf("way %s is a setting of the server, and %s is no private server", way, p.Target.String()), "sandbox:mariadb, or --ways without it")
		}
		return text, nil
	}
	var all []Setting
	if isSetting {
		s, ok := by[p.options.Kind]
		if !ok {
			return text, engine.Hinted(fmt.Errorf("way %s: %s has no such setting", way, p.options.Kind), "--ways without it")
		}
		all = append(all, s)
	}
	if _, given := p.options.Set["max_connections"]; !given && n+spareConnections > 1000 { // which private servers have
		all = append(all, Setting{"max_connections", strconv.Itoa(n + spareConnections)})
	}
	if name, ok := lockWaits[p.options.Kind]; ok && way != "" && n > patientClients {
		all = append(all, Setting{name, strconv.Itoa(n)})
	}
	for _, s := range all {
		if _, given := p.options.Set[s.Name]; given {
			continue
		}
		if text, err = WithSetting(text, s); err != nil {
			return text, err
		}
	}
	return text, nil
}
