/* The memory store: the reference model of pawl/store.h, and in production the mode without persistence.
 *
 * `memory:` is one handle's own. `memory:NAME` is shared by all handles of the process that open that name and lives until
 * the last of them closes: many nodes on one store, for tests and the simulator. Its memory comes from the allocator of
 * whoever opened it first, which must outlive it; each call reads the clock of the handle it came through.
 *
 * One lock per store; every callback holds it from beginning to end, but a long LIST lets go of it now and then.
 * `shared_lock` guards the list of names and comes first.
 */
#include "store/memory.h"
#include "base/text.h"
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static list shared = {&shared, &shared};

pawl_status mem_no_memory(pawl_error *err)
{
    return err_set(err, PAWL_NO_MEMORY, "out of memory in the memory store: nothing was changed");
}

/* ---- birth and death --------------------------------------------------------------------------------------------- */

static void init_pools(mem *m)
{
    pool_init(&m->tasks, sizeof(mem_task));
    pool_init(&m->attempts, sizeof(mem_attempt));
    pool_init(&m->rows, sizeof(mem_row));
    pool_init(&m->keys, sizeof(mem_key));
    pool_init(&m->levels, sizeof(mem_level));
    pool_init(&m->holds, sizeof(mem_hold));
    mem_schedules_init(m);
    mem_families_init(m);
}

static void init_maps(mem *m)
{
    map *maps[] = {&m->live,        &m->queues,    &m->kinds,         &m->by_key, &m->nodes,
                   &m->receipts,    &m->limits,    &m->budgets,       &m->bounds, &m->spots,
                   &m->held_places, &m->followers, &m->by_occurrence, &m->open,   &m->kins};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) map_init(maps[i], &m->allocator);
}

static void init_lists(mem *m)
{
    list *lists[] = {&m->handles,   &m->queue_list, &m->node_list,   &m->holding,    &m->rows_by_age, &m->logs_by_age,
                     &m->operators, &m->limit_list, &m->budget_list, &m->bound_list, &m->spot_list,   &m->touched_spots};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) list_init(lists[i]);
}

static mem *mem_new(const pawl_allocator *a, const char *name)
{
    mem *m = alloc_new(a, sizeof *m);
    if (!m) return NULL;
    m->allocator = *a;
    if (!(m->name = alloc_str(a, name))) {
        alloc_free(a, m);
        return NULL;
    }
    pthread_mutex_init(&m->lock, NULL);
    init_pools(m);
    init_maps(m);
    init_lists(m);
    mem_init_orders(m);
    return m;
}

static void free_tasks(mem *m)
{
    mem_sort(m);
    for (tree_node *node = m->all.first, *next; node; node = next) {
        next = tree_next(node);
        mem_task *t = task_of_id(node);
        mem_slot_clear(t);
        if (mem_live(t)) {
            map_remove(&m->live, &t->live);
            mem_unplace(m, t);
            t->state = PAWL_CANCELLED;
            mem_place(m, t);
        }
        mem_forget(m, t);
    }
    body_moves_done(&m->moves);
}

static void free_nodes(mem *m)
{
    list_each(link, &m->node_list) {
        mem_node *n = container_of(link, mem_node, link);
        alloc_free(&m->allocator, (char *)n->told.data);
        alloc_free(&m->allocator, n);
    }
    list_each(link, &m->operators) alloc_free(&m->allocator, container_of(link, mem_operator, age));
    map_each(node, &m->receipts) {
        mem_receipt *r = container_of(node, mem_receipt, by_lane);
        alloc_free(&m->allocator, r->results);
        alloc_free(&m->allocator, r);
    }
}

static void free_queues(mem *m)
{
    list_each(link, &m->queue_list) {
        mem_queue *q = container_of(link, mem_queue, link);
        list_each(kind, &q->kinds) alloc_free(&m->allocator, container_of(kind, mem_kind, link));
        mem_shares_done(m, q);
        alloc_free(&m->allocator, q);
    }
}

