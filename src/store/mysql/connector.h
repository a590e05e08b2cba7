/* MariaDB Connector/C, without the names of lists that it takes from everybody. */
#ifndef STORE_MYSQL_CONNECTOR_H
#define STORE_MYSQL_CONNECTOR_H

#include <mysql.h>

#undef list_push
#undef list_pop
#undef list_rest

#endif
