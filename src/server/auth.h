/* Who a request comes from, and what they may do. */
#ifndef SERVER_AUTH_H
#define SERVER_AUTH_H

#include "base/sha256.h"
#include "http/http.h"
#include <pawl.h>

/* clang-format off */
#define SCOPE_TABLE(X)                                                        \
    X(READ,    "read",    "look at tasks, queues, limits, nodes, events")     \
    X(ENQUEUE, "enqueue", "hand over tasks")                                  \
    X(WORK,    "work",    "run tasks for others")                             \
    X(OPERATE, "operate", "cancel, retry, pause, limit; read is included")    \
    X(ADMIN,   "admin",   "everything")

typedef enum scope {
    SCOPE_NONE = 0,
#define X(name, text, help) SCOPE_##name,
    SCOPE_TABLE(X)
#undef X
    SCOPE_COUNT
} scope;
/* clang-format on */

const char *scope_name(scope scope);
/* "read,enqueue" as bits (1 << scope); false: *bad (in `text`) is no scope. */
bool scopes_parse(const char *text, unsigned *scopes, const char **bad, size_t *bad_len);
bool scopes_allow(unsigned scopes, scope wanted);

#define TOKEN_NAME_MAX 64
#define TOKEN_TENANT_MAX 201
#define TOKENS_MAX 1000

typedef struct token {
    char name[TOKEN_NAME_MAX + 1];
    char hash[SHA256_HEX];         /* of the token's text */
    char tenant[TOKEN_TENANT_MAX]; /* "": of all */
    unsigned scopes;
    int64_t created_us, expires_us; /* expires 0: never */
} token;

typedef struct caller {
    char name[TOKEN_NAME_MAX + 1]; /* for the operator log */
    char tenant[TOKEN_TENANT_MAX];
    unsigned scopes;
} caller;

/* tokens.c: the file. One token a line: NAME SCOPES HASH TENANT|- CREATED EXPIRES|-. */
typedef struct token_list {
    token *tokens;
    size_t count;
} token_list;

pawl_status tokens_load(const char *path, token_list *out, pawl_error *err); /* no file: none */
pawl_status tokens_save(const char *path, const token_list *list, pawl_error *err);
void tokens_free(token_list *list);
#define TOKEN_TEXT 64
bool token_make(char text[TOKEN_TEXT]); /* a new secret; false: the system has no randomness */

typedef struct auth auth;

auth *auth_new(const char *tokens, const char *const *hosts, size_t hosts_count, pawl_error *err);
pawl_status auth_reload(auth *a, pawl_error *err);
void auth_free(auth *a);
bool auth_has_tokens(auth *a);

/* Checks Host, Origin, Sec-Fetch-Site and the token. 0 and *who; or a status, with *type and *why for the problem. */
int auth_check(auth *a, http_request *r, scope wanted, bool whole_store, caller *who, const char **type, const char **why);

/* Who sent it, whatever they may do. The same of a token that was not sent as such. */
int auth_who(auth *a, http_request *r, caller *who, const char **type, const char **why);
int auth_token(auth *a, const char *text, caller *who, int64_t *expires_us, const char **type, const char **why);

#define TOKEN_COOKIE "pawl_token"
#define TOKEN_BYTES_MAX 512

#endif
