/* What the files of this folder share. */
#ifndef SERVER_PARTS_H
#define SERVER_PARTS_H

#include "base/list.h"
#include "http/http.h"
#include "server/auth.h"
#include "server/encode.h"
#include "server/fields.h"
#include "server/hooks.h"
#include "server/server.h"
#include <pthread.h>
#include <stdatomic.h>

#define SEGMENTS_MAX 1 /* of a path that stand for a name */
#define ANSWER_MAX (64u << 20)
#define BULK_BODY_MAX (16u << 20)
#define SMALL_BODY_MAX (256u << 10) /* actions: a thousand ids and more */

typedef struct call call;

typedef enum route_place { PLACE_LOOP = 1, PLACE_DESK, PLACE_STREAM } route_place;
typedef enum route_tenant { TENANT_OWN = 1, TENANT_ALL } route_tenant;

typedef struct route {
    const char *name;
    http_method method;
    const char *path;
    scope scope;
    route_place place;
    route_tenant tenant;
    const field *query, *body;
    const char *answer, *command, *summary;
    void (*run)(call *c);
} route;

extern const route routes[]; /* ends with name NULL */
extern const field no_fields[], list_query[], get_query[], action_body[], limits_query[], key_query[], rate_body[], nodes_query[],
    acts_query[], stats_query[], events_query[], schedules_query[], schedule_query[], put_query[], preview_query[], run_body[],
    places_query[], place_query[], most_body[], batches_query[], batch_body[], tree_query[], relatives_query[], hook_body[],
    worker_body[], claim_body[], renew_body[], report_body[], session_body[];

struct bulk;
struct idem;

/* One request on its way through the server. */
struct call {
    server *s;
    http_request *r;
    const route *route;
    caller who;
    char segment[1024]; /* what stands for {id}, {queue}, {type} */
    pawl_arena *arena;
    list link; /* in the desk's queue */
    int64_t begun_us;
    struct bulk *bulk;
    struct idem *idem;
};

/* desk.c: threads that may wait for the store. */
typedef struct desk {
    pthread_mutex_t lock;
    pthread_cond_t come;
    list queue;
    size_t count;
    bool closing;
    pthread_t *threads;
    int threads_count;
} desk;

bool desk_open(desk *d, int threads);
void desk_close(desk *d);
bool desk_take(desk *d, call *c); /* false: too many wait */

/* idem.c: answers that are remembered under an Idempotency-Key. */
typedef struct idem_table idem_table;
idem_table *idem_new(void);
void idem_free(idem_table *t);
bool idem_begin(call *c); /* false: it was answered: again, or with a problem */
void idem_end(call *c, int status, const buf *body);

/* follow.c: calls back, on a thread of its own, with what all nodes tell, while it is wanted. `now`: that is all so far. */
typedef struct follower follower;
typedef void (*follow_fn)(void *ctx, const pawl_facts *facts, bool now);
follower *follow_open(pawl *p, int64_t after, follow_fn take, void *ctx, pawl_error *err);
void follow_want(follower *f, bool wanted);
void follow_wait(follower *f); /* until it listens; or two seconds */
void follow_close(follower *f);

/* events.c */
typedef struct events events;
events *events_new(server *s, size_t most, pawl_error *err);
void events_stop(events *e); /* ends all streams */
void events_free(events *e);
int events_clients(events *e);
int64_t events_dropped(events *e);

/* crew.c: remote workers */
typedef struct crew crew;
crew *crew_new(server *s, pawl_error *err);
void crew_drain(crew *w); /* nothing is handed out any more */
int crew_workers(crew *w);
int crew_held(crew *w); /* tasks that workers have */
void crew_free(crew *w);

/* metrics.c */
typedef struct counters {
    atomic_llong requests[6]; /* by the first digit of their status */
    atomic_llong enqueued, refused;
    atomic_llong under_way;
} counters;

struct server {
    server_options options;
    char *prefix;
    auth *auth;
    http_server *http;
    http_tls *tls;
    desk desk;
    idem_table *idem;
    events *events;
    crew *crew;
    counters counters;
    atomic_bool quiet, access_log;
    int64_t started_us;
};

/* call.c */
void call_answer(call *c, int status, const char *content_type, buf *body); /* the buffer's memory is taken */
void call_fail(call *c, const pawl_error *err);                             /* by the status table */
void call_problem(call *c, int status, const char *type, const char *fmt, ...) PAWL_PRINTF(4, 5);
bool call_query(call *c, const field *table, void *to); /* false: answered */
bool call_body(call *c, const field *table, void *to);  /* false: answered */
bool call_id(call *c, pawl_id *id);                     /* false: answered */
bool call_tenant(call *c, const char **tenant);         /* forces a bound caller's tenant upon it; false: answered */
pawl_status call_kin(const call *c, const pawl_task *task, pawl_error *err); /* DENIED: they may be another tenant's */
bool call_may_see(const call *c, const pawl_info *task);
pawl_status call_owner(const call *c, pawl_id id, pawl_error *err); /* NOT_FOUND: it is another tenant's */
bool call_own(call *c, pawl_id id);                                 /* the same; false: answered */
const char *call_by(const call *c);                                 /* for the operator log */

typedef struct reply {
    buf out;
    json_writer w;
} reply;

void reply_begin(reply *a);
void reply_end(call *c, reply *a, int status);
void reply_done(call *c, const char *what);       /* {"done":"paused"} */
void hook_members(json_writer *w, const hook *k); /* hooks.c: without the braces, and without secrets */
void reply_receipt(call *c, const pawl_receipt *receipt);

const route *route_find(http_method method, const char *path, char segment[1024], bool *other_method);

/* web.c */
void web_redirect(call *c); /* from the prefix without its last slash */

/* bulk.c */
size_t bulk_data(call *c, const char *data, size_t n);
void bulk_end(call *c);
void bulk_free(call *c);

#define X(name, ...) void route_##name(call *c);
#include "server/routes.h"
ROUTE_TABLE(X)
#undef X

#endif
