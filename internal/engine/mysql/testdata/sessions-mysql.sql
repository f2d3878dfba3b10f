-- engine.Connect
SET NAMES utf8mb4 COLLATE utf8mb4_general_ci;
SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', autocommit = 1, completion_type = 'NO_CHAIN', sql_auto_is_null = 0, sql_safe_updates = 0, sql_select_limit = 18446744073709551615, sql_big_selects = 1, unique_checks = 1, foreign_key_checks = 1, div_precision_increment = 4, net_write_timeout = 3600, sql_quote_show_create = 1 /*!80000 , max_execution_time = 0 */ /*M!100108 , max_statement_time = 0 */;
SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE;
SET SESSION explicit_defaults_for_timestamp = ON;
-- engine.Connect
SET NAMES utf8mb4 COLLATE utf8mb4_general_ci;
SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00', autocommit = 1, completion_type = 'NO_CHAIN', sql_auto_is_null = 0, sql_safe_updates = 0, sql_select_limit = 18446744073709551615, sql_big_selects = 1, unique_checks = 1, foreign_key_checks = 1, div_precision_increment = 4, net_write_timeout = 3600, sql_quote_show_create = 1, lock_wait_timeout = 1, innodb_lock_wait_timeout = 5, old_alter_table = OFF /*!80000 , max_execution_time = 0 */ /*M!100108 , max_statement_time = 0 */;
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
SET SESSION explicit_defaults_for_timestamp = ON;
