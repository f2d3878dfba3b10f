package replicate

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// Every connection uses TLS 1.3. The receiver makes a certificate when it starts, which the sender
// doesn't check. Instead, each side proves that it knows the token: it sends an HMAC over keying
// material that only the two ends of this TLS session have. An attacker between the two sides has a
// session with each side. The two sessions have different keying material, so that a proof made in
// one is not valid in the other.

// leastToken is the fewest characters of a token.
const leastToken = 16

// handshakeTime is how long a host is given to answer, proofTime how long a listener waits for a
// sender's proof.
const (
	handshakeTime = 10 * time.Second
	proofTime     = 3 * time.Second
)

// ReadToken reads a token, the secret that all hosts of a chain have, from a file. It refuses a
// file that users other than its owner may read.
func ReadToken(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("token file %s has permissions %04o: other users can read it; chmod 600 %s", path, info.Mode().Perm(), path)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("token file %s is not a file", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if len(token) < leastToken {
		return "", fmt.Errorf("token file %s has %d characters, and needs %d: openssl rand -hex 32 > %s", path, len(token), leastToken, path)
	}
	return token, nil
}

// proof returns one side's proof. role differs between the sides, so no proof can be sent back.
func proof(c *tls.Conn, token, role string) ([]byte, error) {
	state := c.ConnectionState()
	material, err := state.ExportKeyingMaterial("EXPORTER-rowmill-copy", nil, sha256.Size)
	if err != nil {
		return nil, err
	}
	h := hmac.New(sha256.New, []byte(token))
	_, _ = h.Write(append([]byte(role+":"), material...)) // never fails
	return h.Sum(nil), nil
}

// The sides of a connection, as proof's role.
const (
	roleSends    = "send"
	roleReceives = "receive"
)

func certificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	self := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(10, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, self, self, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// dial connects to a receiver, and proves the token both ways. A wrong token is a refusal.
func dial(ctx context.Context, host, token string) (_ *wire, err error) {
	ctx, done := context.WithTimeout(ctx, handshakeTime)
	defer done()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", host)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("%w: nobody listens there; if its receive has ended with exit 0, it has its copy", err)
	}
	if err != nil {
		return nil, err
	}
	below := newBuffered(c)
	w := &wire{Conn: tls.Client(below, &tls.Config{
		MinVersion: tls.VersionTLS13, DynamicRecordSizingDisabled: true,
		InsecureSkipVerify: true, // both sides prove the token instead
	}), below: below, most: unprovenBytes}
	defer func() {
		if err != nil {
			_ = c.Close() // closed already, or of no more use
		}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = errors.New("it takes connections and doesn't answer")
		}
	}()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	if err := w.HandshakeContext(ctx); err != nil {
		if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
			return nil, &refusal{Reason: "it doesn't answer with TLS: it is no rowmill copy receive"}
		}
		return nil, noEOF(err)
	}
	mine, err := proof(w.Conn, token, roleSends)
	if err != nil {
		return nil, err
	}
	if err := w.send(frameProof, mine); err != nil {
		return nil, err
	}
	want, err := proof(w.Conn, token, roleReceives)
	if err != nil {
		return nil, err
	}
	kind, got, err := w.receive(nil)
	switch {
	case err != nil:
		return nil, noEOF(err)
	case kind != frameProof || !hmac.Equal(got, want):
		return nil, &refusal{Reason: "it has another token, or somebody is in between"}
	}
	return w.proven()
}

// accept returns a connection whose sender has proved that it knows the token.
func accept(ctx context.Context, c net.Conn, cert tls.Certificate, token string) (_ *wire, err error) {
	below := newBuffered(c)
	w := &wire{Conn: tls.Server(below, &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, DynamicRecordSizingDisabled: true,
	}), below: below, most: unprovenBytes}
	if err := w.SetDeadline(time.Now().Add(proofTime)); err != nil {
		return nil, err
	}
	if err := w.HandshakeContext(ctx); err != nil {
		if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok && plain.Conn != nil {
			_, _ = io.WriteString(plain.Conn, "rowmill copy: TLS only\n") // it is refused in any case
			return nil, errors.New("it doesn't speak TLS")
		}
		return nil, noEOF(err)
	}
	want, err := proof(w.Conn, token, roleSends)
	if err != nil {
		return nil, err
	}
	kind, got, err := w.receive(nil)
	switch {
	case err != nil:
		return nil, noEOF(err)
	case kind != frameProof || !hmac.Equal(got, want):
		wrong := &refusal{Reason: "wrong token"}
		return nil, errors.Join(wrong, w.refuse(wrong))
	}
	mine, err := proof(w.Conn, token, roleReceives)
	if err != nil {
		return nil, err
	}
	if err := w.send(frameProof, mine); err != nil {
		return nil, err
	}
	return w.proven()
}

// proven permits frames of any size.
func (w *wire) proven() (*wire, error) {
	w.most = mostBytes
	w.below.collect()
	return w, w.SetDeadline(time.Time{})
}
