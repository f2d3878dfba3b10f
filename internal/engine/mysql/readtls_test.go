package mysql_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine/mysql"
	"github.com/rowmill/rowmill/internal/testdb"
)

// certificate writes a certificate and its key, which the server's user may read.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "rowmill-tls-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	must(t, os.Chmod(dir, 0o755))
	private, err := rsa.GenerateKey(rand.Reader, 2048) // an old server knows no other
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "rowmill test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	body, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	must(t, err)
	keyBody, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, b := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: body}, key: {Type: "PRIVATE KEY", Bytes: keyBody}} {
		must(t, os.WriteFile(name, pem.EncodeToMemory(b), 0o644))
	}
	return cert, key
}

// TestReadTLS: sessions for reading have the server's texts also over TLS, with each kind of
// password; a certificate that isn't known is refused where it has to be.
func TestReadTLS(t *testing.T) {
	t.Parallel()
	kinds := []string{"mariadb"}
	if testdb.Nightly() { // of newer versions
		kinds = servers
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			cert, key := certificate(t)
			plain := testdb.Open(t, kind+"?set=ssl_cert="+cert+",ssl_key="+key).(*mysql.DB)
			c := session(t, plain)
			plugins := []string{"mysql_native_password"}
			if kind == "mysql" {
				if version := plain.Info().Version; strings.HasPrefix(version, "8.0.1") {
					t.Skipf("MySQL %s has no cipher of TLS in common with Go", version)
				}
				plugins = []string{"caching_sha2_password"}
			}
			for _, plugin := range plugins {
				create := "CREATE USER '" + plugin + "' IDENTIFIED WITH " + plugin + " BY 'secret pass'"
				if kind == "mariadb" {
					create = "CREATE USER '" + plugin + "' IDENTIFIED BY 'secret pass'"
				}
				for _, q := range []string{create, "GRANT ALL ON *.* TO '" + plugin + "'"} {
					if _, err := c.ExecContext(within(t), q); err != nil {
						t.Fatal(err)
					}
				}
			}
			password := filepath.Join(t.TempDir(), "password")
			must(t, os.WriteFile(password, []byte("secret pass"), 0o600))
			target := plain.Target()
			for _, x := range []struct{ user, tls, fails string }{
				{target.User, "skip-verify", ""}, {target.User, "preferred", ""}, {target.User, "true", "tls: "},
				{plugins[0], "skip-verify", ""}, {plugins[len(plugins)-1], "skip-verify", ""},
			} {
				at := target
				at.User = x.user
				at.Query = map[string][]string{"socket": target.Query["socket"], "tls": {x.tls}}
				if x.user != target.User {
					at.Query.Set("password-file", password)
				}
				db, err := mysql.Open(within(t), at)
				if x.fails != "" {
					if err == nil || !strings.Contains(err.Error(), x.fails) {
						t.Errorf("%v: %v", x, err)
					}
					continue
				}
				if err != nil {
					t.Errorf("%v: %v", x, err)
					continue
				}
				s, err := db.ReadSession(within(t), nil)
				if err != nil {
					t.Errorf("%v: %v", x, err)
					must(t, db.Close())
					continue
				}
				for q, want := range map[string]string{
					"SHOW SESSION STATUS LIKE 'Ssl_version'": "TLS", "SELECT CAST(0.1 AS DECIMAL(5,3))": "0.100", "SELECT REPEAT('x', 100000)": strings.Repeat("x", 100000),
				} {
					got := ""
					must(t, s.Text(within(t), q, nil, func(v [][]byte) error { got = string(v[len(v)-1]); return nil }))
					if !strings.HasPrefix(got, want) {
						t.Errorf("%v: %s: %.20q", x, q, got)
					}
				}
				if _, err := db.DescribeQuery(within(t), s, "SELECT 1"); err != nil {
					t.Error(err)
				}
				must(t, s.Close())
				must(t, db.Close())
			}
		})
	}
}
