package engine

import "crypto/tls"

// A Wired is a DB whose connections package serve can relay byte by byte.
type Wired interface {
	// Wire returns where the server is.
	Wire() Wire
}

// A Wire is how clients reach a server.
type Wire struct {
	// Network and Address are as in package net: "tcp" and HOST:PORT, or "unix" and a path.
	Network, Address string
	// TLS configures encrypted connections to the server; nil if the target forbids TLS. The
	// client verifies the server's certificate if the target asks for that.
	TLS *tls.Config
	// Encrypted reports that the target asks for TLS for every connection.
	Encrypted bool
}
