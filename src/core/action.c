/* What the driver is to do: actions, linked through the objects they are about, and events and log lines, which are copies. */
#include "base/text.h"
#include "core/engine.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct core_event_node {
    struct core_event_node *next;
    core_action_kind kind; /* CORE_EVENT or CORE_LOG */
    pawl_level level;
    union {
        pawl_event event;
        char text[256];
    } u;
} core_event_node;

void engine_act(core *c, core_act *act, int kind)
{
    CHECK(!list_linked(&act->link));
    act->kind = kind;
    list_append(&c->acts, &act->link);
}

void engine_call(core *c, core_call *call)
{
    CHECK(!call->busy);
    call->busy = true;
    call->sent_us = c->now.mono_us;
    call->status = PAWL_OK;
    arena_reset(call->arena);
    engine_act(c, &call->act, CORE_CALL);
}

static core_event_node *event_node(core *c, core_action_kind kind)
{
    core_event_node *node = alloc_new(c->allocator, sizeof *node);
    if (!node) return NULL; /* an event is a courtesy */
    node->kind = kind;
    *c->events_end = node;
    c->events_end = &node->next;
    return node;
}

/* Cut between characters if it is too long. */
static void cut_copy(char *to, size_t size, const char *from)
{
    if (!from) return;
    size_t n = strnlen(from, size);
    if (n == size) n = utf8_cut(from, size - 1);
    memcpy(to, from, n);
    to[n] = '\0';
}

void engine_tell(core *c, pawl_event_kind kind, const pawl_body *body, int attempt, int64_t fence, int64_t value,
                 const char *text)
{
    core_event_node *node = event_node(c, CORE_EVENT);
    if (!node) return;
    pawl_event *e = &node->u.event;
    e->kind = kind;
    e->at_us = c->now.wall_us;
    e->attempt = attempt;
    e->fence = fence;
    e->value = value;
    cut_copy(e->text, sizeof e->text, text);
    if (!body) return;
    e->id = body->id;
    cut_copy(e->type, sizeof e->type, body->type);
    cut_copy(e->queue, sizeof e->queue, body->queue);
}

void engine_log(core *c, pawl_level level, const char *fmt, ...)
{
    core_event_node *node = event_node(c, CORE_LOG);
    if (!node) return;
    node->level = level;
    va_list args;
    va_start(args, fmt);
    vsnprintf(node->u.text, sizeof node->u.text, fmt, args);
    va_end(args);
}

static void next_event(core *c, core_action *action)
{
    core_event_node *node = c->events;
    action->kind = node->kind;
    if (node->kind == CORE_EVENT) {
        action->event = node->u.event;
    } else {
        action->level = node->level;
        memcpy(action->text, node->u.text, sizeof action->text);
    }
    c->events = node->next;
    if (!c->events) c->events_end = &c->events;
    alloc_free(c->allocator, node);
}

static void fill_settled(core_action *action, core_task *t)
{
    action->task = t;
    action->settled = t->settled;
    action->delay_us = t->settle_delay_us;
    action->error = t->settle_error;
}

bool core_next(core *c, core_action *action)
{
    list *node = list_pop(&c->acts);
    if (!node) {
        if (!c->events) {
            body_moves_done(&c->moves);
            return false;
        }
        next_event(c, action);
        return true;
    }
    core_act *act = container_of(node, core_act, link);
    action->kind = (core_action_kind)act->kind;
    switch (action->kind) {
    case CORE_CALL: action->call = container_of(act, core_call, act); break;
    case CORE_RUN: action->task = container_of(act, core_task, start_act); break;
    case CORE_RECALL: action->queue = (int)(container_of(act, queue, recall) - c->queues); break;
    case CORE_STOP_RUN:
        action->task = container_of(act, core_task, stop_act);
        action->reason = action->task->stop;
        break;
    case CORE_SETTLED: fill_settled(action, container_of(act, core_task, settle_act)); break;
    case CORE_ANSWER: action->request = container_of(act, core_request, answer); break;
    case CORE_DROP: action->request = container_of(act, core_request, drop); break;
    case CORE_STOPPED: action->stuck = c->stopped_stuck; break;
    default: break;
    }
    return true;
}

/* Those that nobody took. */
void action_free_events(core *c)
{
    core_event_node *next;
    for (core_event_node *e = c->events; e; e = next) {
        next = e->next;
        alloc_free(c->allocator, e);
    }
}
