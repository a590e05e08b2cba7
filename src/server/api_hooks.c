/* /v1/hooks: who is told what happens, by POST. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "http/client.h"
#include "server/parts.h"
#include <stdio.h>
#include <string.h>

typedef struct hook_options {
    const char *url, *type, *queue, *secret;
    const char *const *events;
    bool disabled;
} hook_options;

#define HOOK(member) offsetof(hook_options, member)

/* clang-format off */
const field hook_body[] = {
    {"url", FIELD_TEXT, HOOK(url), 0, 0, "where to: http or https"},
    {"events", FIELD_TEXTS, HOOK(events), 0, PAWL_EVENT_COUNT, "names of events, as /v1/events has them; succeeded, failed and cancelled by default"},
    {"type", FIELD_TEXT, HOOK(type), 0, 0, "only of tasks of this type"},
    {"queue", FIELD_TEXT, HOOK(queue), 0, 0, "only of this queue"},
    {"secret", FIELD_TEXT, HOOK(secret), 0, 0, "to sign with: \"whsec_\" and base64 of 24 to 64 bytes; made, and told once, if there is none. One that is replaced signs too for a day"},
    {"disabled", FIELD_BOOL, HOOK(disabled), 0, 0, "send nothing for now"},
    {0},
};
/* clang-format on */

static bool there(call *c)
{
    if (c->s->options.hooks) return true;
    call_problem(c, 409, "hooks", "this server has no hooks: start it with --hooks FILE");
    return false;
}

void route_hook_list(call *c)
{
    if (!there(c) || !call_query(c, no_fields, NULL)) return;
    hook *list = pawl_arena_alloc(c->arena, HOOKS_MAX * sizeof *list);
    size_t count = list ? hooks_list(c->s->options.hooks, list) : 0;
    reply a;
    reply_begin(&a);
    jsonw_object(&a.w);
    jsonw_key(&a.w, "hooks");
    jsonw_array(&a.w);
    for (size_t i = 0; i < count; i++) {
        jsonw_object(&a.w);
        hook_members(&a.w, &list[i]);
        jsonw_end_object(&a.w);
    }
    jsonw_end_array(&a.w);
    jsonw_end_object(&a.w);
    reply_end(c, &a, 200);
}

static bool fits(const char *text, size_t room) { return !text || strlen(text) < room; }

static pawl_status read_hook(const call *c, const hook_options *o, hook *k, pawl_error *err)
{
    const char *why;
    if (!name_valid(c->segment, &why)) return err_set(err, PAWL_INVALID, "the hook's name %s", why);
    if (!o->url || !fits(o->url, sizeof k->url)) return err_set(err, PAWL_INVALID, "\"url\" is needed, of at most 2000 bytes");
    if (!client_url_valid(o->url, &why)) return err_set(err, PAWL_INVALID, "\"url\" %s", why);
    if ((o->type && !name_valid(o->type, &why)) || (o->queue && !name_valid(o->queue, &why)))
        return err_set(err, PAWL_INVALID, "\"type\" or \"queue\" %s", why);
    if (!fits(o->secret, sizeof k->secret)) return err_set(err, PAWL_INVALID, "\"secret\" is too long");
    if (!hook_events(o->events, &k->events)) return err_set(err, PAWL_INVALID, "\"events\" has a name that no event has");
    if (!k->events)
        k->events = UINT64_C(1) << PAWL_EVENT_SUCCEEDED | UINT64_C(1) << PAWL_EVENT_FAILED | UINT64_C(1) << PAWL_EVENT_CANCELLED;
    snprintf(k->name, sizeof k->name, "%.200s", c->segment);
    snprintf(k->url, sizeof k->url, "%s", o->url);
    snprintf(k->type, sizeof k->type, "%s", o->type ? o->type : "");
    snprintf(k->queue, sizeof k->queue, "%s", o->queue ? o->queue : "");
    snprintf(k->secret, sizeof k->secret, "%s", o->secret ? o->secret : "");
    k->disabled = o->disabled;
    return PAWL_OK;
}

void route_hook_put(call *c)
{
    hook_options o = {0};
    hook k = {0};
    pawl_error err;
    bool made;
    if (!there(c) || !call_query(c, no_fields, NULL) || !call_body(c, hook_body, &o)) return;
    if (read_hook(c, &o, &k, &err) || hooks_put(c->s->options.hooks, &k, &made, &err)) {
        call_fail(c, &err);
        return;
    }
    reply a;
    reply_begin(&a);
    jsonw_object(&a.w);
    json_text(&a.w, "name", k.name);
    if (made) json_text(&a.w, "secret", k.secret);
    jsonw_end_object(&a.w);
    reply_end(c, &a, 200);
}

void route_hook_drop(call *c)
{
    pawl_error err;
    if (!there(c) || !call_query(c, no_fields, NULL)) return;
    if (hooks_drop(c->s->options.hooks, c->segment, &err)) call_fail(c, &err);
    else reply_done(c, "removed");
}

void route_hook_test(call *c)
{
    pawl_error err;
    pawl_id id;
    if (!there(c) || !call_query(c, no_fields, NULL)) return;
    if (hooks_test(c->s->options.hooks, c->segment, &id, &err)) call_fail(c, &err);
    else reply_receipt(c, &(pawl_receipt){.outcome = PAWL_CREATED, .id = id});
}
