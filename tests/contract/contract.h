/* The contract suite: what every store must do, sentence by sentence of pawl/store.h. README.md says how to add a store or
 * a case.
 *
 * Each case gets a world of its own: a fresh store with two handles on it (as two processes would have), a clock that only
 * moves when the case says so, and helpers that make calls short. Helpers assert that the call itself succeeded; results
 * are the case's business.
 */
#ifndef CONTRACT_CONTRACT_H
#define CONTRACT_CONTRACT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "store/store.h"
#include <string.h>

#define LEASE (30 * PAWL_SECOND)
#define NODES_MAX 16

typedef struct world world;

/* A store under test. open_url writes the URL of a fresh, empty store. */
typedef struct store_kind {
    const char *name;
    void (*fresh_url)(world *w);
    void (*remove)(world *w);
    bool (*begin)(void); /* before the first case; false: it cannot be had here */
    void (*end)(void);
    bool no_session; /* nothing shows that an idle node lives but what it says itself */
} store_kind;

struct world {
    const store_kind *kind;
    char url[400], dir[200];
    virtual_clock clock;
    pawl_allocator allocator; /* counts blocks; may be told to fail */
    _Atomic int64_t blocks, allocations, fail_at;
    pawl_store *a, *b; /* two handles on one store */
    pawl_arena *arena; /* answers and operations; lives as long as the world */
    pawl_error err;
    fault (*fault)(world *w, core_call_kind kind); /* NULL: none */
    int fault_calls;
    int64_t numbers[NODES_MAX][2]; /* node, number of its last batch */
    int64_t own_node;              /* a case's own; 0: none yet */
    pawl_id last_id;
    pawl_claimed claimed[1024];
    int claimed_count;
    pawl_news news;
};

typedef struct contract_case {
    const char *name;
    void (*run)(world *w);
} contract_case;

/* Every file of cases ends in one of these. */
#define CASES(list) const contract_case list[] =
extern const contract_case insert_cases[], key_cases[], holder_cases[], spawn_cases[], people_cases[], receipt_cases[],
    claim_cases[], news_cases[], rescue_cases[], suspect_cases[], id_cases[], node_cases[], sweep_cases[], list_cases[],
    read_cases[], stats_cases[], audit_cases[], fault_cases[], memory_cases[], watch_cases[], move_cases[], rate_cases[],
    place_cases[], schedule_cases[], family_cases[], past_cases[], gate_cases[], feed_cases[], beside_cases[];

/* ---- the world --------------------------------------------------------------------------------------------------- */

void world_open(world *w, const store_kind *kind);
void world_close(world *w);
pawl_store *open_handle(world *w); /* one more handle on the store, wrapped as the run says */
void close_handle(world *w, pawl_store **store);
void reopen(world *w);                     /* both handles: closed, then opened again */
void advance(world *w, int64_t us);        /* wall and boot clock */
void step_wall(world *w, int64_t us);      /* the wall clock alone: somebody set it */
void *keep(world *w, size_t size);         /* zeroed, lives as long as the world */
int64_t join(world *w, pawl_store *store); /* a node that serves everything, lease LEASE */
int64_t join_as(world *w, pawl_store *store, const char *name, const char *queues, const char *types, int64_t lease_us);
const store_kind *store_kind_find(const char *name);
bool store_wrapper_set(const char *name); /* plain, trace, faults */

/* ---- operations -------------------------------------------------------------------------------------------------- */

typedef struct spec { /* of an INSERT */
    pawl_id id;       /* 0: the next one of the world's own */
    bool draw;        /* let the store draw the id */
    const char *type, *queue, *tenant, *key, *payload, *rate_key;
    int priority;
    int64_t delay_us, at_us;
    bool ask_lease, may_exist;
    int64_t depth_limit;
    int group;
    pawl_audit audit; /* 0: full */
} spec;

pawl_op *op_insert(world *w, spec s);
pawl_op *op_start(world *w, pawl_id id, int64_t fence, bool mark);
pawl_op *op_finish(world *w, pawl_id id, int64_t fence, pawl_state to);
pawl_op *op_release(world *w, pawl_id id, int64_t fence, int64_t delay_us, pawl_attempt_outcome outcome);
pawl_op *op_progress(world *w, pawl_id id, int64_t fence, int percent, const char *text);
pawl_op *op_cancel(world *w, pawl_id id, const char *by);
pawl_op *op_retry(world *w, pawl_id id, const char *by);
pawl_op *op_bound(world *w, pawl_scope scope, const char *name, const char *key, int most); /* of a concurrency limit */
void bound(world *w, pawl_scope scope, const char *name, int most);                         /* puts it */
void bound_in_order(world *w, const char *type); /* tasks of a key run one at a time, as they came */
pawl_op *op_ack(world *w, pawl_id id, const char *by, const char *note);
pawl_op *op_queue(world *w, const char *queue, bool pause, const char *by);
pawl_id new_id(world *w);

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* One batch under the node's next number; node 0: a one-shot command. */
pawl_batch apply_all(world *w, pawl_store *store, int64_t node, pawl_op **ops, int count);
pawl_status try_apply(world *w, pawl_store *store, pawl_batch *batch); /* as it stands, whatever it answers */
pawl_op_result apply(world *w, pawl_store *store, int64_t node, pawl_op *op);
pawl_id insert(world *w, pawl_store *store, int64_t node, spec s); /* must be created */
int64_t number_of(world *w, int64_t node);                         /* of the last batch applied */

typedef struct wish {             /* a claim with one want */
    const char *queue, *types[4]; /* queue: NULL = "q"; no types: any */
    int free, prefetch;
    bool solo;
} wish;

pawl_want claim(world *w, pawl_store *store, int64_t node, wish s);        /* fills w->claimed and w->news */
pawl_claimed claim_one(world *w, pawl_store *store, int64_t node);         /* must get exactly one of queue "q" */
pawl_claimed lease(world *w, pawl_store *store, int64_t node, pawl_id id); /* claims until it has this one; releases nothing */
pawl_renewal renew(world *w, pawl_store *store, int64_t node);
int held(world *w, pawl_store *store, int64_t node, pawl_lease **leases);
pawl_rescue rescue(world *w, pawl_store *store, int64_t node, int64_t victim, int64_t renewal, int limit);
pawl_rescue rescue_lapsed(world *w, pawl_store *store, int64_t node, int64_t victim, bool counts); /* lets it lapse first */
int64_t renewal_of(world *w, pawl_store *store, int64_t node, int64_t victim); /* from the news; -1: not among the lapsed */
pawl_sweep sweep(world *w, pawl_sweep how);
pawl_sweep keep_all(void);
pawl_ids take_ids(world *w, pawl_store *store, int64_t node, int number, int64_t used_ms);

pawl_info *get(world *w, pawl_id id);
bool exists(world *w, pawl_id id);
pawl_state state_of(world *w, pawl_id id);
int64_t fence_of(world *w, pawl_id id);
pawl_trail *trail_of(world *w, pawl_id id);
pawl_page *list_page(world *w, pawl_filter filter);
int count_tasks(world *w, pawl_filter filter);
pawl_stats *stats_of(world *w, int64_t window_us);
pawl_acts *acts_of(world *w, int64_t before, int limit);
const pawl_queue_info *queue_of(world *w, const char *name); /* NULL: not among the stats */
const pawl_node_info *node_of(world *w, int64_t node);       /* NULL: not listed */

#define assert_state(w, id, wanted) assert_string_equal(pawl_state_name(state_of((w), (id))), pawl_state_name(wanted))

#endif
