/* Options, queues and handlers: their ranges and defaults, and copies of what they point to.
 *
 * Defaults stand in one table below. Queues and handlers are told to the core at once; after the first start they stay as they
 * are, and are read without a lock from then on.
 */
#include "base/rand.h"
#include "runtime/runtime.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LEASE_LEAST_US (750 * PAWL_MILLISECOND)
#define WORKERS_MAX 4096
#define CAPACITY_MAX 10000000
#define LONGEST_US (INT64_C(36525) * PAWL_DAY)
#define PAYLOAD_MOST ((size_t)64 << 20)

static pawl_status no_memory(pawl_error *err)
{
    return err_set(err, PAWL_NO_MEMORY, "could not keep the configuration: out of memory");
}

/* ---- ranges and defaults ------------------------------------------------------------------------------------------------- */

static int cores(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 && n < 4096 ? (int)n : 1;
}

static int default_workers(void) { return 2 * cores() > 4 ? 2 * cores() : 4; }
static int default_capacity(void) { return 200 * cores() > 1000 ? 200 * cores() : 1000; }

#define OFFSET(member) offsetof(pawl_options, member)

/* Members of pawl_options in microseconds. */
static const struct duration_option {
    const char *name;
    size_t at;
    int64_t otherwise, least;
    bool negative; /* has a meaning of its own */
} durations[] = {
    {"lease_us", OFFSET(lease_us), 30 * PAWL_SECOND, LEASE_LEAST_US, false},
    {"grace_us", OFFSET(grace_us), 30 * PAWL_SECOND, 1, true},
    {"timeout_us", OFFSET(timeout_us), -1, 1, true},
    {"long_run_us", OFFSET(long_run_us), 15 * PAWL_MINUTE, 1, false},
    {"dispatch_timeout_us", OFFSET(dispatch_timeout_us), 10 * PAWL_SECOND, 1, false},
    {"keep_succeeded_us", OFFSET(keep_succeeded_us), PAWL_DAY, 1, true},
    {"keep_cancelled_us", OFFSET(keep_cancelled_us), PAWL_DAY, 1, true},
    {"keep_resolved_us", OFFSET(keep_resolved_us), 30 * PAWL_DAY, 1, true},
    {"keep_failed_us", OFFSET(keep_failed_us), 90 * PAWL_DAY, 1, true},
    {"keep_audit_us", OFFSET(keep_audit_us), 7 * PAWL_DAY, 1, true},
    {"keep_logs_us", OFFSET(keep_logs_us), 7 * PAWL_DAY, 1, true},
};

static pawl_status fill_durations(pawl_options *o, pawl_error *err)
{
    for (size_t i = 0; i < sizeof durations / sizeof *durations; i++) {
        const struct duration_option *d = &durations[i];
        int64_t *value = (int64_t *)((char *)o + d->at);
        if (*value == 0) *value = d->otherwise;
        if (*value < 0 && (d->negative || *value == d->otherwise)) continue;
        if (*value < d->least || *value > LONGEST_US)
            return err_set(err, PAWL_INVALID, "%s is %lld: it must be 0 (default)%s or at least %lld and less than a century",
                           d->name, (long long)*value, d->negative ? ", negative," : "", (long long)d->least);
    }
    return PAWL_OK;
}

static pawl_status in_range(const char *name, int64_t value, int64_t most, pawl_error *err)
{
    if (value >= 0 && value <= most) return PAWL_OK;
    return err_set(err, PAWL_INVALID, "%s is %lld: it must be between 0 (default) and %lld", name, (long long)value,
                   (long long)most);
}

