/* What the functions of the schema answer as lines of text: a letter and some numbers. */
#include "store/postgres/inner.h"
#include <stdlib.h>

const char *pg_number_read(const char *at, int64_t *out)
{
    char *end;
    if (!at) return NULL; /* nor was there a number before */
    *out = strtoll(at, &end, 10);
    return end > at ? end : NULL;
}

static void read_lapsed(const char *at, pawl_news *news)
{
    int64_t proven = 0;
    if (news->lapsed_count == PAWL_LAPSED_MAX) return;
    pawl_lapsed *l = &news->lapsed[news->lapsed_count];
    if (!(at = pg_number_read(at, &l->node)) || !(at = pg_number_read(at, &l->renewal)) || !pg_number_read(at, &proven)) return;
    l->proven_dead = proven != 0;
    news->lapsed_count++;
}

static void read_cancel(const char *at, pawl_news *news)
{
    if (news->cancels_count == PAWL_CANCELS_MAX) return;
    pawl_lease *l = &news->cancels[news->cancels_count];
    if ((at = pg_number_read(at, &l->id)) && pg_number_read(at, &l->fence)) news->cancels_count++;
}

void pg_news_read(const char *text, int64_t now_us, pawl_news *news)
{
    int64_t dead = 1;
    news->store_now_us = now_us;
    news->foreign_expiry_us = -1;
    news->closed = false;
    news->limits_version = 0;
    news->lapsed_count = news->cancels_count = 0;
    for (const char *at = text; at && *at; at = strchr(at, '\n'), at += at != NULL) {
        if (at[0] == 'D') pg_number_read(at + 1, &dead);
        else if (at[0] == 'F') pg_number_read(at + 1, &news->foreign_expiry_us);
        else if (at[0] == 'L') read_lapsed(at + 1, news);
        else if (at[0] == 'C') read_cancel(at + 1, news);
        else if (at[0] == 'X') news->closed = true;
        else if (at[0] == 'R') pg_number_read(at + 1, &news->limits_version);
    }
    news->node_dead = dead != 0;
}
