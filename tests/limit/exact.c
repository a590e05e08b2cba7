#include "exact.h"
#include "../unit/cmocka_all.h"
#include <string.h>

static exact_ticks tolerance(const pawl_rate *p) { return (exact_ticks)p->period_us * ((p->burst ? p->burst : p->permits) - 1); }

int64_t exact_late_us(const pawl_rate *p)
{
    int64_t step_us = p->period_us / p->permits;
    return step_us < 50000 ? 50000 : step_us > 1000000 ? 1000000 : step_us;
}

/* The time that passed since the last question passes here; if none did, by the caller's clock, none does. */
static void tell_time(exact_model *m, int64_t now_us)
{
    if (!m->told) m->now_us = now_us;
    else if (now_us > m->seen_us) m->now_us += now_us - m->seen_us;
    m->seen_us = now_us;
    m->told = true;
}

static int64_t theirs(const exact_model *m, int64_t at_us) { return m->seen_us + (at_us - m->now_us); }

static exact_key *find_key(exact_model *m, int rule, pawl_bytes name)
{
    for (int i = 0; i < m->keys_count; i++) {
        exact_key *k = &m->keys[i];
        if (k->rule == rule && strlen(k->name) == name.len && memcmp(k->name, name.data, name.len) == 0) return k;
    }
    return NULL;
}

static exact_key *new_key(exact_model *m, int rule, pawl_bytes name)
{
    const pawl_rate *p = &m->policies[rule];
    exact_key *k = &m->keys[m->keys_count++];
    assert_true(m->keys_count <= EXACT_KEYS && name.len < sizeof k->name);
    memset(k, 0, sizeof *k);
    k->rule = rule;
    memcpy(k->name, name.data, name.len);
    k->tat = (exact_ticks)m->now_us * p->permits + (p->start_empty ? tolerance(p) : 0);
    return k;
}

static exact_reservation *find_reservation(exact_model *m, pawl_id id, exact_key **key)
{
    for (int i = 0; i < m->keys_count; i++)
        for (int n = 0; n < m->keys[i].count; n++) {
            exact_reservation *s = &m->keys[i].reservations[n];
            *key = &m->keys[i];
            if (s->id == id && !s->released) return s;
        }
    return NULL;
}

static void remove_reservation(exact_key *k, const exact_reservation *s)
{
    size_t at = (size_t)(s - k->reservations);
    memmove(&k->reservations[at], &k->reservations[at + 1], ((size_t)k->count - at - 1) * sizeof *s);
    k->count--;
}

static void give_up(exact_model *m, exact_key *k, exact_reservation *s)
{
    s->released = true;
    while (k->count > 0 && k->reservations[k->count - 1].released && k->reservations[k->count - 1].after == k->tat) {
        k->tat -= m->policies[k->rule].period_us;
        k->count--;
    }
}

bool exact_release(exact_model *m, pawl_id id)
{
    exact_key *k;
    exact_reservation *s = find_reservation(m, id, &k);
    if (s) give_up(m, k, s);
    return s != NULL;
}

static limit_answer answer(const exact_model *m, limit_verdict verdict, int64_t slot_us, const pawl_rate *p, bool late)
{
    return (limit_answer){verdict, theirs(m, slot_us), theirs(m, slot_us) + exact_late_us(p), late};
}

static limit_answer reserve(exact_model *m, exact_key *k, const limit_question *q, bool again, bool late)
{
    const pawl_rate *p = &m->policies[q->rule];
    exact_ticks now = (exact_ticks)m->now_us * p->permits, from = k->tat - tolerance(p);
    int64_t slot_us = m->now_us, horizon_us = p->horizon_us ? p->horizon_us : PAWL_HOUR;
    if (from > now) slot_us = (int64_t)(from / p->permits) + (from % p->permits > 0);
    bool go = from <= now;
    if (!go && !again && p->discard) return answer(m, LIMIT_DISCARDED, slot_us, p, late);
    if (!go && !again && horizon_us > 0 && slot_us - m->now_us > horizon_us) return answer(m, LIMIT_REJECTED, slot_us, p, late);
    k->tat = (k->tat > now ? k->tat : now) + p->period_us;
    if (!go || q->hold) {
        assert_true(k->count < EXACT_RESERVATIONS);
        k->reservations[k->count++] = (exact_reservation){q->id, slot_us, k->tat, false};
    }
    return answer(m, go ? LIMIT_GO : LIMIT_WAIT, slot_us, p, late);
}

limit_answer exact_ask(exact_model *m, const limit_question *q)
{
    const pawl_rate *p = &m->policies[q->rule];
    if (q->key.len == 0 || (q->retry && p->retries_free)) return (limit_answer){LIMIT_GO, q->now_us, INT64_MAX, false};
    tell_time(m, q->now_us);
    exact_key *k = find_key(m, q->rule, q->key), *of = NULL;
    exact_reservation *s = find_reservation(m, q->id, &of);
    bool late = false;
    if (s && of == k && m->now_us < s->slot_us + exact_late_us(p)) {
        limit_answer a = answer(m, s->slot_us <= m->now_us ? LIMIT_GO : LIMIT_WAIT, s->slot_us, p, false);
        if (a.verdict == LIMIT_GO && !q->hold) remove_reservation(k, s);
        return a;
    }
    if (s) {
        late = of == k;
        give_up(m, of, s);
    }
    if (!k) k = new_key(m, q->rule, q->key);
    return reserve(m, k, q, late || q->again, late);
}

void exact_set_rule(exact_model *m, int rule, const pawl_rate *policy, int64_t now_us)
{
    const pawl_rate old = m->policies[rule];
    tell_time(m, now_us);
    m->policies[rule] = *policy;
    for (int i = 0; i < m->keys_count; i++) {
        exact_key *k = &m->keys[i];
        if (k->rule != rule) continue;
        for (; k->count > 0; k->count--)
            if (k->reservations[k->count - 1].slot_us > m->now_us) k->tat -= old.period_us;
        exact_ticks owed = k->tat - (exact_ticks)m->now_us * old.permits;
        exact_ticks spent = owed > 0 ? (owed + old.period_us - 1) / old.period_us : 0;
        exact_ticks burst = policy->burst ? policy->burst : policy->permits;
        k->tat = (exact_ticks)m->now_us * policy->permits + (spent < burst ? spent : burst) * policy->period_us;
    }
}

int exact_reserved(const exact_model *m)
{
    int all = 0;
    for (int i = 0; i < m->keys_count; i++) all += m->keys[i].count;
    return all;
}
