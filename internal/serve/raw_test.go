package serve

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/mysqlwire"
)

// A rawClient speaks the protocol itself, so that tests compare answers byte by byte. Its user has
// no password.
type rawClient struct {
	t testing.TB
	side
	caps     uint32
	extended uint32
	id       uint32
	reply    reply
}

// capsOfTests are the capabilities of clients of today.
const capsOfTests = mysqlwire.CapProtocol41 | mysqlwire.CapPluginAuth | mysqlwire.CapConnectWithDB | 1<<2 /* all flags of columns */ | 1<<13 | 1<<15 |
	1<<16 /* several statements */ | 1<<17 | 1<<18

// dialRaw connects to an address, which is the front's or the server's.
func dialRaw(t testing.TB, network, address, database string, caps, extended uint32) *rawClient {
	t.Helper()
	conn, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
	r := &rawClient{t: t, side: side{Conn: conn}}
	greeting, err := r.packet(1 << 16)
	if err != nil {
		t.Fatal(err)
	}
	body := greeting[mysqlwire.HeaderSize:]
	at := bytes.IndexByte(body, 0) + 1
	r.id = binary.LittleEndian.Uint32(body[at:])
	offered := uint32(binary.LittleEndian.Uint16(body[at+13:])) | uint32(binary.LittleEndian.Uint16(body[at+18:]))<<16
	r.caps = (caps | capsOfTests) & offered
	if offered&mysqlwire.CapMySQL == 0 {
		r.extended = extended & binary.LittleEndian.Uint32(body[at+27:])
	}
	p := mysqlwire.Begin(nil, 1)
	p = binary.LittleEndian.AppendUint32(p, r.caps)
	p = append(p, 0, 0, 0, 1, 45)
	p = append(p, make([]byte, 19)...)
	p = binary.LittleEndian.AppendUint32(p, r.extended)
	p = append(p, "root\x00\x00"...)
	p = append(p, database...)
	p, _ = mysqlwire.End(append(p, "\x00mysql_native_password\x00"...), 0)
	if _, err := r.Write(p); err != nil {
		t.Fatal(err)
	}
	for {
		p, err := r.packet(1 << 16)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case p[mysqlwire.HeaderSize] == mysqlwire.OK:
			r.reply.eofs, r.reply.meta = r.caps&mysqlwire.CapDeprecateEOF == 0, r.extended&mysqlwire.CapCacheMeta != 0
			return r
		case p[mysqlwire.HeaderSize] == mysqlwire.EOF:
			p, _ := mysqlwire.End(mysqlwire.Begin(nil, p[3]+1), 0)
			if _, err := r.Write(p); err != nil {
				t.Fatal(err)
			}
		case p[mysqlwire.HeaderSize] == mysqlwire.Error:
			t.Fatal(mysqlwire.ReadError(p[mysqlwire.HeaderSize:]))
		}
	}
}

// changeUser sends COM_CHANGE_USER for an account without a password, and returns the server's last
// packet.
func (r *rawClient) changeUser(name, database string) []byte {
	r.t.Helper()
	p, _ := mysqlwire.End(append(mysqlwire.Begin(nil, 0), "\x11"+name+"\x00\x00"+database+"\x00\x2d\x00mysql_native_password\x00"...), 0)
	for {
		if _, err := r.Write(p); err != nil {
			r.t.Fatal(err)
		}
		answer, err := r.packet(1 << 16)
		if err != nil {
			r.t.Fatalf("%s: %v", name, err)
		}
		if answer[mysqlwire.HeaderSize] != mysqlwire.EOF { // another method of authentication
			return answer
		}
		p, _ = mysqlwire.End(mysqlwire.Begin(nil, answer[3]+1), 0)
	}
}

// command sends a command and returns the packets of its response, with their headers.
func (r *rawClient) command(what byte, payload string) [][]byte {
	r.t.Helper()
	p := append(mysqlwire.Begin(nil, 0), what)
	if what == mysqlwire.ComQuery && r.caps&mysqlwire.CapAttributes != 0 {
		p = append(p, 0, 1)
	}
	p, _ = mysqlwire.End(append(p, payload...), 0)
	if _, err := r.Write(p); err != nil {
		r.t.Fatal(err)
	}
	r.reply.follow(p[mysqlwire.HeaderSize:])
	var all [][]byte
	for r.reply.expect != expectNothing {
		p, err := r.packet(mysqlwire.MaxPayload)
		if err != nil {
			r.t.Fatalf("%.60s: %v", payload, err)
		}
		if n, _ := r.reply.feed(p); n != len(p) {
			r.t.Fatalf("%.60s: the reply took %d bytes of a packet of %d", payload, n, len(p))
		}
		all = append(all, bytes.Clone(p))
	}
	return all
}
