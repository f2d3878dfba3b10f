package mysql

import "github.com/rowmill/rowmill/internal/engine"

// Dump describes the dumps of mysqldump, mariadb-dump and mydumper.
func Dump() engine.Dump {
	begin := []string{"-- MySQL dump ", "-- MariaDB dump "}
	return engine.Dump{Marks: append([]string{"/*!40", "/*M!", "INSERT INTO `", "CREATE TABLE `"}, begin...), Begin: begin, End: []string{"-- Dump completed"}}
}
