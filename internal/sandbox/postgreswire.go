package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"
)

// The subset of PostgreSQL's protocol needed to check that a server is up and to
// read its settings: https://www.postgresql.org/docs/current/protocol-flow.html.

// dialPostgres connects to a socket as User and calls fn with the server's
// version once the server is ready for a query.
func dialPostgres(ctx context.Context, socket string, fn func(fe *pgproto3.Frontend, version string) error) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	fe := pgproto3.NewFrontend(conn, conn)
	fe.Send(&pgproto3.StartupMessage{
		ProtocolVersion: pgproto3.ProtocolVersion30,
		Parameters:      map[string]string{"user": User, "database": Database, "client_encoding": "UTF8"},
	})
	if err := fe.Flush(); err != nil {
		return err
	}
	version := ""
	err = receivePostgres(fe, func(m pgproto3.BackendMessage) error {
		switch m := m.(type) {
		case *pgproto3.ParameterStatus:
			if m.Name == "server_version" {
				version = m.Value
			}
		case *pgproto3.AuthenticationCleartextPassword, *pgproto3.AuthenticationMD5Password, *pgproto3.AuthenticationSASL:
			return errors.New("the server asks for a password on its socket")
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := fn(fe, version); err != nil {
		return err
	}
	fe.Send(&pgproto3.Terminate{})
	return fe.Flush()
}

// receivePostgres passes messages to fn until the server is ready for a query.
func receivePostgres(fe *pgproto3.Frontend, fn func(pgproto3.BackendMessage) error) error {
	for {
		m, err := fe.Receive()
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *pgproto3.ReadyForQuery:
			return nil
		case *pgproto3.ErrorResponse:
			return fmt.Errorf("%s: %s (SQLSTATE %s)", m.Severity, m.Message, m.Code)
		}
		if err := fn(m); err != nil {
			return err
		}
	}
}

func greetPostgres(ctx context.Context, socket string) (version string, err error) {
	err = dialPostgres(ctx, socket, func(_ *pgproto3.Frontend, v string) error {
		// "15.14 (Debian 15.14-0+deb12u1)"
		version, _, _ = strings.Cut(v, " ")
		return nil
	})
	return version, err
}

// askPostgres returns the values of settings, in the format of SHOW. Settings
// that the server doesn't have are left out.
func askPostgres(ctx context.Context, socket string, names []string) (map[string]string, error) {
	names = slices.Clone(names)
	slices.Sort(names)
	for i, name := range names {
		names[i] = "'" + strings.ReplaceAll(name, "'", "''") + "'"
	}
	out := map[string]string{}
	err := dialPostgres(ctx, socket, func(fe *pgproto3.Frontend, _ string) error {
		fe.Send(&pgproto3.Query{String: "SELECT name, current_setting(name) FROM pg_settings WHERE name IN (" +
			strings.Join(slices.Compact(names), ", ") + ")"})
		if err := fe.Flush(); err != nil {
			return err
		}
		return receivePostgres(fe, func(m pgproto3.BackendMessage) error {
			if row, ok := m.(*pgproto3.DataRow); ok && len(row.Values) == 2 {
				out[string(row.Values[0])] = string(row.Values[1])
			}
			return nil
		})
	})
	return out, err
}
