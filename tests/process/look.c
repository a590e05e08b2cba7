/* Waiting until nothing is live, and telling what the store has. */
#include "node.h"
#include <stdlib.h>

/* Waits for each task of a page; false: one did not end in time. */
static bool wait_page(node *n, const pawl_page *page, int64_t until_us)
{
    pawl_error err;
    for (size_t i = 0; i < page->count; i++) {
        int64_t left_us = until_us - history_now_us();
        if (left_us > 0 && !pawl_wait(n->engine, page->tasks[i]->id, left_us, NULL, &err)) continue;
        return false;
    }
    return true;
}

/* Waits for all that are in this state now. *seen grows by how many there were. */
static bool wait_state(node *n, const char *state, int64_t until_us, size_t *seen)
{
    pawl_page *page;
    pawl_error err;
    pawl_filter filter = {.state = state, .limit = 1000, .oldest_first = true};
    if (pawl_list(n->engine, &filter, &page, &err)) exit(pawl_die(&err));
    *seen += page->count;
    bool fine = wait_page(n, page, until_us);
    pawl_page_free(page);
    return fine;
}

void look_drain(node *n, int limit_s)
{
    static const char *const live[] = {"waiting", "pending", "leased"};
    int64_t until_us = history_now_us() + limit_s * PAWL_SECOND;
    size_t seen;
    do {
        seen = 0;
        for (int i = 0; i < 3; i++) {
            if (wait_state(n, live[i], until_us, &seen)) continue;
            history_line("undrained", ",\"state\":\"%s\"", live[i]);
            return;
        }
    } while (seen > 0);
    history_line("drained", "%s", "");
}

/* ---- dump ------------------------------------------------------------------------------------------------------------------------- */

static void print_attempts(FILE *out, const pawl_info *info)
{
    fprintf(out, ",\"attempts\":[");
    for (int i = 0; i < info->attempts_count; i++) {
        const pawl_attempt *a = &info->attempts[i];
        fprintf(out, "%s[%d,\"%s\",%lld]", i ? "," : "", a->number, a->outcome, (long long)a->fence);
    }
    fprintf(out, "]");
}

static void dump_task(node *n, pawl_id id)
{
    pawl_info *info;
    pawl_error err;
    char *line, text[PAWL_ID_TEXT];
    size_t size;
    if (pawl_get(n->engine, id, &info, &err)) exit(pawl_die(&err));
    pawl_id_format(id, text);
    FILE *out = open_memstream(&line, &size);
    fprintf(out, "{\"t\":%lld,\"e\":\"task\",\"id\":\"%s\",\"token\":%.*s,\"state\":\"%s\",\"type\":\"%s\"",
            (long long)history_now_us(), text, (int)info->payload.len, info->payload.data, pawl_state_name(info->state),
            info->type);
    fprintf(out, ",\"key\":\"%s\",\"reason\":\"%s\",\"fence\":%lld,\"rescues\":%d", info->key ? info->key : "",
            info->reason ? info->reason : "", (long long)info->fence, info->rescues);
    print_attempts(out, info);
    fprintf(out, "}\n");
    fclose(out);
    history_write(line, size);
    free(line);
    pawl_info_free(info);
}

void look_dump(node *n)
{
    pawl_page *page = NULL;
    pawl_error err;
    size_t count = 0;
    char cursor[256] = "";
    do {
        pawl_filter filter = {.limit = 1000, .oldest_first = true, .cursor = cursor[0] ? cursor : NULL};
        if (pawl_list(n->engine, &filter, &page, &err)) exit(pawl_die(&err));
        for (size_t i = 0; i < page->count; i++) dump_task(n, page->tasks[i]->id);
        count += page->count;
        snprintf(cursor, sizeof cursor, "%s", page->next ? page->next : "");
        pawl_page_free(page);
    } while (cursor[0]);
    history_line("dumped", ",\"count\":%zu", count);
}