static pawl_status check_retry(const pawl_retry_policy *r, pawl_error *err)
{
    if ((int)r->curve < PAWL_CURVE_DEFAULT || r->curve > PAWL_CURVE_CUSTOM)
        return err_set(err, PAWL_INVALID, "the retry curve %d is none of pawl_curve", (int)r->curve);
    if (r->curve == PAWL_CURVE_CUSTOM && !r->custom)
        return err_set(err, PAWL_INVALID, "the retry curve is custom, but the function is NULL");
    if (r->delays < 0 || r->delays > PAWL_RETRY_LIST_MAX || (r->curve == PAWL_CURVE_LIST && r->delays == 0))
        return err_set(err, PAWL_INVALID, "the retry list has %d delays: it must have 1 to %d", r->delays, PAWL_RETRY_LIST_MAX);
    for (int i = 0; i < r->delays; i++)
        if (r->delays_us[i] < 0 || r->delays_us[i] > LONGEST_US)
            return err_set(err, PAWL_INVALID, "retry delay %d of the list is out of range", i + 1);
    if (r->delay_us < 0 || r->delay_us > LONGEST_US || r->cap_us < 0 || r->cap_us > LONGEST_US)
        return err_set(err, PAWL_INVALID, "the retry delay and its cap must not be negative, nor longer than a century");
    if (!isfinite(r->factor) || (r->factor != 0 && r->factor < 1))
        return err_set(err, PAWL_INVALID, "the retry factor %g is less than 1", r->factor);
    if (isnan(r->jitter) || r->jitter > 1) return err_set(err, PAWL_INVALID, "the jitter %g is more than 1", r->jitter);
    return PAWL_OK;
}

static pawl_status check_policy(int max_attempts, pawl_audit audit, const pawl_retry_policy *retry, pawl_error *err)
{
    pawl_status status = in_range("max_attempts", max_attempts, 1000000, err);
    if (!status && ((int)audit < PAWL_AUDIT_DEFAULT || audit > PAWL_AUDIT_NONE))
        status = err_set(err, PAWL_INVALID, "the audit level %d is none of pawl_audit", (int)audit);
    return status ? status : check_retry(retry, err);
}

static bool keep_codes(runtime *rt, const char *const **codes)
{
    if (!*codes) return true;
    size_t n = 0;
    while ((*codes)[n]) n++;
    const char **copy = pawl_arena_alloc(rt->kept, (n + 1) * sizeof *copy);
    for (size_t i = 0; copy && i < n; i++)
        if (!(copy[i] = pawl_arena_str(rt->kept, (*codes)[i]))) return false;
    *codes = copy;
    return copy;
}

static bool keep_retry(runtime *rt, pawl_retry_policy *r)
{
    if (r->curve == PAWL_CURVE_CUSTOM) atomic_store(&rt->custom_retry, true);
    return keep_codes(rt, &r->only_codes) && keep_codes(rt, &r->never_codes);
}

static bool keep(runtime *rt, const char **text)
{
    if (!*text) return true;
    *text = pawl_arena_str(rt->kept, *text);
    return *text;
}

/* ---- options ------------------------------------------------------------------------------------------------------------- */

const char *config_default_store(void)
{
    const char *store = getenv("PAWL_STORE");
    if (!store || !store[0]) store = getenv("DATABASE_URL");
    return store && store[0] ? store : "sqlite:pawl.db";
}

static void fill_name(pawl_options *o, char host[256])
{
    if (o->name) return;
    if (gethostname(host, 255) != 0 || !name_valid(host, NULL)) snprintf(host, 256, "localhost");
    o->name = host;
}

static pawl_status check_options(const pawl_options *o, pawl_error *err)
{
    pawl_status status = in_range("workers", o->workers, WORKERS_MAX, err);
    if (!status) status = in_range("capacity", o->capacity, CAPACITY_MAX, err);
    if (!status && o->payload_max > PAYLOAD_MOST) status = in_range("payload_max", (int64_t)o->payload_max, PAYLOAD_MOST, err);
    if (!status) status = in_range("parked_max", o->parked_max, CAPACITY_MAX, err);
    if (!status) status = in_range("rate_keys_max", o->rate_keys_max, 100000000, err);
    if (!status) status = valid_optional(o->name, "name of the node", err);
    if (!status) status = check_policy(o->max_attempts, o->audit, &o->retry, err);
    if (!status && (o->log_level < 0 || o->log_level > PAWL_ERROR))
        status = err_set(err, PAWL_INVALID, "the log level %d is none of pawl_level", (int)o->log_level);
    if (!status && o->inline_eager && !o->inline_mode) status = err_set(err, PAWL_INVALID, "inline_eager needs inline_mode");
    if (!status && o->inline_start_us < 0) status = err_set(err, PAWL_INVALID, "inline_start_us is negative");
    return status;
}

