#include "base/closest.h"

#include <stdbool.h>
#include <string.h>

#define SPELL_MAX 40

/* Letters to change, add, leave out or swap with their neighbour to get from a to b; both shorter than SPELL_MAX. */
static int spelling_distance(const char *a, const char *b)
{
    int rows[3][SPELL_MAX + 1];
    int n = (int)strlen(a), m = (int)strlen(b);
    for (int j = 0; j <= m; j++) rows[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best) best = above[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && above2[j - 2] + 1 < best) best = above2[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[n % 3][m];
}

void closest_try(closest *c, const char *typed, const char *candidate)
{
    size_t n = strlen(typed), m = strlen(candidate);
    if (n == 0 || n >= SPELL_MAX || m >= SPELL_MAX) return;
    int distance = spelling_distance(typed, candidate);
    if (n >= 3 && n < m && strncmp(typed, candidate, n) == 0) distance = 1;
    int allowed = n < 4 ? 1 : n < 8 ? 2 : 3;
    if (distance > allowed || (c->word && distance >= c->distance)) return;
    c->word = candidate;
    c->distance = distance;
}
