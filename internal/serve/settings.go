package serve

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// A sessionState has the settings of the client's connection.
type sessionState struct {
	engine.State
	notes bool // SHOW WARNINGS has notes
	// unconverted says that the server returns each text in its column's character set. Pieces return
	// UTF-8, which has the same bytes only if the column's character set is UTF-8, too.
	unconverted bool
	idle        time.Duration // after so long without a statement the server ends the connection
}

// resultsSetting has the character set to which texts of results are converted; "" is none.
const resultsSetting = "character_set_results"

// leastPacket is the smallest max_allowed_packet of a session whose queries are split. The server
// ends the connection after a packet that is longer than its max_allowed_packet. The front's own
// statements are always shorter than leastPacket, because they are made from texts of at most
// session.MaxText bytes.
const leastPacket = 1 << 20

// settings reads the settings of the client's connection. It refuses settings under which no query
// is split.
func (c *client) settings() (*sessionState, error) {
	names, err := c.front.stateNames()
	if err != nil {
		return nil, &notSplit{whyState, err.Error()}
	}
	row, err := c.server.askRow("SELECT ROW_COUNT(), FOUND_ROWS(), @@SESSION.max_allowed_packet, CAST(@@SESSION.timestamp AS CHAR) LIMIT 1")
	if err != nil {
		return nil, err
	}
	if n, err := strconv.ParseInt(string(row[1]), 10, 64); err == nil && c.found < 0 {
		c.found, c.zero = n, string(row[0]) == "0"
	}
	at := string(row[3])
	if most, _ := strconv.Atoi(string(row[2])); most < leastPacket {
		return nil, &notSplit{whyState, fmt.Sprintf("max_allowed_packet is %d, and less than %d", most, leastPacket)}
	}
	var list strings.Builder
	list.WriteString("SELECT ")
	for _, name := range names {
		if name == "database" {
			list.WriteString("CAST(CONVERT(DATABASE() USING utf8mb4) AS BINARY), ")
		} else {
			fmt.Fprintf(&list, "CAST(CONVERT(@@SESSION.%s USING utf8mb4) AS BINARY), ", name)
		}
	}
	list.WriteString("CAST(@@SESSION.timestamp AS CHAR), @@SESSION.sql_notes, @@SESSION." + c.front.isolation + ", @@SESSION.wait_timeout LIMIT 1")
	if row, err = c.server.askRow(list.String()); err != nil {
		return nil, err
	}
	st := &sessionState{}
	for i, name := range names {
		value := string(row[i])
		if name == resultsSetting && value == "" {
			st.unconverted, value = true, "utf8mb4"
		}
		st.State = append(st.State, engine.Setting{Name: name, Value: value})
	}
	own := row[len(names):]
	st.notes = string(own[1]) == "1"
	seconds, err := strconv.ParseInt(string(own[3]), 10, 64)
	if err != nil {
		return nil, &notSplit{whyState, "wait_timeout has another form"}
	}
	st.idle = time.Duration(seconds) * time.Second
	c.session.Quiet = !st.notes
	if string(own[0]) == at {
		return nil, &notSplit{whyState, "the session has set the time"}
	}
	if level := string(own[2]); level == "READ-UNCOMMITTED" || level == "SERIALIZABLE" {
		return nil, &notSplit{whyState, "the isolation level is " + level}
	}
	// The answer to this query says whether a transaction is open. The response to the client's last
	// command may not say so: a response that is an error has no status.
	c.session.Outcome = c.server.reply.outcome()
	if c.session.Refusal() != nil {
		return nil, &notSplit{whyState, "a transaction is open"}
	}
	if why := c.front.o.Reader.StateRefusal(st.State); why != "" {
		return nil, &notSplit{whyState, why}
	}
	return st, nil
}

// stateNames returns the names of the settings that can change an answer, in the order in which
// they must be set. It asks the server only the first time.
func (f *Front) stateNames() ([]string, error) {
	f.names.Lock()
	defer f.names.Unlock()
	if f.names.list != nil {
		return f.names.list, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	s, err := f.o.Reader.ReadSession(ctx, nil)
	if err != nil {
		return nil, err
	}
	st, err := f.o.Reader.ReadState(ctx, s)
	isolation := "transaction_isolation"
	if err == nil {
		// MariaDB has had this name since 11.1. MySQL has had only this name since 8.0.
		if _, missing := s.State(ctx, isolation); missing != nil {
			isolation = "tx_isolation"
		}
	}
	if err = errors.Join(err, s.Close()); err != nil {
		return nil, err
	}
	names := make([]string, len(st))
	for i, x := range st {
		names[i] = x.Name
	}
	f.names.list, f.isolation = names, isolation
	return names, nil
}
