/* The statements of the .sql files, in the order of statements.h. */
#include "mysql_sql.h"
#include "store/mysql/conn.h"

const char *const my_statement_texts[SQL_COUNT] = {
#define X(name) sql_##name,
    SQL_TABLE(X)
#undef X
};