pawl_status config_fill(runtime *rt, const pawl_options *options, pawl_error *err)
{
    static const pawl_options none = {0};
    pawl_options *o = &rt->options;
    char host[256] = "";
    *o = options ? *options : none;
    pawl_status status = check_options(o, err);
    if (!status) status = redaction_read(&rt->hidden, o->redact, err);
    if (!status) status = fill_durations(o, err);
    if (status) return status;
    if (!o->store) o->store = config_default_store();
    if (!o->workers) o->workers = default_workers();
    if (!o->capacity) o->capacity = default_capacity();
    if (!o->payload_max) o->payload_max = (size_t)1 << 20;
    if (!o->audit) o->audit = PAWL_AUDIT_FULL;
    if (!o->max_attempts) o->max_attempts = 4;
    if (!o->seed) o->seed = seed_from_system();
    o->redact = NULL; /* it was read */
    fill_name(o, host);
    return keep(rt, &o->store) && keep(rt, &o->name) && keep_retry(rt, &o->retry) ? PAWL_OK : no_memory(err);
}

policy config_policy(const pawl_options *o)
{
    policy said = {.max_attempts = o->max_attempts, .timeout_us = o->timeout_us, .retry = o->retry, .audit = o->audit},
           wide = policy_default();
    return policy_over(&said, &wide);
}

/* ---- queues -------------------------------------------------------------------------------------------------------------- */

static pawl_status frozen(const char *what, pawl_error *err)
{
    return err_set(err, PAWL_MISUSE, "the engine was started before: define %s before pawl_start", what);
}

static pawl_status add_queue(runtime *rt, const pawl_queue_options *q, pawl_error *err)
{
    core_queue_config config = {.name = q->name,
                                .workers = q->workers < 0 || q->puller ? 0
                                           : q->workers                ? q->workers
                                                                       : default_workers(),
                                .capacity = q->capacity ? q->capacity : rt->options.capacity,
                                .depth_limit = q->depth_limit,
                                .full = q->full,
                                .concurrency = q->concurrency,
                                .fair = q->fair,
                                .pulled = q->puller != NULL,
                                .policy = {.max_attempts = q->max_attempts, .timeout_us = q->timeout_us, .retry = q->retry}};
    if (q->puller && !(config.owner = pawl_arena_bytes(rt->kept, q->puller, sizeof *q->puller))) return no_memory(err);
    if (!keep_retry(rt, &config.policy.retry)) return no_memory(err);
    return core_add_queue(rt->core, &config) ? no_memory(err) : PAWL_OK;
}

/* Nodes tell each other what they serve as a list with commas. */
static pawl_status check_served(const char *name, const char *what, pawl_error *err)
{
    pawl_status status = valid_name(name, what, err);
    if (!status && strchr(name, ','))
        status = err_set(err, PAWL_INVALID, "the %s \"%s\" has a comma: a node cannot serve it", what, name);
    return status;
}

static pawl_status check_queue(const pawl_queue_options *q, pawl_error *err)
{
    if (!q) return err_set(err, PAWL_INVALID, "the queue's options are NULL");
    pawl_status status = check_served(q->name, "queue", err);
    if (!status && q->workers > 0) status = in_range("workers", q->workers, WORKERS_MAX, err);
    if (!status) status = in_range("capacity", q->capacity, CAPACITY_MAX, err);
    if (!status) status = in_range("depth_limit", q->depth_limit, INT64_MAX / 2, err);
    if (!status) status = places_valid("concurrency", q->concurrency, err);
    if (!status && q->puller && (!q->puller->take || !q->puller->ended))
        status = err_set(err, PAWL_INVALID, "the puller of queue \"%s\" lacks a function: set take and ended", q->name);
    if (!status && ((int)q->full < PAWL_FULL_DEFAULT || q->full > PAWL_FULL_REJECT))
        status = err_set(err, PAWL_INVALID, "full %d is none of pawl_full", (int)q->full);
    if (!status && q->timeout_us > LONGEST_US) status = err_set(err, PAWL_INVALID, "the timeout is longer than a century");
    return status ? status : check_policy(q->max_attempts, PAWL_AUDIT_DEFAULT, &q->retry, err);
}

