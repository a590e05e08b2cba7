/* Every name that C, SQL, JSON and people share, from the tables of the public headers.
 *
 * A name is lower case and never changes once released: stores keep it. A value without a name has the name "".
 */
#include <pawl.h>
#include <pawl/store.h>
#include <stdio.h>
#include <string.h>

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

/* ---- status ------------------------------------------------------------------------------------------------------------- */

typedef struct status_row {
    const char *text;
    int http, exit_code;
    bool retryable;
} status_row;

static const status_row statuses[] = {
#define X(name, text, http, exit, retryable) {text, http, exit, retryable},
    PAWL_STATUS_TABLE(X)
#undef X
};

/* The preprocessor cannot write lower case; a test holds these against the table. */
static const char *const status_names[PAWL_STATUS_COUNT] = {
    [PAWL_OK] = "ok",
    [PAWL_INVALID] = "invalid",
    [PAWL_TOO_LARGE] = "too_large",
    [PAWL_NOT_FOUND] = "not_found",
    [PAWL_CONFLICT] = "conflict",
    [PAWL_LEASE_LOST] = "lease_lost",
    [PAWL_FULL] = "full",
    [PAWL_UNAVAILABLE] = "unavailable",
    [PAWL_TIMEOUT] = "timeout",
    [PAWL_UNKNOWN] = "unknown",
    [PAWL_DENIED] = "denied",
    [PAWL_MISUSE] = "misuse",
    [PAWL_CLOSED] = "closed",
    [PAWL_SCHEMA] = "schema",
    [PAWL_CORRUPT] = "corrupt",
    [PAWL_UNSUPPORTED] = "unsupported",
    [PAWL_NO_MEMORY] = "no_memory",
    [PAWL_INTERNAL] = "internal",
    [PAWL_MOVED] = "moved",
};

/* A number that is no status can only come from a bug. */
static int known(pawl_status status) { return (int)status >= 0 && status < PAWL_STATUS_COUNT ? (int)status : (int)PAWL_INTERNAL; }

const char *pawl_status_name(pawl_status status) { return status_names[known(status)]; }

const char *pawl_status_text(pawl_status status) { return statuses[known(status)].text; }

int pawl_status_exit_code(pawl_status status) { return statuses[known(status)].exit_code; }

int pawl_status_http(pawl_status status) { return statuses[known(status)].http; }

bool pawl_status_retryable(pawl_status status) { return statuses[known(status)].retryable; }

int pawl_die(const pawl_error *err)
{
    pawl_status status = err ? err->status : PAWL_INTERNAL;
    fprintf(stderr, "pawl: %s\n", err && err->message[0] ? err->message : pawl_status_text(status));
    return pawl_status_exit_code(status);
}

const char *pawl_version(void) { return PAWL_VERSION; }

/* ---- names of values ------------------------------------------------------------------------------------------------------ */

static const char *const states[PAWL_STATE_COUNT] = {
#define X(name, text, terminal) [PAWL_##name] = text,
    PAWL_STATE_TABLE(X)
#undef X
};

static const char *const offs[] = {"enabled",
#define X(name, text) text,
                                   PAWL_OFF_TABLE(X)
#undef X
};

static const char *const occurrences[] = {"",
#define X(name, text) text,
                                          PAWL_OCCURRENCE_TABLE(X)
#undef X
};

static const char *const audits[] = {
    [PAWL_AUDIT_DEFAULT] = "default", [PAWL_AUDIT_FULL] = "full", [PAWL_AUDIT_MINIMAL] = "minimal",
    [PAWL_AUDIT_ERRORS] = "errors",   [PAWL_AUDIT_NONE] = "none",
};

static const char *const levels[] = {
    [PAWL_DEBUG] = "debug",
    [PAWL_INFO] = "info",
    [PAWL_WARN] = "warn",
    [PAWL_ERROR] = "error",
};

static const char *const dispatches[] = {
    [PAWL_CREATED] = "created",
    [PAWL_EXISTING] = "existing",
    [PAWL_UPDATED] = "updated",
    [PAWL_REPLACED] = "replaced",
};

static const char *const events[PAWL_EVENT_COUNT] = {
#define X(name, text) [PAWL_EVENT_##name] = text,
    PAWL_EVENT_TABLE(X)
#undef X
};

static const char *const attempts[PAWL_ATTEMPT_COUNT] = {
#define X(name, text) [PAWL_ATTEMPT_##name] = text,
    PAWL_ATTEMPT_TABLE(X)
#undef X
};

static const char *name_of(const char *const *table, int count, int value)
{
    return value >= 0 && value < count && table[value] ? table[value] : "";
}

static int value_of(const char *const *table, int count, const char *text)
{
    for (int i = 0; text && i < count; i++)
        if (table[i] && strcmp(table[i], text) == 0) return i;
    return -1;
}

const char *pawl_state_name(pawl_state state) { return name_of(states, COUNT(states), (int)state); }

bool pawl_state_parse(const char *text, pawl_state *state)
{
    int value = value_of(states, COUNT(states), text);
    if (value < 0) return false;
    *state = (pawl_state)value;
    return true;
}

bool pawl_state_terminal(pawl_state state)
{
    switch (state) {
#define X(name, text, terminal) \
    case PAWL_##name: return terminal;
        PAWL_STATE_TABLE(X)
#undef X
    default: return false;
    }
}

const char *pawl_audit_name(pawl_audit audit) { return name_of(audits, COUNT(audits), (int)audit); }

bool pawl_audit_parse(const char *text, pawl_audit *audit)
{
    int value = value_of(audits, COUNT(audits), text);
    if (value < 0) return false;
    *audit = (pawl_audit)value;
    return true;
}

const char *pawl_level_name(pawl_level level) { return name_of(levels, COUNT(levels), (int)level); }

const char *pawl_dispatched_name(pawl_dispatched outcome) { return name_of(dispatches, COUNT(dispatches), (int)outcome); }

const char *pawl_event_name(pawl_event_kind kind) { return name_of(events, COUNT(events), (int)kind); }

const char *pawl_attempt_outcome_name(pawl_attempt_outcome outcome) { return name_of(attempts, COUNT(attempts), (int)outcome); }

static const char *const policies[] = {"cancel", "run", "hold"};

const char *pawl_if_failed_name(pawl_if_failed policy) { return (unsigned)policy < COUNT(policies) ? policies[policy] : "?"; }

bool pawl_if_failed_parse(const char *text, pawl_if_failed *policy)
{
    for (size_t i = 0; text && i < COUNT(policies); i++)
        if (strcmp(text, policies[i]) == 0) {
            *policy = (pawl_if_failed)i;
            return true;
        }
    return false;
}

const char *pawl_off_name(pawl_off off) { return name_of(offs, COUNT(offs), (int)off); }

const char *pawl_occurrence_name(pawl_occurrence_state state) { return name_of(occurrences, COUNT(occurrences), (int)state); }
