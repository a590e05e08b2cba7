/* The statements of the .sql files, in the order of statements.h. */
#include "postgres_sql.h"
#include "store/postgres/conn.h"

const char *const pg_statement_texts[SQL_COUNT] = {
#define X(name) sql_##name,
    SQL_TABLE(X)
#undef X
};
