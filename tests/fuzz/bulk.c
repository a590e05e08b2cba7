/* Lines of NDJSON, as `pawl enqueue --bulk` reads them from a file. When it says that all is well there is a task in the store for every
 * line that is not blank (two lines may name one task); otherwise none, for a file of this size is one commit. */
#include "cli/bulk.h"
#include "cli/remote.h"
#include "fuzz/fuzz.h"
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STORE "memory:bulk"

int LLVMFuzzerInitialize(int *argc, char ***argv);

/* What it prints is not for here; the fuzzer has its own stream. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    FILE *nowhere = fopen("/dev/null", "w");
    if (nowhere) stdout = nowhere;
    if (nowhere) stderr = nowhere;
    return 0;
}

/* There is no server here. */
pawl_status remote_bulk(const cli *c, const pawl_task *tasks, size_t n, pawl_receipt *receipts, pawl_error *refused,
                        pawl_error *err)
{
    (void)c, (void)tasks, (void)n, (void)receipts, (void)refused, (void)err;
    HOLDS(false);
    return PAWL_INTERNAL;
}

static size_t stored(pawl *p)
{
    pawl_error err;
    pawl_page *page;
    HOLDS(pawl_list(p, &(pawl_filter){.limit = 1000}, &page, &err) == PAWL_OK);
    size_t count = page->count;
    HOLDS(!page->next);
    pawl_page_free(page);
    return count;
}

static size_t lines_of(const char *text, size_t size, bool *named)
{
    size_t lines = 0;
    bool blank = true;
    for (size_t i = 0; i <= size; i++) {
        if (i == size || text[i] == '\n') {
            lines += !blank;
            blank = true;
        } else if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r') {
            blank = false;
        }
        *named = *named || (i < size && (text[i] == '\\' || text[i] == 'k' || text[i] == 'd')); /* of "key" and "id" */
    }
    return lines;
}

static void enqueue(pawl *p, int fd, const char *text, size_t size)
{
    char path[64];
    bool named = false;
    size_t lines = lines_of(text, size, &named);
    cli c = {.store = STORE, .json = size % 2};
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int code = enqueue_bulk(&c, &(pawl_task){.created_by = "fuzz"}, path);
    size_t count = stored(p);
    if (code) HOLDS(count == 0 && (code == pawl_status_exit_code(PAWL_INVALID) || code == pawl_status_exit_code(PAWL_TOO_LARGE)));
    else HOLDS(count == lines || (named && count < lines && count > 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pawl *p;
    pawl_error err;
    int fd = memfd_create("bulk", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) return 0;
    HOLDS(pawl_open(&(pawl_options){.store = STORE, .one_shot = true}, &p, &err) == PAWL_OK);
    enqueue(p, fd, (const char *)data, size);
    HOLDS(pawl_close(p) == 0);
    close(fd);
    return 0;
}
