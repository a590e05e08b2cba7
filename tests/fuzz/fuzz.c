#include "fuzz/fuzz.h"
#include "base/text.h"
#include <errno.h>
#include <ftw.h>
#include <string.h>

static char *field(fuzz *in, const char *from, size_t n)
{
    if (in->count == FUZZ_FIELDS) return NULL;
    char *copy = malloc(n + 1);
    if (!copy) return NULL;
    memcpy(copy, from, n);
    copy[n] = '\0';
    return in->fields[in->count++] = copy;
}

void fuzz_begin(fuzz *in, const uint8_t *data, size_t size)
{
    *in = (fuzz){.at = (const char *)data, .end = (const char *)data + size};
}

const char *fuzz_text(fuzz *in)
{
    size_t left = (size_t)(in->end - in->at);
    const char *from = in->at, *newline = left ? memchr(from, '\n', left) : NULL;
    size_t n = newline ? (size_t)(newline - from) : left;
    in->at += newline ? n + 1 : n;
    if (n == 0) return NULL;
    return n == 2 && memcmp(from, "\"\"", 2) == 0 ? field(in, "", 0) : field(in, from, n);
}

pawl_bytes fuzz_bytes(fuzz *in)
{
    size_t n = (size_t)(in->end - in->at);
    char *copy = n ? malloc(n) : NULL; /* not even a NUL behind it */
    if (!copy || in->count == FUZZ_FIELDS) return free(copy), (pawl_bytes){NULL, 0};
    memcpy(copy, in->at, n);
    in->at = in->end;
    in->fields[in->count++] = copy;
    return (pawl_bytes){copy, n};
}

int64_t fuzz_int(fuzz *in)
{
    const char *text = fuzz_text(in);
    return text ? strtoll(text, NULL, 0) : 0;
}

double fuzz_real(fuzz *in)
{
    const char *text = fuzz_text(in);
    return text ? strtod(text, NULL) : 0;
}

void fuzz_end(fuzz *in)
{
    for (int i = 0; i < in->count; i++) free(in->fields[i]);
}

void fuzz_failed(pawl_status status, const pawl_error *err)
{
    size_t n = strnlen(err->message, sizeof err->message);
    HOLDS(status > PAWL_OK && status < PAWL_STATUS_COUNT && status != PAWL_INTERNAL);
    HOLDS(err->status == status && n > 0 && n < sizeof err->message && utf8_valid(err->message, n));
    for (size_t i = 0; i < n; i++) HOLDS((unsigned char)err->message[i] >= ' ' && err->message[i] != 0x7f);
}

/* ---- a folder ---------------------------------------------------------------------------------------------------------------- */

static char folder[64];

static int drop(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static void drop_folder(void) { nftw(folder, drop, 8, FTW_DEPTH | FTW_PHYS); }

const char *fuzz_folder(void)
{
    if (folder[0]) return folder;
    snprintf(folder, sizeof folder, "/tmp/pawl-fuzz-XXXXXX");
    if (!mkdtemp(folder)) {
        fprintf(stderr, "%s: %s\n", folder, strerror(errno));
        exit(1);
    }
    atexit(drop_folder);
    return folder;
}
