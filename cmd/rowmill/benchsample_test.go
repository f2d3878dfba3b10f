package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/testdb"
)

// canaryDeclaration declares a table of words; target and type of binary values are to be filled
// in.
const canaryDeclaration = `
[table]
name   = "words"
target = "%s"
time   = "at"
create = '''
CREATE TABLE words (at BIGINT NOT NULL, word VARCHAR(20) NOT NULL, city VARCHAR(20) NOT NULL, note VARCHAR(60), raw %s, size INT,
  PRIMARY KEY (at, word))'''
[period]
rows = 1000000
[values]
[values.size]
distinct = 7
[seal]
after = "2000000 rows"
`

// TestBenchSample learns the values of a table, measures what was learned, plain and rolling, and
// finds none of the table's 10,000 strings in what the two commands have written.
func TestBenchSample(t *testing.T) {
	if apart(t) {
		return
	}
	kinds, copies := []string{"sqlite"}, 4
	if testdb.Nightly() {
		kinds, copies = keepers, 20
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			source, url, binary := "sqlite:source.db", "sqlite:", "BLOB"
			if kind != "sqlite" {
				source, url = testdb.Target(t, kind).String(), testdb.Target(t, kind).String()
			}
			if kind == "postgres" {
				binary = "bytea"
			}
			t.Chdir(t.TempDir())
			db := openKeeper(t, source)
			declaration := fmt.Sprintf(canaryDeclaration, "sqlite:nowhere/x.db", binary)
			if kind != "sqlite" {
				declaration = fmt.Sprintf(canaryDeclaration, unreachable(url), binary)
			}
			create := declaration[strings.Index(declaration, "CREATE"):strings.LastIndex(declaration, "'''")]
			canaries := map[string]bool{}
			random := rand.New(rand.NewPCG(1, 2))
			for len(canaries) < 10_000 {
				word := make([]byte, 8)
				for i := range word {
					word[i] = 'A' + byte(random.IntN(26))
				}
				canaries[string(word)] = true
			}
			execSQL(t, db, "CREATE TABLE canaries (id INTEGER, word VARCHAR(20))")
			execSQL(t, db, "CREATE TABLE copies (id INTEGER)")
			execSQL(t, db, create)
			var rows []string
			for word := range canaries {
				rows = append(rows, fmt.Sprintf("(%d, '%s')", len(rows), word))
			}
			execSQL(t, db, "INSERT INTO canaries VALUES "+strings.Join(rows, ", "))
			for i := range copies {
				execSQL(t, db, fmt.Sprintf("INSERT INTO copies VALUES (%d)", i))
			}
			execSQL(t, db, "INSERT INTO words SELECT copies.id * 10000 + w.id, w.word, c.word, CASE WHEN w.id % 3 > 0 THEN w.word END, x.raw, w.id % 100 "+
				"FROM canaries w JOIN (SELECT * FROM canaries WHERE id < 3) c ON c.id = w.id % 3 CROSS JOIN copies CROSS JOIN "+
				map[bool]string{false: "(SELECT 'HARMLESS' AS raw)", true: "(SELECT decode('00ff', 'hex') AS raw)"}[kind == "postgres"]+" x")
			for _, q := range map[string][]string{
				"sqlite": {"ANALYZE"}, "postgres": {"ANALYZE"},
				"mysql":   {"ANALYZE TABLE words", "ANALYZE TABLE words UPDATE HISTOGRAM ON city"},
				"mariadb": {"ANALYZE TABLE words PERSISTENT FOR ALL"},
			}[kind] {
				if _, err := db.SQL().ExecContext(t.Context(), q); err != nil {
					t.Fatal(err)
				}
			}
			writeFile(t, "words.toml", declaration)
			said := []session{
				benched(t, "insert --table words.toml --learned learned.toml --layout plain,rolling --rows 3k --batch 100 --period-rows 1k "+
					"--out run.jsonl --html run.html --png run.png --csv run.csv --target "+url+" --sample "+source),
				verb(t, "report run.jsonl --md run.md"), verb(t, "report run.jsonl --json"),
			}
			if !strings.Contains(said[0].stderr, "learned from ") || !strings.Contains(said[0].stdout, "3,000 rows found of 3,000 expected, checksum equal") {
				t.Errorf("%s%s", said[0].stdout, said[0].stderr)
			}
			learned, err := os.ReadFile("learned.toml")
			must(t, err)
			for _, want := range []string{"# Values were learned from ", "[values.word]\n", "length = [8, 8]", "[values.city]\ndistinct = 3\n", "[values.size]\ndistinct = 7\n", "[seal]"} {
				if strings.Count(string(learned), want) == 0 || strings.Count(string(learned), "[values]") != 1 {
					t.Errorf("%q isn't in what was learned, or the values are there twice:\n%s", want, learned)
				}
			}
			if r := records(t, "run.jsonl")[1]; r.Run.Spec == nil || !strings.Contains(string(r.Run.Spec), "[values.word]") {
				t.Errorf("what was learned isn't in the record: %s", r.Run.Spec)
			}
			benched(t, "insert --table learned.toml --rows 100 --drop-existing --no-verify --target "+url)
			files, err := os.ReadDir(".")
			must(t, err)
			for _, f := range files {
				if !f.IsDir() && !strings.HasPrefix(f.Name(), "source.db") {
					text, err := os.ReadFile(f.Name())
					must(t, err)
					said = append(said, session{stdout: string(text)})
				}
			}
			for _, s := range said {
				mustPass(t, s)
				for text := s.stdout + "\n" + s.stderr; len(text) >= 8; text = text[1:] {
					if canaries[text[:8]] {
						t.Fatalf("a string of the source: %.80q", text)
					}
				}
			}
		})
	}
}

