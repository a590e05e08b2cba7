/* The routes: one table for the router, for who may use them, for the OpenAPI document and for docs/api.md (made by scripts/api.py).
 *
 * scope    what a token must allow: READ, ENQUEUE, WORK, OPERATE, ADMIN; NONE: anybody who can connect
 * place    LOOP: answered on the listener's thread, so it must not wait. DESK: on a thread that may. STREAM: takes its body in pieces
 * tenant   OWN: a token that is bound to a tenant sees that tenant's alone. ALL: such a token is refused
 * query    table of its parameters; body: table of the members of its JSON object; answer: a schema of openapi.c
 * command  what does the same on the command line; "": nothing does
 */
#ifndef SERVER_ROUTES_H
#define SERVER_ROUTES_H

/* clang-format off */
#define ROUTE_TABLE(X)                                                                                                                              \
    /* name         method  path                           scope    place   tenant query         body          answer          command              summary */ \
    X(task_create,  POST,   "/v1/tasks",                   ENQUEUE, LOOP,   OWN,   no_fields,    task_fields,  "receipt",      "enqueue",           "Hand over a task: the answer comes when it is committed") \
    X(task_list,    GET,    "/v1/tasks",                   READ,    DESK,   OWN,   list_query,   no_fields,    "page",         "tasks list",        "Tasks that match, newest first, page by page") \
    X(task_bulk,    POST,   "/v1/tasks/bulk",              ENQUEUE, STREAM, OWN,   no_fields,    no_fields,    "bulk",         "enqueue",           "Hand over many tasks: a JSON array in one commit, or NDJSON as a stream") \
    X(tasks_cancel, POST,   "/v1/tasks/cancel",            OPERATE, DESK,   OWN,   no_fields,    action_body,  "results",      "tasks cancel",      "Cancel tasks by their ids, or all that match a filter") \
    X(task_get,     GET,    "/v1/tasks/{id}",              READ,    DESK,   OWN,   get_query,    no_fields,    "task",         "tasks show",        "A task with its attempts, log, trail, and why it is where it is") \
    X(task_why,     GET,    "/v1/tasks/{id}/why",          READ,    DESK,   OWN,   no_fields,    no_fields,    "why",          "tasks why",         "Why is this task not running?") \
    X(task_cancel,  POST,   "/v1/tasks/{id}/cancel",       OPERATE, DESK,   OWN,   no_fields,    no_fields,    "done",         "tasks cancel",      "Cancel a task; a running one is asked to stop") \
    X(task_retry,   POST,   "/v1/tasks/{id}/retry",        OPERATE, DESK,   OWN,   no_fields,    no_fields,    "receipt",      "tasks retry",       "Run a failed or cancelled task again, as a new task") \
    X(task_tree,    GET,    "/v1/tasks/{id}/tree",         READ,    DESK,   ALL,   tree_query,   no_fields,    "tree",         "tasks tree",        "A task or batch and those that wait for it, or that it waits for") \
    X(relatives,    GET,    "/v1/tasks/{id}/relatives",    READ,    DESK,   ALL,   relatives_query, no_fields,    "relatives",    "tasks tree",        "Whom a task or batch has to do with, page by page; parents with their results") \
    X(batch_list,   GET,    "/v1/batches",                 READ,    DESK,   ALL,   batches_query, no_fields,    "batches",      "batches list",      "Batches of tasks, newest first") \
    X(batch_open,   POST,   "/v1/batches",                 ENQUEUE, DESK,   ALL,   no_fields,    batch_body,   "batch",        "batches open",      "Begin a batch, with tasks for its end") \
    X(batch_get,    GET,    "/v1/batches/{batch}",         READ,    DESK,   ALL,   no_fields,    no_fields,    "batch",        "batches show",      "A batch, by its id or name, and its counts") \
    X(batch_close,  POST,   "/v1/batches/{batch}/close",   ENQUEUE, DESK,   ALL,   no_fields,    no_fields,    "done",         "batches close",     "Let a batch have no more members") \
    X(batch_cancel, POST,   "/v1/batches/{batch}/cancel",  OPERATE, DESK,   ALL,   no_fields,    no_fields,    "done",         "batches cancel",    "Close a batch and cancel all of it that has not ended") \
    X(dead_list,    GET,    "/v1/dead",                    READ,    DESK,   OWN,   list_query,   no_fields,    "page",         "dead list",         "Failed tasks that nobody has dealt with") \
    X(dead_retry,   POST,   "/v1/dead/retry",              OPERATE, DESK,   OWN,   no_fields,    action_body,  "results",      "dead retry",        "Run dead letters again") \
    X(dead_ack,     POST,   "/v1/dead/ack",                OPERATE, DESK,   OWN,   no_fields,    action_body,  "results",      "dead ack",          "Acknowledge dead letters, with a note") \
    X(queue_list,   GET,    "/v1/queues",                  READ,    DESK,   ALL,   no_fields,    no_fields,    "queues",       "queues list",       "Queues: what waits and runs in them") \
    X(queue_pause,  POST,   "/v1/queues/{queue}/pause",    OPERATE, DESK,   ALL,   no_fields,    no_fields,    "done",         "queues pause",      "Start nothing more of a queue, on all nodes") \
    X(queue_resume, POST,   "/v1/queues/{queue}/resume",   OPERATE, DESK,   ALL,   no_fields,    no_fields,    "done",         "queues resume",     "Let a paused queue go on") \
    X(limit_list,   GET,    "/v1/limits",                  READ,    DESK,   ALL,   limits_query, no_fields,    "limits",       "limits list",       "Rate limits, and how much of them is left") \
    X(limit_set,    PUT,    "/v1/limits/{type}",           OPERATE, DESK,   ALL,   key_query,    rate_body,    "done",         "limits set",        "Limit how many tasks of a type start per period, for each key or for one") \
    X(limit_drop,   DELETE, "/v1/limits/{type}",           OPERATE, DESK,   ALL,   key_query,    no_fields,    "done",         "limits drop",       "Take a limit away") \
    X(limit_pause,  POST,   "/v1/limits/{type}/pause",     OPERATE, DESK,   ALL,   key_query,    no_fields,    "done",         "limits pause",      "Start nothing more of a rate key") \
    X(limit_resume, POST,   "/v1/limits/{type}/resume",    OPERATE, DESK,   ALL,   key_query,    no_fields,    "done",         "limits resume",     "Let a paused rate key go on") \
    X(place_list,   GET,    "/v1/concurrency",             READ,    DESK,   ALL,   places_query, no_fields,    "places",       "limits list",       "Concurrency limits: who runs and who waits under them") \
    X(place_set,    PUT,    "/v1/concurrency/{name}",      OPERATE, DESK,   ALL,   place_query,  most_body,    "done",         "limits running",    "Limit how many tasks of a queue, a type or a rate key run at a time, or let tenants take turns") \
    X(place_drop,   DELETE, "/v1/concurrency/{name}",      OPERATE, DESK,   ALL,   place_query,  no_fields,    "done",         "limits running",    "Take a concurrency limit away") \
    X(schedule_list, GET,    "/v1/schedules",               READ,    DESK,   ALL,   schedules_query, no_fields,    "schedules",    "schedules list",    "Schedules by name, and when they fire next") \
    X(schedule_preview, POST,   "/v1/schedules/preview",       READ,    DESK,   ALL,   preview_query, schedule_fields, "times",        "",                  "When a schedule that is not stored would fire") \
    X(schedule_get, GET,    "/v1/schedules/{name}",        READ,    DESK,   ALL,   schedule_query, no_fields,    "schedule",     "schedules show",    "A schedule with its next times and what became of its last occurrences") \
    X(schedule_put, PUT,    "/v1/schedules/{name}",        OPERATE, DESK,   ALL,   put_query,    schedule_fields, "put",          "schedules add",     "Store a schedule: a new one, or in place of what is there") \
    X(schedule_drop, DELETE, "/v1/schedules/{name}",        OPERATE, DESK,   ALL,   no_fields,    no_fields,    "done",         "schedules rm",      "Remove a schedule; its tasks stay") \
    X(schedule_enable, POST,   "/v1/schedules/{name}/enable", OPERATE, DESK,   ALL,   no_fields,    no_fields,    "done",         "schedules enable",  "Let a schedule that is off go on, from now") \
    X(schedule_disable, POST,   "/v1/schedules/{name}/disable", OPERATE, DESK,   ALL,   no_fields,    no_fields,    "done",         "schedules disable", "Let a schedule fire nothing, on any node") \
    X(schedule_run, POST,   "/v1/schedules/{name}/run",    OPERATE, DESK,   ALL,   no_fields,    run_body,     "receipt",      "schedules run",     "Make a task of a schedule now") \
    X(node_list,    GET,    "/v1/nodes",                   READ,    DESK,   ALL,   nodes_query,  no_fields,    "nodes",        "nodes",             "Processes that run tasks") \
    X(node_drain,   POST,   "/v1/nodes/{node}/drain",      OPERATE, DESK,   ALL,   no_fields,    no_fields,    "done",         "nodes",             "Let a node start nothing more; what runs there comes to its end") \
    X(node_undrain, POST,   "/v1/nodes/{node}/undrain",    OPERATE, DESK,   ALL,   no_fields,    no_fields,    "done",         "nodes",             "Let a node that was drained start tasks again") \
    X(worker_list,  GET,    "/v1/workers",                 READ,    LOOP,   ALL,   no_fields,    no_fields,    "workers",      "",                  "Remote workers: what they are for, what they have") \
    X(worker_register, POST, "/v1/workers",                WORK,    DESK,   ALL,   no_fields,    worker_body,  "registered",   "work",              "Register a worker: it may claim tasks of its queues and types") \
    X(worker_leave, DELETE, "/v1/workers/{worker}",        WORK,    LOOP,   ALL,   no_fields,    no_fields,    "done",         "work",              "The worker goes: what it still has is given back") \
    X(worker_claim, POST,   "/v1/workers/{worker}/claim",  WORK,    LOOP,   ALL,   no_fields,    claim_body,   "claimed",      "work",              "Tasks to run: answers as soon as there are any, or when the wait is over") \
    X(worker_renew, POST,   "/v1/workers/{worker}/renew",  WORK,    LOOP,   ALL,   no_fields,    renew_body,   "renewed",      "work",              "The worker lives, and has these tasks: answers what to stop, and what is lost") \
    X(worker_report, POST,  "/v1/workers/{worker}/report", WORK,    LOOP,   ALL,   no_fields,    report_body,  "reported",     "work",              "Outcomes, logs and progress of many tasks: answers for each, when all are committed") \
    X(worker_drain, POST,   "/v1/workers/{worker}/drain",  OPERATE, LOOP,   ALL,   no_fields,    no_fields,    "done",         "",                  "Give the worker nothing more, and tell it so") \
    X(act_list,     GET,    "/v1/acts",                    READ,    DESK,   ALL,   acts_query,   no_fields,    "acts",         "log",                "The operator log: who did what, newest first") \
    X(stats,        GET,    "/v1/stats",                   READ,    DESK,   ALL,   stats_query,  no_fields,    "stats",        "stats",             "Counts, rates and times") \
    X(events,       GET,    "/v1/events",                  READ,    LOOP,   ALL,   events_query, no_fields,    "text/event-stream", "",             "What happens to tasks, as it happens (server-sent events)") \
    X(hook_list,    GET,    "/v1/hooks",                   ADMIN,   DESK,   ALL,   no_fields,    no_fields,    "hooks",        "",                  "Who is told what happens, by signed POSTs (Standard Webhooks)") \
    X(hook_put,     PUT,    "/v1/hooks/{name}",            ADMIN,   DESK,   ALL,   no_fields,    hook_body,    "hook_made",    "",                  "Tell a URL what happens from now on") \
    X(hook_drop,    DELETE, "/v1/hooks/{name}",            ADMIN,   DESK,   ALL,   no_fields,    no_fields,    "done",         "",                  "Tell it no more") \
    X(hook_test,    POST,   "/v1/hooks/{name}/test",       ADMIN,   DESK,   ALL,   no_fields,    no_fields,    "receipt",      "",                  "Send it an event that is a test: the answer is the task that does") \
    X(openapi,      GET,    "/v1/openapi.json",            NONE,    LOOP,   OWN,   no_fields,    no_fields,    "any",          "",                  "This description") \
    X(session_get,  GET,    "/v1/session",                 NONE,    LOOP,   OWN,   no_fields,    no_fields,    "session",      "",                  "Who the server takes the caller for, and what they may do") \
    X(session_new,  POST,   "/v1/session",                 NONE,    LOOP,   OWN,   no_fields,    session_body, "session",      "",                  "Log in: the token becomes a cookie of the browser") \
    X(session_end,  DELETE, "/v1/session",                 NONE,    LOOP,   OWN,   no_fields,    no_fields,    "done",         "",                  "Log out: the cookie is taken back") \
    X(health,       GET,    "/healthz",                    NONE,    LOOP,   OWN,   no_fields,    no_fields,    "alive",        "",                  "Whether the process lives") \
    X(ready,        GET,    "/readyz",                     NONE,    DESK,   OWN,   no_fields,    no_fields,    "ready",        "doctor",            "Whether the server can do its work, and what a person should know") \
    X(metrics,      GET,    "/metrics",                    READ,    DESK,   ALL,   no_fields,    no_fields,    "text/plain",   "",                  "Numbers for Prometheus") \
    X(web_page,     GET,    "/",                           NONE,    LOOP,   OWN,   no_fields,    no_fields,    "text/html",    "",                  "The dashboard") \
    X(web_asset,    GET,    "/assets/{asset}",             NONE,    LOOP,   OWN,   no_fields,    no_fields,    "application/octet-stream", "",      "Scripts, styles and pictures of the dashboard")
/* clang-format on */

#endif
