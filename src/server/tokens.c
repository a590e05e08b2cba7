/* Tokens in a file. Only their hashes are there: whoever reads the file cannot use them. The file is written beside its place and then
 * renamed, mode 0600. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "server/auth.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_MAX_BYTES 1024
#define SECRET_BYTES 32

/* ---- scopes ------------------------------------------------------------------------------------------------------------------- */

static const char *const scope_names[] = {"none",
#define X(name, text, help) text,
                                          SCOPE_TABLE(X)
#undef X
};

const char *scope_name(scope scope) { return scope_names[scope]; }

static scope scope_find(const char *text, size_t n)
{
    for (int i = 1; i < SCOPE_COUNT; i++) {
        if (strlen(scope_names[i]) == n && memcmp(scope_names[i], text, n) == 0) return (scope)i;
    }
    return SCOPE_NONE;
}

bool scopes_parse(const char *text, unsigned *scopes, const char **bad, size_t *bad_len)
{
    *scopes = 0;
    for (const char *at = text, *end; at; at = *end ? end + 1 : NULL) {
        end = strchrnul(at, ',');
        scope found = scope_find(at, (size_t)(end - at));
        *bad = at;
        *bad_len = (size_t)(end - at);
        if (!found) return false;
        *scopes |= 1u << found;
    }
    return true;
}

bool scopes_allow(unsigned scopes, scope wanted)
{
    if (wanted == SCOPE_NONE || (scopes & 1u << SCOPE_ADMIN)) return true;
    if (wanted == SCOPE_READ && (scopes & 1u << SCOPE_OPERATE)) return true;
    return (scopes & 1u << wanted) != 0;
}

/* ---- one line ----------------------------------------------------------------------------------------------------------------- */

static bool hash_valid(const char *text) { return strlen(text) == SHA256_HEX && strspn(text, "0123456789abcdef") == SHA256_HEX; }

static bool time_parse(const char *text, int64_t *us)
{
    *us = 0;
    return strcmp(text, "-") == 0 || rfc3339_parse(text, us);
}

/* Six words: names with spaces have no place here, and "pawl tokens" refuses them. */
static bool parse_line(char *line, token *t)
{
    char *words[6], *rest = line, *bad;
    size_t bad_len;
    for (int i = 0; i < 6; i++) {
        if (!(words[i] = strsep(&rest, " ")) || !*words[i]) return false;
    }
    if (rest || strlen(words[0]) > TOKEN_NAME_MAX || !name_valid(words[0], NULL)) return false;
    if (!scopes_parse(words[1], &t->scopes, (const char **)&bad, &bad_len) || !hash_valid(words[2])) return false;
    if (!time_parse(words[4], &t->created_us) || !time_parse(words[5], &t->expires_us)) return false;
    snprintf(t->name, sizeof t->name, "%s", words[0]);
    memcpy(t->hash, words[2], SHA256_HEX);
    if (strcmp(words[3], "-") == 0) return true;
    if (!name_valid(words[3], NULL)) return false;
    snprintf(t->tenant, sizeof t->tenant, "%s", words[3]);
    return true;
}

static void print_token(FILE *out, const token *t)
{
    char created[RFC3339_TEXT] = "-", expires[RFC3339_TEXT] = "-";
    const char *comma = "";
    if (t->created_us) rfc3339_format(t->created_us, created);
    if (t->expires_us) rfc3339_format(t->expires_us, expires);
    fprintf(out, "%s ", t->name);
    for (int i = 1; i < SCOPE_COUNT; i++) {
        if (!(t->scopes & 1u << i)) continue;
        fprintf(out, "%s%s", comma, scope_names[i]);
        comma = ",";
    }
    fprintf(out, " %.*s %s %s %s\n", SHA256_HEX, t->hash, *t->tenant ? t->tenant : "-", created, expires);
}

/* ---- the file ----------------------------------------------------------------------------------------------------------------- */

/* A secret that everybody can read is none. */
static pawl_status check_mode(const char *path, int fd, pawl_error *err)
{
    struct stat st;
    if (fstat(fd, &st)) return err_set(err, PAWL_UNAVAILABLE, "could not look at \"%s\": %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode)) return err_set(err, PAWL_INVALID, "\"%s\" is not a file", path);
    if (st.st_mode & 022) return err_set(err, PAWL_DENIED, "others can write to \"%s\": chmod 600 it", path);
    return PAWL_OK;
}

static pawl_status read_lines(const char *path, FILE *in, token_list *out, pawl_error *err)
{
    char line[LINE_MAX_BYTES];
    for (int number = 1; fgets(line, sizeof line, in); number++) {
        line[strcspn(line, "\n")] = '\0';
        if (!*line || *line == '#') continue;
        if (out->count == TOKENS_MAX) return err_set(err, PAWL_TOO_LARGE, "\"%s\" has more than %d tokens", path, TOKENS_MAX);
        if (!parse_line(line, &out->tokens[out->count++]))
            return err_set(err, PAWL_INVALID, "\"%s\", line %d is not a token: use \"pawl tokens add\"", path, number);
    }
    return PAWL_OK;
}

pawl_status tokens_load(const char *path, token_list *out, pawl_error *err)
{
    *out = (token_list){0};
    FILE *in = fopen(path, "re");
    if (!in && errno == ENOENT) return PAWL_OK;
    if (!in) return err_set(err, PAWL_DENIED, "could not read \"%s\": %s", path, strerror(errno));
    out->tokens = alloc_new(alloc_default(), TOKENS_MAX * sizeof *out->tokens);
    pawl_status status = out->tokens ? check_mode(path, fileno(in), err) : err_set(err, PAWL_NO_MEMORY, "out of memory");
    if (!status) status = read_lines(path, in, out, err);
    fclose(in);
    if (status) tokens_free(out);
    return status;
}

pawl_status tokens_save(const char *path, const token_list *list, pawl_error *err)
{
    char beside[4096];
    if (snprintf(beside, sizeof beside, "%s.%ld", path, (long)getpid()) >= (int)sizeof beside)
        return err_set(err, PAWL_INVALID, "the path is too long");
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!out) return err_set(err, PAWL_DENIED, "could not write \"%s\": %s", beside, strerror(errno));
    fputs("# Tokens of pawl serve: name, scopes, SHA-256, tenant, created, expires. Changed by \"pawl tokens\".\n", out);
    for (size_t i = 0; i < list->count; i++) print_token(out, &list->tokens[i]);
    bool ok = fflush(out) == 0 && fsync(fd) == 0;
    ok = fclose(out) == 0 && ok && rename(beside, path) == 0;
    if (ok) return PAWL_OK;
    err_set(err, PAWL_UNAVAILABLE, "could not write \"%s\": %s", path, strerror(errno));
    unlink(beside);
    return err->status;
}

void tokens_free(token_list *list)
{
    alloc_free(alloc_default(), list->tokens);
    *list = (token_list){0};
}

/* "pawl_" and 32 random bytes in an alphabet that needs no quoting anywhere. */
bool token_make(char text[TOKEN_TEXT])
{
    static const char letters[] = "0123456789abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ_-~.+";
    unsigned char bytes[SECRET_BYTES + 12];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) return false;
    char *at = text + snprintf(text, TOKEN_TEXT, "pawl_");
    for (size_t i = 0; i < sizeof bytes; i++) *at++ = letters[bytes[i] & 63];
    *at = '\0';
    return true;
}
