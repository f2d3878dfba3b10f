package mysql

import (
	"crypto/tls"
	"net"

	"github.com/rowmill/rowmill/internal/engine"
)

func (db *server) Wire() engine.Wire {
	w := engine.Wire{Network: db.config.Net, Address: db.config.Addr}
	host, _, _ := net.SplitHostPort(db.config.Addr)
	ip := net.ParseIP(host)
	switch db.config.TLSConfig {
	case "true":
		w.TLS, w.Encrypted = &tls.Config{ServerName: host}, true
	case "skip-verify":
		w.TLS, w.Encrypted = &tls.Config{InsecureSkipVerify: true}, true
	case "preferred":
		w.TLS = &tls.Config{InsecureSkipVerify: true}
	default:
		// Nobody can listen to a connection within this machine.
		if db.config.Net == "unix" || host == "localhost" || ip != nil && ip.IsLoopback() {
			w.TLS = &tls.Config{InsecureSkipVerify: true}
		}
	}
	return w
}