static void mem_free(mem *m)
{
    pawl_allocator a = m->allocator;
    free_tasks(m);
    free_nodes(m);
    free_queues(m);
    mem_budgets_done(m);
    mem_places_done(m);
    mem_schedules_done(m);
    mem_families_done(m);
    map *maps[] = {&m->live, &m->queues, &m->kinds, &m->by_key, &m->nodes, &m->receipts};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) map_done(maps[i]);
    mem_pool *pools[] = {&m->tasks, &m->attempts, &m->rows, &m->keys, &m->levels, &m->holds};
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++) pool_done(pools[i], &a);
    for (int i = 0; i < MINUTES; i++) alloc_free(&a, m->minutes[i]);
    pthread_mutex_destroy(&m->lock);
    alloc_free(&a, m->name);
    alloc_free(&a, m);
}

/* ---- handles ----------------------------------------------------------------------------------------------------- */

static mem *find_shared(const char *name)
{
    list_each(link, &shared) {
        mem *m = container_of(link, mem, link);
        if (strcmp(m->name, name) == 0) return m;
    }
    return NULL;
}

static bool join(mem_handle *h, const char *name, const pawl_allocator *a)
{
    pthread_mutex_lock(&shared_lock);
    mem *m = name[0] ? find_shared(name) : NULL;
    if (!m && (m = mem_new(a, name)) && name[0]) list_append(&shared, &m->link);
    if (m) {
        pthread_mutex_lock(&m->lock);
        m->handles_count++;
        list_append(&m->handles, &h->link);
        pthread_mutex_unlock(&m->lock);
    }
    h->m = m;
    pthread_mutex_unlock(&shared_lock);
    return m != NULL;
}

static void part(mem_handle *h)
{
    mem *m = h->m;
    pthread_mutex_lock(&shared_lock);
    pthread_mutex_lock(&m->lock);
    list_remove(&h->link);
    list_each(link, &m->node_list) {
        mem_node *n = container_of(link, mem_node, link);
        if (n->handle == h) n->handle = NULL;
    }
    mem_wake_others(h);
    bool last = --m->handles_count == 0;
    pthread_mutex_unlock(&m->lock);
    if (last) list_remove(&m->link);
    pthread_mutex_unlock(&shared_lock);
    if (last) mem_free(m);
}

