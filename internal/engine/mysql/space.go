package mysql

import (
	"context"
	"fmt"
	"strings"
)

// A tablespace is an InnoDB file.
type tablespace struct {
	id        int64
	partition string // "" for a whole table
	file      int64  // bytes
	allocated int64  // bytes on disk, without the holes of compressed pages
}

// fileName encodes an identifier as in the names of files and of InnoDB: characters
// other than ASCII letters, digits and underscores are written in hexadecimal. The
// server encodes other letters by its own tables; for a table with such a name, no
// tablespaces are found.
func fileName(ident string) string {
	var out strings.Builder
	for _, r := range ident {
		if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			out.WriteRune(r)
		} else {
			fmt.Fprintf(&out, "@%04x", r)
		}
	}
	return out.String()
}

// tablespaces renders the query for the files of a table. database is an SQL
// expression.
func (d dialect) tablespaces(database, table string) string {
	view := "INNODB_TABLESPACES"
	if d.mariadb {
		view = "INNODB_SYS_TABLESPACES"
	}
	name := "/" + d.stored(fileName(table))
	begin := "CONCAT(" + database + ", " + quoteText(name+"#p#") + ")"
	return fmt.Sprintf("SELECT SPACE, NAME, FILE_SIZE, ALLOCATED_SIZE FROM information_schema.%s WHERE NAME = CONCAT(%s, %s) OR LEFT(NAME, CHAR_LENGTH(%s)) = %s",
		view, database, quoteText(name), begin, begin)
}

// tablespaces returns the files of a table. It returns none if they can't be read,
// which needs the privilege PROCESS, or if there are none, as with another storage
// engine.
func (db *DB) tablespaces(ctx context.Context, from querent, table string) ([]tablespace, error) {
	database := fileName(db.config.DBName)
	name := db.dialect.stored(database + "/" + fileName(table))
	rows, err := from.QueryContext(ctx, db.dialect.tablespaces(quoteText(db.dialect.stored(database)), table))
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, classify(err)
	}
	defer rows.Close()
	var out []tablespace
	for rows.Next() {
		var s tablespace
		var full string
		if err := rows.Scan(&s.id, &full, &s.file, &s.allocated); err != nil {
			return nil, classify(err)
		}
		if len(full) > len(name) {
			s.partition = full[len(name)+len("#p#"):]
		}
		out = append(out, s)
	}
	err = rows.Err()
	if missing(err) { // newer MySQL checks privileges only here
		return nil, nil
	}
	return out, classify(err)
}