// TestBenchSampleRefuses checks what can't be sampled.
func TestBenchSampleRefuses(t *testing.T) {
	if apart(t) {
		return
	}
	for _, kind := range testdb.Kinds(t, keepers...) {
		t.Run(kind, func(t *testing.T) {
			source, declared := "sqlite:source.db", "sqlite:nowhere/x.db"
			if kind != "sqlite" {
				source = testdb.Target(t, kind).String()
				declared = unreachable(source)
			}
			t.Chdir(t.TempDir())
			writeFile(t, "words.toml", fmt.Sprintf(canaryDeclaration, declared, "VARCHAR(9)"))
			db := openKeeper(t, source)
			for _, q := range []string{
				"CREATE TABLE other (id INTEGER NOT NULL, word VARCHAR(20), PRIMARY KEY (id))",
				"CREATE TABLE hollow (at INTEGER NOT NULL, PRIMARY KEY (at))",
				"CREATE TABLE few (at INTEGER NOT NULL, word VARCHAR(20), PRIMARY KEY (at))",
				"INSERT INTO few VALUES (1, 'a'), (2, 'b'), (3, 'c')",
				"CREATE VIEW seen AS SELECT * FROM few",
			} {
				execSQL(t, db, q)
			}
			wants := map[string]string{
				"": "no such table", "other": "it has no column at, by which words.toml rolls", "hollow": "empty", "few": "too few", "seen": "view",
			}
			for name, want := range wants {
				line := "bench insert --table words.toml --target sqlite: --sample " + source
				if name != "" {
					line += " --sample-table " + name
				}
				s := verb(t, line)
				if s.code != exitFailed || !strings.Contains(s.stderr, "--sample: sample table "+map[bool]string{true: "words", false: name}[name == ""]+": ") ||
					!strings.Contains(s.stderr, want) || !strings.Contains(s.stderr, "Try: ") {
					t.Errorf("%s: exit %d, %s\nwant %s", name, s.code, s.stderr, want)
				}
			}
		})
	}
	t.Chdir(t.TempDir())
	writeFile(t, "words.toml", fmt.Sprintf(canaryDeclaration, "sqlite:x.db", "BLOB"))
	for args, want := range map[string]string{
		"--sample sqlite:x.db":                                           "--sample, --sample-table and --learned are for --table",
		"--table words.toml --target sqlite: --learned x.toml":           "--sample-table and --learned are for --sample",
		"--table words.toml --target sqlite: --sample oracle:x":          "--sample: target: unknown scheme",
		"--table words.toml --target sqlite: --sample sqlite:missing.db": "--sample: no such file: missing.db",
		"--table words.toml --target sqlite: --sample null:":             "--sample: null has no tables to sample",
	} {
		if s := verb(t, "bench insert "+args); s.code != exitUsage || !strings.Contains(s.stderr, want) || !strings.Contains(s.stderr, "Try: ") {
			t.Errorf("%s: exit %d, %s\nwant %s", args, s.code, s.stderr, want)
		}
	}
}
