/* A limiter as one would write it without a thought for speed or memory: the model that core/limit is held against. Instants
 * are whole numbers of 1 / permits microseconds in 128 bits; keys and reservations are in plain arrays, searched from end to
 * end. */
#ifndef EXACT_H
#define EXACT_H

#include "core/limit.h"

typedef __int128 exact_ticks;

typedef struct exact_reservation {
    pawl_id id;
    int64_t slot_us;
    exact_ticks after;
    bool released;
} exact_reservation;

#define EXACT_KEYS 32
#define EXACT_RESERVATIONS 512

typedef struct exact_key {
    int rule;
    char name[16];
    exact_ticks tat;
    int count;
    exact_reservation reservations[EXACT_RESERVATIONS]; /* in the order they were made */
} exact_key;

typedef struct exact_model {
    pawl_rate policies[4];
    int keys_count;
    exact_key keys[EXACT_KEYS];
    int64_t now_us, seen_us; /* the model's time, and the caller's when it was last told */
    bool told;
} exact_model;

void exact_set_rule(exact_model *m, int rule, const pawl_rate *policy, int64_t now_us);
limit_answer exact_ask(exact_model *m, const limit_question *q);
bool exact_release(exact_model *m, pawl_id id);
int64_t exact_late_us(const pawl_rate *p);
int exact_reserved(const exact_model *m); /* all, also those released and not given back */

#endif
