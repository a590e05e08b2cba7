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

/* Of others a claim that follows another tells nothing, within a fifth of a second: then what is known is answered again, and that it is
 * time for the next look at them when that is over. */
static void recall_others(pg_store *s, int64_t node, pawl_news *news)
{
    pthread_mutex_lock(&s->lock);
    if (s->others.node == node) {
        int64_t left_us = s->others.expiry_us - (pg_mono_us() - s->others.at_us);
        news->foreign_expiry_us = s->others.expiry_us < 0 || left_us > OTHERS_EVERY_US ? OTHERS_EVERY_US
                                  : left_us > 0                                        ? left_us
                                                                                       : 0;
        news->lapsed_count = s->others.lapsed_count;
        memcpy(news->lapsed, s->others.lapsed, sizeof news->lapsed);
    } else {
        news->foreign_expiry_us = OTHERS_EVERY_US;
    }
    pthread_mutex_unlock(&s->lock);
}

static void keep_others(pg_store *s, int64_t node, const pawl_news *news)
{
    pthread_mutex_lock(&s->lock);
    s->others =
        (others){.node = node, .at_us = pg_mono_us(), .expiry_us = news->foreign_expiry_us, .lapsed_count = news->lapsed_count};
    memcpy(s->others.lapsed, news->lapsed, sizeof news->lapsed);
    pthread_mutex_unlock(&s->lock);
}

void pg_news_read(pg_store *s, int64_t node, const char *text, int64_t now_us, pawl_news *news)
{
    int64_t dead = 1;
    bool told = false;
    news->store_now_us = now_us;
    news->foreign_expiry_us = -1;
    news->closed = false;
    news->limits_version = 0;
    news->unblocked = false;
    news->schedule_due_us = 0;
    news->unsettled = false;
    news->lapsed_count = news->cancels_count = 0;
    for (const char *at = text; at && *at; at = strchr(at, '\n'), at += at != NULL) {
        if (at[0] == 'D') pg_number_read(at + 1, &dead);
        else if (at[0] == 'F') told = pg_number_read(at + 1, &news->foreign_expiry_us) != NULL;
        else if (at[0] == 'L') read_lapsed(at + 1, news);
        else if (at[0] == 'C') read_cancel(at + 1, news);
        else if (at[0] == 'X') news->closed = true;
        else if (at[0] == 'U') news->unblocked = true;
        else if (at[0] == 'Y') news->unsettled = true;
        else if (at[0] == 'R') pg_number_read(at + 1, &news->limits_version);
        else if (at[0] == 'H') pg_number_read(at + 1, &news->schedule_due_us);
    }
    news->node_dead = dead != 0;
    if (told) keep_others(s, node, news);
    else recall_others(s, node, news);
}
