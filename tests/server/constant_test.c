/* For constant.sh, which runs it under valgrind:
 *
 *     hidden       compares a hash whose bytes memcheck was told to be unknown: whatever branches on one is reported
 *     careless     the same as somebody would write it who does not think of it: must be reported
 *     same N       a hash and one that differs in byte N; 64: in none
 *     token N      a token and a file with three, the hash of one of which differs from its in byte N
 *
 * The latter two call `measured` once for callgrind, after a call that has made everything ready.
 */
#include "base/sha256.h"
#include "server/auth.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <valgrind/memcheck.h>

#define PROBE "pawl_constant"

static auth *tokens;
static char known[SHA256_HEX], other[SHA256_HEX];
static bool answer;

static bool careless_same(const char *a, const char *b)
{
    for (size_t i = 0; i < SHA256_HEX; i++) {
        if (a[i] != b[i]) return false;
    }
    return true;
}

static bool hidden(bool (*same)(const char *, const char *))
{
    (void)VALGRIND_MAKE_MEM_UNDEFINED(other, sizeof other);
    bool found = same(known, other);
    (void)VALGRIND_MAKE_MEM_DEFINED(&found, sizeof found);
    return found;
}

void measured(void);
__attribute__((noinline)) void measured(void)
{
    const char *type, *why;
    caller who;
    int64_t expires_us;
    answer = tokens ? auth_token(tokens, PROBE, &who, &expires_us, &type, &why) == 0 : sha256_same(known, other);
}

static bool open_tokens(const char *path)
{
    pawl_error err;
    token list[3] = {{.name = "a", .scopes = 2}, {.name = "b", .scopes = 2}, {.name = "c", .scopes = 2}};
    memset(list[0].hash, '0', SHA256_HEX);
    memcpy(list[1].hash, other, SHA256_HEX);
    memset(list[2].hash, 'f', SHA256_HEX);
    if (tokens_save(path, &(token_list){list, 3}, &err)) return false;
    tokens = auth_new(path, NULL, 0, &err);
    return tokens != NULL;
}

int main(int argc, char **argv)
{
    if (argc < 2) return 2;
    sha256_hex(PROBE, strlen(PROBE), known);
    memcpy(other, known, sizeof other);
    size_t where = argc > 2 ? (size_t)atoi(argv[2]) : SHA256_HEX;
    if (where < SHA256_HEX) other[where] = other[where] == '0' ? '1' : '0';
    if (strcmp(argv[1], "hidden") == 0) return hidden(sha256_same) ? 0 : 1;
    if (strcmp(argv[1], "careless") == 0) return hidden(careless_same) ? 0 : 1;
    if (strcmp(argv[1], "token") == 0 && (argc < 4 || !open_tokens(argv[3]))) return 2;
    measured();
    measured();
    if (tokens) auth_free(tokens);
    return answer == (where == SHA256_HEX) ? 0 : 1;
}
