package sandbox

import (
	"fmt"
	"strconv"
)

// logged changes nothing, but is replicated: it gives a new source a position.
const logged = "CREATE DATABASE IF NOT EXISTS " + Database

// binlogArgs returns the replication arguments of a server of the MySQL family. gtid are the
// arguments that turn on GTIDs, and semiSync each role's arguments for semi-synchronous commits.
func binlogArgs(l *launch, gtid []string, semiSync map[string][]string) []string {
	id := "--server-id=" + strconv.Itoa(l.part.number+1)
	var args []string
	switch l.part.role {
	case Source:
		sync := map[string]string{Full: "1", Relaxed: "0", None: "0"}[l.Durability]
		args = append([]string{"--log-bin=binlog", "--binlog-format=ROW", "--sync-binlog=" + sync, id}, gtid...)
	case Replica:
		args = append([]string{"--skip-log-bin", "--relay-log=relay", "--relay-log-recovery=ON", "--skip-slave-start", "--read-only=ON", id}, gtid...)
	default:
		return []string{"--skip-log-bin"}
	}
	if l.part.semiSync {
		args = append(args, semiSync[l.part.role]...)
	}
	return args
}

// followMariaDB returns the statements that let a replica follow its source, from the last change
// that the replica has. They name the source's port, which may have changed since an earlier start.
func followMariaDB(l *launch) []string {
	return []string{"CHANGE MASTER TO MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1, " + sourceAccount(l, "MASTER"), "START SLAVE"}
}

// followMySQL is followMariaDB for MySQL. Because the connection to the source has no TLS, the
// replica encrypts its password by the source's public key.
func followMySQL(l *launch) []string {
	change, word, replica := "CHANGE MASTER TO", "MASTER", "SLAVE"
	if compareVersions(l.bin.version, "8.0.23") >= 0 {
		change, word, replica = "CHANGE REPLICATION SOURCE TO", "SOURCE", "REPLICA"
	}
	return []string{
		fmt.Sprintf("%s %[2]s_AUTO_POSITION = 1, %[2]s_CONNECT_RETRY = 1, GET_%[2]s_PUBLIC_KEY = 1, %[3]s", change, word, sourceAccount(l, word)),
		"START " + replica, "SET GLOBAL super_read_only = ON",
	}
}

func sourceAccount(l *launch, word string) string {
	return fmt.Sprintf("%[1]s_HOST = '127.0.0.1', %[1]s_PORT = %[2]d, %[1]s_USER = '%[3]s', %[1]s_PASSWORD = '%[4]s'",
		word, l.part.head().Port, User, l.headPassword)
}