/* The configuration changes under the core's ownership, which also orders it with the core's own reading. */
pawl_status config_queue(runtime *rt, const pawl_queue_options *options, pawl_error *err)
{
    pawl_status status = check_queue(options, err);
    if (status) return status;
    loop_enter(rt, -1);
    if (options->concurrency || options->fair) status = places_kept(rt, err);
    if (!status) status = atomic_load(&rt->frozen) ? frozen("queues", err) : add_queue(rt, options, err);
    loop_leave(rt);
    return status;
}

pawl_status config_defaults(runtime *rt, pawl_error *err)
{
    pawl_status status = add_queue(rt, &(pawl_queue_options){.name = "default", .workers = rt->options.workers}, err);
    return status ? status : add_queue(rt, &(pawl_queue_options){.name = "recurring"}, err);
}

/* ---- handlers ------------------------------------------------------------------------------------------------------------ */

static uint64_t type_hash(const char *type) { return hash_bytes(type, strlen(type), 0); }

static handler_def *find_handler(runtime *rt, const char *type)
{
    for (map_node *node = map_get(&rt->handlers, type_hash(type)); node; node = map_next(node)) {
        handler_def *def = container_of(node, handler_def, by_type);
        if (strcmp(def->h.type, type) == 0) return def;
    }
    return NULL;
}

/* Calls `get` on the handler of a type, or NULL if there is none. */
static const handler_def *handler_of(runtime *rt, const char *type)
{
    const handler_def *def = find_handler(rt, type);
    return def ? def : rt->wildcard;
}

static const handler_def *look_up(runtime *rt, const char *type)
{
    if (atomic_load_explicit(&rt->frozen, memory_order_acquire)) return handler_of(rt, type);
    pthread_mutex_lock(&rt->config_lock);
    const handler_def *def = handler_of(rt, type); /* lives as long as the engine */
    pthread_mutex_unlock(&rt->config_lock);
    return def;
}

pawl_bytes config_rate_key(runtime *rt, const pawl_task *task)
{
    pawl_bytes key = task->rate_key;
    const handler_def *def = key.len || !atomic_load(&rt->rate_keys) ? NULL : look_up(rt, task->type);
    if (def && def->h.rate_key && !def->h.rate_key(def->h.ctx, task->payload, task->tenant ? task->tenant : "", &key))
        key = (pawl_bytes){0}; /* who runs it asks again, and tells */
    return key.len && key.len <= RATE_KEY_MAX ? key : (pawl_bytes){0};
}

pawl_rate config_rate_of(runtime *rt, const char *type)
{
    const handler_def *def = look_up(rt, type);
    return def ? def->h.rate : (pawl_rate){0};
}

const char *config_queue_of(runtime *rt, const char *type)
{
    const handler_def *def = look_up(rt, type);
    return def && def->h.queue ? def->h.queue : "default";
}

pawl_audit config_audit_of(runtime *rt, const char *type)
{
    const handler_def *def = look_up(rt, type);
    return def ? def->h.audit : PAWL_AUDIT_DEFAULT;
}

static pawl_status check_rate(const pawl_handler *h, pawl_error *err)
{
    if (h->rate_scope != PAWL_RATE_SHARED && h->rate_scope != PAWL_RATE_LOCAL)
        return err_set(err, PAWL_INVALID, "the rate scope %d is none of pawl_rate_scope", (int)h->rate_scope);
    if (h->limiter && !h->limiter->ask)
        return err_set(err, PAWL_INVALID, "the limiter of \"%s\" has no function to ask", h->type);
    if (h->limiter && h->rate.permits)
        return err_set(err, PAWL_INVALID, "the handler of \"%s\" has a rate and a limiter: use one of them", h->type);
    if (h->rate.permits == 0 && h->rate.period_us == 0 && h->rate.burst == 0) return PAWL_OK;
    if (strcmp(h->type, "*") == 0)
        return err_set(err, PAWL_INVALID, "the handler of \"*\" cannot have a rate limit: limits are per type");
    return limits_check(&h->rate, h->type, err);
}

static pawl_status check_concurrency(const pawl_handler *h, pawl_error *err)
{
    pawl_status status = places_valid("concurrency", h->concurrency, err);
    if (!status) status = places_valid("key_concurrency", h->key_concurrency, err);
    if (!status && h->ordered && h->key_concurrency != 1)
        status = err_set(err, PAWL_INVALID, "the handler of \"%s\" is ordered: set its key_concurrency to 1", h->type);
    if (!status && (h->concurrency || h->key_concurrency) && strcmp(h->type, "*") == 0)
        status = err_set(err, PAWL_INVALID, "the handler of \"*\" cannot have a concurrency limit: limits are per type");
    return status;
}

