package testdb

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// hostile are server defaults that no session may depend on, by kind. Names that
// begin with loose_ are ignored by versions without that variable.
var hostile = map[string]map[string]string{
	"mariadb": {
		"autocommit":                      "0",
		"sql_mode":                        "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,NO_ZERO_DATE,NO_ZERO_IN_DATE,PAD_CHAR_TO_FULL_LENGTH,EMPTY_STRING_IS_NULL",
		"transaction_isolation":           "SERIALIZABLE",
		"transaction_read_only":           "1",
		"completion_type":                 "CHAIN",
		"default_time_zone":               "+05:30",
		"character_set_server":            "latin1",
		"character_set_client_handshake":  "0",
		"collation_server":                "latin1_german2_ci",
		"lower_case_table_names":          "1",
		"innodb_force_primary_key":        "1",
		"sql_safe_updates":                "1",
		"explicit_defaults_for_timestamp": "0",
		"div_precision_increment":         "0",
		"max_join_size":                   "2",
		"max_error_count":                 "0",
		"lc_time_names":                   "de_DE",
		"max_allowed_packet":              "4194304",
		"log_bin_trust_function_creators": "0",
	},
	"mysql": {
		"autocommit":                           "0",
		"sql_mode":                             "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,PAD_CHAR_TO_FULL_LENGTH",
		"transaction_isolation":                "SERIALIZABLE",
		"transaction_read_only":                "1",
		"completion_type":                      "CHAIN",
		"default_time_zone":                    "+05:30",
		"character_set_server":                 "latin1",
		"loose_character_set_client_handshake": "0",
		"collation_server":                     "latin1_german2_ci",
		"sql_require_primary_key":              "1",
		"explicit_defaults_for_timestamp":      "0",
		"div_precision_increment":              "0",
		"max_join_size":                        "2",
		"max_error_count":                      "0",
		"max_execution_time":                   "1",
		"lc_time_names":                        "de_DE",
		"max_allowed_packet":                   "4194304",
	},
	"postgres": {
		"default_transaction_isolation":       "serializable",
		"default_transaction_read_only":       "on",
		"default_transaction_deferrable":      "on",
		"timezone":                            "Asia/Kolkata",
		"datestyle":                           "SQL, DMY",
		"intervalstyle":                       "sql_standard",
		"extra_float_digits":                  "-15",
		"bytea_output":                        "escape",
		"standard_conforming_strings":         "off",
		"escape_string_warning":               "off",
		"backslash_quote":                     "on",
		"search_path":                         "nowhere, pg_catalog, public",
		"client_encoding":                     "LATIN1",
		"quote_all_identifiers":               "on",
		"transform_null_equals":               "on",
		"client_min_messages":                 "error",
		"statement_timeout":                   "1s",
		"lock_timeout":                        "1ms",
		"idle_in_transaction_session_timeout": "1s",
		"lc_time":                             "C",
		"xmlbinary":                           "hex",
	},
}

// hostileGlobals are the variables that no server accepts as an argument.
var hostileGlobals = map[string][]string{
	"mariadb": {"sql_auto_is_null = 1", "sql_select_limit = 1", "sql_big_selects = 0", "sql_quote_show_create = 0", "unique_checks = 0", "foreign_key_checks = 0"},
	"mysql":   {"sql_auto_is_null = 1", "sql_select_limit = 1", "sql_big_selects = 0", "sql_quote_show_create = 0", "unique_checks = 0", "foreign_key_checks = 0", "sql_safe_updates = 1"},
}

// Hostile returns a kind of server whose defaults differ from everything that a session needs:
// autocommit off, another SQL mode, isolation level, time zone and character set, another search
// path, and more. kind is "mariadb", "mysql" or "postgres", with optional parameters.
func Hostile(t testing.TB, kind string) string {
	t.Helper()
	name, rest, _ := strings.Cut(kind, "?")
	var set []string
	for _, variable := range slices.Sorted(maps.Keys(hostile[name])) {
		set = append(set, variable+"="+url.PathEscape(strings.ReplaceAll(hostile[name][variable], ",", "%2C")))
	}
	if rest != "" {
		rest += "&"
	}
	kind = name + "?" + rest + "set=" + strings.ReplaceAll(strings.Join(set, ","), "%252C", "%2C")
	s := Server(t, kind)
	for _, variable := range hostileGlobals[name] {
		if err := execute(s, "SET GLOBAL "+variable); err != nil {
			t.Fatalf("set the defaults of a test server: %v", err)
		}
	}
	return kind
}
