/* Leases that need not be read: what the writer connection wrote itself, and nobody can have changed since.
 *
 * A finish must see the lease it ends. Mostly this very connection wrote that row a moment ago, so it is remembered here. The memory is
 * good as long as no other connection has committed (PRAGMA data_version, looked at in every write transaction) and no transaction of
 * ours was rolled back; either empties it. It is small and forgets: one lease per place, the newest wins, and what is not found is read.
 */
#include "base/alloc.h"
#include "store/sqlite/inner.h"

#define PLACES 8192

struct known {
    int64_t round;
    struct {
        int64_t round; /* of another round: not there */
        task_row row;
    } places[PLACES];
};

static size_t place_of(pawl_id id) { return (uint64_t)id * UINT64_C(0x9e3779b97f4a7c15) >> 51; }

void known_put(conn *c, const task_row *row)
{
    if (!c->known && !c->borrowed) c->known = alloc_new(c->allocator, sizeof *c->known);
    if (!c->known) return;
    if (c->known->round == 0) c->known->round = 1;
    size_t at = place_of(row->id);
    c->known->places[at].round = c->known->round;
    c->known->places[at].row = *row;
    c->known->places[at].row.started_us = row->leased_us; /* as it would be read */
    c->known->places[at].row.priority = c->known->places[at].row.unreadable = 0;
}

bool known_get(const conn *c, pawl_id id, task_row *row)
{
    if (!c->known) return false;
    size_t at = place_of(id);
    if (c->known->places[at].round != c->known->round || c->known->places[at].row.id != id) return false;
    *row = c->known->places[at].row;
    return true;
}

void known_drop(conn *c, pawl_id id)
{
    size_t at = place_of(id);
    if (c->known && c->known->places[at].row.id == id) c->known->places[at].round = 0;
}

void known_clear(conn *c)
{
    if (c->known) c->known->round++;
}

void known_done(conn *c)
{
    alloc_free(c->allocator, c->known);
    c->known = NULL;
}
