/* Spelling: the word of a list that was probably meant. */
#ifndef BASE_CLOSEST_H
#define BASE_CLOSEST_H

typedef struct closest {
    const char *word; /* NULL: none is close */
    int distance;
} closest;

void closest_try(closest *c, const char *typed, const char *candidate);

#endif