static pawl_status check_handler(const pawl_handler *h, pawl_error *err)
{
    if (!h) return err_set(err, PAWL_INVALID, "the handler is NULL");
    pawl_status status = check_served(h->type, "type", err);
    if (!status && !h->run) status = err_set(err, PAWL_INVALID, "the handler of \"%s\" has no run function", h->type);
    if (!status && h->queue) status = check_served(h->queue, "queue", err);
    if (!status && h->timeout_us > LONGEST_US) status = err_set(err, PAWL_INVALID, "the timeout is longer than a century");
    if (!status) status = check_rate(h, err);
    if (!status) status = check_concurrency(h, err);
    return status ? status : check_policy(h->max_attempts, h->audit, &h->retry, err);
}

static handler_def *copy_handler(runtime *rt, const pawl_handler *h)
{
    handler_def *def = pawl_arena_alloc(rt->kept, sizeof *def);
    if (!def) return NULL;
    def->h = *h;
    return keep(rt, &def->h.type) && keep(rt, &def->h.queue) && keep_retry(rt, &def->h.retry) ? def : NULL;
}

static pawl_status add_handler(runtime *rt, const pawl_handler *h, pawl_error *err)
{
    if (find_handler(rt, h->type))
        return err_set(err, PAWL_CONFLICT, "type \"%s\" has a handler already: a type has one", h->type);
    handler_def *def = copy_handler(rt, h);
    if (!def) return no_memory(err);
    if (h->rate_key) atomic_store(&rt->rate_keys, true);
    if (h->rate_key || h->limiter) atomic_store(&rt->custom_retry, true);
    core_handler_config config = {.type = h->type, .queue = h->queue, .handler = def};
    config.limit = (core_limit){.rate = def->h.rate,
                                .scope = def->h.rate_scope,
                                .limiter = def->h.limiter,
                                .concurrency = def->h.concurrency,
                                .key_concurrency = def->h.key_concurrency,
                                .ordered = def->h.ordered,
                                .key = def->h.rate_key,
                                .key_ctx = def->h.ctx};
    config.policy =
        (policy){.max_attempts = h->max_attempts, .timeout_us = h->timeout_us, .retry = def->h.retry, .audit = h->audit};
    if (core_add_handler(rt->core, &config)) return no_memory(err);
    pthread_mutex_lock(&rt->config_lock);
    map_put(&rt->handlers, &def->by_type, type_hash(def->h.type));
    def->next = rt->handlers_list;
    rt->handlers_list = def;
    if (strcmp(h->type, "*") == 0) rt->wildcard = def;
    pthread_mutex_unlock(&rt->config_lock);
    return PAWL_OK;
}

pawl_status config_handler(runtime *rt, const pawl_handler *handler, pawl_error *err)
{
    pawl_status status = check_handler(handler, err);
    if (status) return status;
    loop_enter(rt, -1);
    if (handler->rate.permits && handler->rate_scope == PAWL_RATE_SHARED) status = limits_kept(rt, err);
    if (!status && (handler->concurrency || handler->key_concurrency)) status = places_kept(rt, err);
    if (!status) status = atomic_load(&rt->frozen) ? frozen("handlers", err) : add_handler(rt, handler, err);
    loop_leave(rt);
    return status;
}

static bool has_queue(const runtime *rt, const char *name)
{
    for (int i = 0; i < core_queues(rt->core); i++) {
        core_queue_numbers q;
        core_queue_get(rt->core, i, &q);
        if (strcmp(q.name, name) == 0) return true;
    }
    return false;
}

/* A queue that only a handler names is served with defaults. */
pawl_status config_handler_queues(runtime *rt, pawl_error *err)
{
    for (const handler_def *def = rt->handlers_list; def; def = def->next) {
        if (!def->h.queue || has_queue(rt, def->h.queue)) continue;
        pawl_status status = add_queue(rt, &(pawl_queue_options){.name = def->h.queue}, err);
        if (status) return status;
    }
    return PAWL_OK;
}
