/* Opening the file of an import, and the place it has come to. */
#include "base/error.h"
#include "base/text.h"
#include "handlers/import.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a file beneath a directory ------------------------------------------------------------------------------------------------- */

static pawl_status cannot(const char *path, const char *why, pawl_error *err)
{
    return err_set(err, PAWL_INVALID, "cannot import \"%.200s\": %s", path, why);
}

/* One name of a path, below `dir`. Links are not followed, so nothing leads out. */
static int step(int dir, const char *name, size_t n, bool last)
{
    char text[NAME_MAX_BYTES * 2];
    if (n == 0 || n >= sizeof text || (n == 1 && *name == '.') || (n == 2 && memcmp(name, "..", 2) == 0)) {
        errno = EINVAL;
        return -1;
    }
    memcpy(text, name, n);
    text[n] = '\0';
    return openat(dir, text,
                  last ? O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY
                       : O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int walk(int dir, const char *path)
{
    for (;;) {
        size_t n = strcspn(path, "/");
        int next = step(dir, path, n, !path[n]), why = errno;
        close(dir);
        errno = why;
        if (next < 0 || !path[n]) return next;
        dir = next;
        path += n + 1;
    }
}

pawl_status import_open_file(const char *directory, const char *path, int *fd, pawl_error *err)
{
    struct stat st;
    int dir = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) return err_set(err, PAWL_UNAVAILABLE, "could not open the directory \"%.200s\": %s", directory, strerror(errno));
    int file = walk(dir, path);
    if (file < 0 && (errno == ELOOP || errno == ENOTDIR)) return cannot(path, "a link, or no directory, is on its way", err);
    if (file < 0 && (errno == EINVAL || errno == ENXIO))
        return cannot(path, "it must be a plain file, named by a relative path without \"..\"", err);
    if (file < 0) return err_set(err, PAWL_UNAVAILABLE, "could not open \"%.200s\": %s", path, strerror(errno));
    if (fstat(file, &st) || !S_ISREG(st.st_mode)) {
        close(file);
        return cannot(path, "it is not a plain file", err);
    }
    *fd = file;
    return PAWL_OK;
}

/* ---- the place ------------------------------------------------------------------------------------------------------------------ */

static const struct number {
    const char *name;
    size_t offset;
} numbers[] = {{"offset", offsetof(import_place, offset)}, {"line", offsetof(import_place, line)},
               {"rows", offsetof(import_place, rows)},     {"bad", offsetof(import_place, bad)},
               {"size", offsetof(import_place, size)},     {"mtime_us", offsetof(import_place, mtime_us)},
               {"inode", offsetof(import_place, inode)}};

#define NUMBERS (sizeof numbers / sizeof *numbers)

static pawl_status read_text(json value, const char *what, pawl_arena *arena, const char **out, pawl_error *err)
{
    buf text;
    buf_init(&text, pawl_arena_allocator(arena), 8 << 10);
    if (!json_string(value, &text) || strlen(buf_text(&text)) != text.len)
        return err_set(err, PAWL_INVALID, "the payload's \"%s\" is not text, or too long", what);
    *out = buf_text(&text);
    return PAWL_OK;
}

static bool is_named(json key, const char *name)
{
    size_t n = strlen(name);
    return key.raw.len == n + 2 && memcmp(key.raw.data + 1, name, n) == 0;
}

static pawl_status read_resume(json object, pawl_arena *arena, import_place *out, pawl_error *err)
{
    const char *import = NULL;
    pawl_status status = read_text(json_member(object, "import"), "import", arena, &import, err);
    pawl_id id;
    if (status) return status;
    if (!pawl_id_parse(import, &id)) return err_set(err, PAWL_INVALID, "the payload's \"resume\" is not of an import");
    pawl_id_format(id, out->import);
    for (size_t i = 0; i < NUMBERS; i++) {
        int64_t *to = (int64_t *)((char *)out + numbers[i].offset);
        if (!json_int(json_member(object, numbers[i].name), to) || (*to < 0 && to != &out->mtime_us))
            return err_set(err, PAWL_INVALID, "the payload's \"resume\" has no \"%s\"", numbers[i].name);
    }
    json errors = json_member(object, "errors");
    if (errors.kind == JSON_ARRAY) out->errors = errors.raw;
    return PAWL_OK;
}

pawl_status import_place_read(pawl_bytes payload, pawl_arena *arena, import_place *out, pawl_error *err)
{
    json key, value;
    *out = (import_place){0};
    if (!json_valid(payload, NULL, NULL) || json_parse(payload).kind != JSON_OBJECT)
        return err_set(err, PAWL_INVALID, "the payload is not a JSON object: {\"file\":\"orders.csv\"}");
    pawl_status status = PAWL_OK;
    for (size_t at = 0; !status && json_each(json_parse(payload), &at, &key, &value);) {
        if (is_named(key, "file")) status = read_text(value, "file", arena, &out->file, err);
        else if (is_named(key, "resume")) status = read_resume(value, arena, out, err);
        else
            status = err_set(err, PAWL_INVALID, "the payload has a member %.*s that no import knows",
                             (int)(key.raw.len < 80 ? key.raw.len : 80), key.raw.data);
    }
    if (!status && !out->file) status = err_set(err, PAWL_INVALID, "the payload has no \"file\"");
    return status;
}

void import_place_write(const import_place *place, buf *out)
{
    json_writer w;
    jsonw_init(&w, out, false);
    jsonw_object(&w);
    jsonw_key(&w, "file");
    jsonw_string(&w, place->file);
    jsonw_key(&w, "resume");
    jsonw_object(&w);
    jsonw_key(&w, "import");
    jsonw_string(&w, place->import);
    for (size_t i = 0; i < NUMBERS; i++) {
        jsonw_key(&w, numbers[i].name);
        jsonw_int(&w, *(const int64_t *)((const char *)place + numbers[i].offset));
    }
    jsonw_key(&w, "errors");
    jsonw_raw(&w, place->errors.len ? place->errors : pawl_str("[]"));
    jsonw_end_object(&w);
    jsonw_end_object(&w);
}