static pawl_status memory_open(const pawl_store_options *options, pawl_store **out, pawl_error *err)
{
    const pawl_allocator *a = options->allocator ? options->allocator : alloc_default();
    const char *name = options->url + strlen("memory:"), *what = NULL;
    if (name[0] && !name_valid(name, &what))
        return err_set(err, PAWL_INVALID, "cannot open store \"%s\": its name %s; write memory: or memory:NAME", options->url,
                       what);
    mem_handle *h = alloc_new(a, sizeof *h);
    if (!h) return mem_no_memory(err);
    *h = (mem_handle){.base.type = &store_memory_type, .clock = options->clock, .fd = -1, .allocator = a};
    if (name[0] && (h->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0) {
        alloc_free(a, h);
        return err_set(err, PAWL_UNAVAILABLE, "could not open store \"%s\": no descriptor for wake-ups: %s", options->url,
                       strerror(errno));
    }
    if (!join(h, name, a)) {
        if (h->fd >= 0) close(h->fd);
        alloc_free(a, h);
        return mem_no_memory(err);
    }
    *out = &h->base;
    return PAWL_OK;
}

static void memory_close(pawl_store *store)
{
    mem_handle *h = handle_of(store);
    part(h);
    if (h->fd >= 0) close(h->fd);
    alloc_free(h->allocator, h);
}

/* ---- watching ---------------------------------------------------------------------------------------------------- */

void mem_wake_others(mem_handle *h)
{
    list_each(link, &h->m->handles) {
        mem_handle *other = container_of(link, mem_handle, link);
        if (other == h || other->signalled || other->fd < 0 || CANARY(WAKE_LOST)) continue;
        other->signalled = eventfd_write(other->fd, 1) == 0;
    }
}

static int memory_watch_fd(pawl_store *store) { return handle_of(store)->fd; }

static void memory_watch_check(pawl_store *store, bool *changed, int64_t *again_us)
{
    mem_handle *h = handle_of(store);
    mem *m = mem_enter(store);
    *changed = h->signalled;
    *again_us = -1;
    h->signalled = false;
    eventfd_t ignored;
    if (*changed) (void)eventfd_read(h->fd, &ignored);
    mem_exit(m);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

mem_node *mem_find_node(const mem *m, int64_t id)
{
    map_node *node = map_get(&m->nodes, (uint64_t)id);
    return node ? container_of(node, mem_node, by_id) : NULL;
}

void mem_node_unnamed(mem *m, mem_node *n)
{
    if (--n->names > 0 || !n->swept) return;
    list_remove(&n->link);
    alloc_free(&m->allocator, n);
}

void mem_node_beat(mem_node *n, int64_t boot_us)
{
    n->renewal++;
    n->expires_boot_us = mem_add(boot_us, n->lease_us);
}

void mem_node_die(mem *m, mem_node *n, int64_t now_us)
{
    for (int i = 1; i <= ID_NUMBER_MAX; i++)
        if (m->numbers[i].owner == n->id) m->numbers[i].owner = 0;
    n->alive = false;
    alloc_free(&m->allocator, (char *)n->told.data);
    n->told = (pawl_bytes){0};
    n->died_us = now_us;
    n->expires_boot_us = 0;
}

bool mem_node_lapsed(const mem_node *n, int64_t boot_us) { return boot_us >= n->expires_boot_us; }

bool mem_node_gone(const mem_node *n) { return n->alive && !n->handle; }

static char *put(char **at, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = memcpy(*at, text, size);
    *at += size;
    return copy;
}

/* A served queue exists, so that people see it. */
static bool add_queues(mem *m, const char *names)
{
    char name[NAME_MAX_BYTES + 1];
    while (*names) {
        size_t len = strcspn(names, ",");
        if (len > 0 && len < sizeof name) {
            memcpy(name, names, len);
            name[len] = '\0';
            if (!mem_queue_get(m, name)) return false;
        }
        names += len + (names[len] == ',');
    }
    return true;
}

static mem_node *add_node(mem *m, const pawl_registration *call)
{
    const char *name = call->name ? call->name : "", *queues = call->queues ? call->queues : "",
               *types = call->types ? call->types : "";
    if (!add_queues(m, queues)) return NULL;
    mem_node *n = alloc_new(&m->allocator, sizeof *n + strlen(name) + strlen(queues) + strlen(types) + 3);
    if (!n) return NULL;
    char *at = (char *)(n + 1);
    n->name = put(&at, name);
    n->queues = put(&at, queues);
    n->types = put(&at, types);
    n->id = ++m->last_node;
    n->alive = true;
    n->pid = call->pid;
    n->lease_us = call->lease_us;
    list_init(&n->leased);
    list_init(&n->asked);
    list_append(&m->node_list, &n->link);
    map_put(&m->nodes, &n->by_id, (uint64_t)n->id);
    return n;
}

static pawl_status memory_register(pawl_store *store, pawl_registration *call, pawl_error *err)
{
    mem *m = mem_enter(store);
    mem_node *n = add_node(m, call);
    if (n) {
        n->handle = handle_of(store);
        n->born_us = mem_now(store);
        call->node = n->id;
    }
    mem_exit(m);
    return n ? PAWL_OK : mem_no_memory(err);
}

static pawl_status memory_leave(pawl_store *store, int64_t node, pawl_error *err)
{
    (void)err;
    mem *m = mem_enter(store);
    mem_node *n = mem_find_node(m, node);
    if (n && n->alive && n->leases == 0) mem_node_die(m, n, mem_now(store));
    mem_exit(m);
    return PAWL_OK;
}

bool mem_draining(const mem *m, int64_t node)
{
    const mem_node *n = mem_find_node(m, node);
    return n && n->alive && n->draining;
}

static mem_operator *drain_entry(mem *m, const mem_node *n, bool on, const char *by, int64_t now_us)
{
    size_t by_size = strlen(by) + 1, name_size = n->name ? strlen(n->name) + 1 : 0;
    mem_operator *o = alloc_new(&m->allocator, sizeof *o + by_size + name_size);
    if (!o) return NULL;
    o->at_us = now_us;
    o->action = on ? "drain" : "undrain";
    o->by = memcpy(o + 1, by, by_size);
    o->what = name_size ? memcpy(o->by + by_size, n->name, name_size) : NULL;
    return o;
}

static pawl_status memory_drain(pawl_store *store, int64_t node, bool on, const char *by, pawl_error *err)
{
    mem *m = mem_enter(store);
    mem_node *n = mem_find_node(m, node);
    bool lives = n && n->alive;
    mem_operator *entry = lives && by ? drain_entry(m, n, on, by, mem_now(store)) : NULL;
    bool good = lives && (entry || !by);
    if (good) n->draining = on;
    if (good && entry) {
        entry->number = ++m->operators_count;
        list_append(&m->operators, &entry->age);
    }
    if (good) mem_wake_others(handle_of(store));
    mem_exit(m);
    if (good) return PAWL_OK;
    return lives ? mem_no_memory(err) : err_set(err, PAWL_NOT_FOUND, "no node %lld lives", (long long)node);
}

/* ---- numbers for ids --------------------------------------------------------------------------------------------- */

static bool number_free(const mem *m, const mem_number *number, int64_t now_ms)
{
    const mem_node *owner = mem_find_node(m, number->owner);
    return !owner || !owner->alive || mem_node_gone(owner) || number->ceiling_ms <= now_ms;
}

static int lowest_free(const mem *m, int64_t now_ms)
{
    int best = 0;
    for (int i = 1; i <= ID_NUMBER_MAX; i++)
        if (number_free(m, &m->numbers[i], now_ms) && (!best || m->numbers[i].ceiling_ms < m->numbers[best].ceiling_ms)) best = i;
    return best;
}

static int64_t highest(int64_t a, int64_t b) { return a > b ? a : b; }

static void take_number(mem *m, pawl_ids *call, int best, int64_t now_ms)
{
    mem_number *number = &m->numbers[best];
    bool own = best == call->number && number->owner == call->node;
    if (!own) number->floor_ms = CANARY(IDS_REUSED) ? 0 : number->ceiling_ms;
    number->owner = call->node;
    int64_t start = highest(highest(now_ms, number->floor_ms), call->used_ms);
    number->ceiling_ms = highest(number->ceiling_ms, mem_add(start, call->ahead_ms));
    call->out_number = best;
    call->floor_ms = number->floor_ms;
    call->ceiling_ms = number->ceiling_ms;
}

/* Never below what an owner before may have used. */
static void give_back(mem *m, const pawl_ids *call)
{
    if (call->number < 1 || call->number > ID_NUMBER_MAX) return;
    mem_number *number = &m->numbers[call->number];
    if (number->owner != call->node) return;
    number->owner = 0;
    if (call->used_ms < number->ceiling_ms) number->ceiling_ms = highest(call->used_ms, number->floor_ms);
}

static pawl_status memory_take_ids(pawl_store *store, pawl_ids *call, pawl_error *err)
{
    mem *m = mem_enter(store);
    int64_t now_ms = mem_now(store) / PAWL_MILLISECOND - PAWL_EPOCH_MS;
    pawl_status status = PAWL_OK;
    if (call->give_back) {
        give_back(m, call);
    } else {
        bool own = call->number > 0 && call->number <= ID_NUMBER_MAX && m->numbers[call->number].owner == call->node;
        int best = own ? call->number : lowest_free(m, now_ms);
        if (best) take_number(m, call, best, now_ms);
        else
            status = err_set(err, PAWL_UNAVAILABLE, "could not take a number for ids: all %d are in use; stop some engines",
                             ID_NUMBER_MAX);
    }
    mem_exit(m);
    return status;
}

const pawl_store_type store_memory_type = {
    .version = PAWL_STORE_VERSION,
    .scheme = "memory",
    .blocking = false,
    .durable = false,
    .limits = true,
    .places = true,
    .schedules = true,
    .families = true,
    .lanes = 1,
    .open = memory_open,
    .close = memory_close,
    .register_node = memory_register,
    .leave = memory_leave,
    .take_ids = memory_take_ids,
    .apply = memory_apply,
    .claim = memory_claim,
    .renew = memory_renew,
    .held = memory_held,
    .rescue = memory_rescue,
    .sweep = memory_sweep,
    .read = memory_read,
    .watch_fd = memory_watch_fd,
    .watch_check = memory_watch_check,
    .drain = memory_drain,
};
