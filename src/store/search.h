/* The words of a search, and whether texts hold them.
 *
 *     search s;
 *     search_begin(&s, filter->search);
 *     ...
 *     search_next(&s);                    the next task
 *     search_look(&s, bytes);             any number of its texts
 *     if (search_found(&s)) ...
 *
 * Words are what spaces divide; each must be in one of the texts. Letters of ASCII are alike in upper and lower case, other bytes as they are.
 */
#ifndef STORE_SEARCH_H
#define STORE_SEARCH_H

#include <pawl/store.h>

#define SEARCH_BYTES 200
#define SEARCH_WORDS 8 /* what is beyond the seventh space is one word */

typedef struct search {
    char text[SEARCH_BYTES + 1]; /* in lower case, cut where words end */
    struct {
        const char *text;
        size_t len;
    } words[SEARCH_WORDS];
    int count;
    unsigned found; /* a bit for each */
} search;

void search_begin(search *s, const char *text); /* NULL: no words, and everything has been found */
void search_look(search *s, pawl_bytes in);
void search_look_text(search *s, const char *in); /* NULL: none */

static inline void search_next(search *s) { s->found = 0; }
static inline bool search_found(const search *s) { return s->found == (1U << s->count) - 1; }

#endif
