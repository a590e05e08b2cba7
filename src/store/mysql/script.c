/* Scripts: putting them together, sending them, what comes back.
 *
 * If the answer of a script that ends in COMMIT does not come, it may have happened: UNKNOWN. An error that the server reports means that
 * nothing happened, because the script stopped there and what it had begun is rolled back. A connection whose script was given up is
 * dropped, and the server rolls back what it finds open.
 */
#include "base/alloc.h"
#include "store/mysql/conn.h"
#include <errmsg.h>
#include <errno.h>
#include <mysqld_error.h>
#include <poll.h>
#include <stdio.h>

#define PART_BYTES ((size_t)1 << 20) /* a script longer than this goes in parts */

/* ---- sending ------------------------------------------------------------------------------------------------------------- */

/* The connection is of no use any more. */
static void lost(conn *c, bool in_time, bool writes)
{
    int code = in_time ? (int)mysql_errno(c->my) : 0;
    char why[300];
    snprintf(why, sizeof why, "%s", !in_time ? "the server did not answer in time" : mysql_error(c->my));
    my_conn_note(c, writes ? PAWL_UNKNOWN : PAWL_UNAVAILABLE, code, why[0] ? why : "the connection was lost");
    my_conn_drop(c);
}

static bool is_loss(int code)
{
    return code == CR_SERVER_GONE_ERROR || code == CR_SERVER_LOST || code == CR_SERVER_LOST_EXTENDED ||
           code == CR_UNKNOWN_ERROR || code == CR_MALFORMED_PACKET || code == CR_COMMANDS_OUT_OF_SYNC ||
           code == CR_SSL_CONNECTION_ERROR;
}

/* The server's own word that the statement failed; or the end of the connection. */
static void failed(conn *c, bool writes)
{
    int code = (int)mysql_errno(c->my);
    if (is_loss(code) && c->borrowed) my_conn_note(c, PAWL_UNAVAILABLE, code, "the connection was lost");
    else if (is_loss(code)) lost(c, true, writes);
    else if (code == ER_ERROR_DURING_COMMIT && writes) my_conn_note(c, PAWL_UNKNOWN, code, mysql_error(c->my));
    else my_conn_note_error(c);
    if (c->my && !c->borrowed && (code == ER_CONNECTION_KILLED || code == ER_SERVER_SHUTDOWN || code == ER_NET_PACKET_TOO_LARGE))
        my_conn_drop(c);
}

static bool wait_for(const conn *c, int64_t until_us)
{
    struct pollfd p = {.fd = (int)mysql_get_socket(c->my), .events = POLLIN};
    for (;;) {
        int64_t left_us = until_us - my_mono_us();
        int n = poll(&p, 1, left_us > 0 ? (int)(left_us / 1000) + 1 : 0);
        if (n > 0) return true;
        if (n == 0 && left_us <= 0) return false;
        if (n < 0 && errno != EINTR) return true; /* the library will say what it is */
    }
}

static bool keep_answer(conn *c, sql_name which, MYSQL_RES *res)
{
    if (c->answers_count == c->answers_room) {
        int room = c->answers_room ? 2 * c->answers_room : 8;
        answer *grown = alloc_resize(c->allocator, c->answers, (size_t)room * sizeof *grown);
        if (!grown) return false;
        c->answers = grown;
        c->answers_room = room;
    }
    answer *a = &c->answers[c->answers_count];
    *a = (answer){.which = which, .rows = (int)mysql_num_rows(res), .columns = (int)mysql_num_fields(res)};
    size_t rows = (size_t)a->rows + 1;
    a->row = alloc_resize(c->allocator, NULL, rows * sizeof *a->row);
    a->lengths = alloc_resize(c->allocator, NULL, rows * (size_t)a->columns * sizeof *a->lengths);
    if (!a->row || !a->lengths) {
        alloc_free(c->allocator, a->row);
        alloc_free(c->allocator, a->lengths);
        return false;
    }
    for (int i = 0; i < a->rows; i++) {
        a->row[i] = mysql_fetch_row(res);
        memcpy(a->lengths + (size_t)i * (size_t)a->columns, mysql_fetch_lengths(res), (size_t)a->columns * sizeof *a->lengths);
    }
    a->res = res;
    c->answers_count++;
    return true;
}

static bool leaves_unsettled(sql_name which)
{
    return which == SQL_ends_left || which == SQL_members_drained || which == SQL_retried_left || which == SQL_unsettled_put;
}

/* One result: rows, or a number of them. */
static bool take_result(conn *c, int at, bool *no_memory)
{
    sql_name which = at < c->sent_count ? c->sent[at] : SQL_COUNT;
    MYSQL_RES *res = mysql_store_result(c->my);
    if (!res && mysql_field_count(c->my) > 0) return false;
    c->affected = mysql_affected_rows(c->my);
    if (leaves_unsettled(which)) c->unsettled += c->affected;
    if (mysql_insert_id(c->my)) c->insert_id = mysql_insert_id(c->my);
    if (!res) return true;
    if (!*no_memory && !keep_answer(c, which, res)) *no_memory = true;
    if (*no_memory) mysql_free_result(res);
    return true;
}

static bool no_memory_after(conn *c, bool writes)
{
    my_conn_no_memory(c);
    if (writes) my_conn_note(c, PAWL_UNKNOWN, ANSWER_NO_MEMORY, "out of memory while the answer was read");
    return false;
}

/* All statements in one message. */
static bool send_together(conn *c, bool writes)
{
    int64_t most_us = c->link->call_us + 3 * PAWL_SECOND;
    int64_t until_us = my_mono_us() + (c->patient ? PAWL_HOUR : c->limit_us && c->limit_us < most_us ? c->limit_us : most_us);
    bool no_memory = false;
    if (mysql_send_query(c->my, c->script.data, c->script.len) != 0) {
        lost(c, true, writes);
        return false;
    }
    if (!wait_for(c, until_us)) {
        lost(c, false, writes);
        return false;
    }
    if (mysql_read_query_result(c->my) != 0) {
        failed(c, writes);
        return false;
    }
    for (int at = 0;; at++) {
        if (!take_result(c, at, &no_memory)) {
            failed(c, writes);
            return false;
        }
        int more = mysql_next_result(c->my);
        if (more < 0) break;
        if (more == 0) continue;
        failed(c, writes);
        return false;
    }
    return !no_memory || no_memory_after(c, writes);
}

/* The caller's own connection may not take several at once. */
static bool send_apart(conn *c)
{
    bool no_memory = false;
    size_t from = 0;
    for (int at = 0; at < c->sent_count; from = c->ends[at++] + 1) {
        if (mysql_real_query(c->my, c->script.data + from, c->ends[at] - from) != 0 || !take_result(c, at, &no_memory)) {
            failed(c, false);
            return false;
        }
    }
    return !no_memory || no_memory_after(c, false);
}

static bool begins(const conn *c)
{
    for (int i = 0; i < c->sent_count && !c->borrowed; i++)
        if (c->sent[i] == SQL_begin) return true;
    return false;
}

static bool send_script(conn *c, bool writes)
{
    if (c->script.failed || c->literals.failed) {
        my_conn_no_memory(c);
        return false;
    }
    if (c->script.len == 0) return true;
    if (!my_conn_ready(c)) return false;
    hush h = my_hush(c->tls);
    bool good = c->borrowed ? send_apart(c) : send_together(c, writes);
    my_hush_end(&h);
    if (begins(c)) c->inside = c->my != NULL;
    return good;
}

/* A connection that broke under a script which certainly did not happen is worth a second one, unless a transaction was lost with it. */
bool my_send(conn *c, call_mode mode)
{
    bool writes = mode == CALL_WRITES, inside = c->inside, good = !c->script_failed && send_script(c, writes);
    bool broke = !good && !c->my && (c->code == CR_SERVER_GONE_ERROR || c->code == CR_SERVER_LOST);
    if (broke && !c->script_failed && !inside && !writes && !c->borrowed) {
        my_answers_forget(c);
        good = send_script(c, writes);
    }
    c->script_failed = false;
    if (good && writes) c->inside = false;
    c->sent_count = 0;
    buf_clear(&c->script);
    return good;
}

void my_rollback(conn *c)
{
    if (c->borrowed || !c->my || !c->inside) return;
    hush h = my_hush(c->tls);
    bool good = mysql_real_query(c->my, "ROLLBACK", 8) == 0;
    my_hush_end(&h);
    if (!good) my_conn_drop(c);
    c->inside = false;
}

/* ---- putting scripts together -------------------------------------------------------------------------------------------- */

void my_answers_forget(conn *c)
{
    for (int i = 0; i < c->answers_count; i++) {
        mysql_free_result(c->answers[i].res);
        alloc_free(c->allocator, c->answers[i].row);
        alloc_free(c->allocator, c->answers[i].lengths);
    }
    c->answers_count = 0;
}

void my_script(conn *c)
{
    my_answers_forget(c);
    buf_clear(&c->script);
    buf_clear(&c->literals);
    c->params_count = c->sent_count = 0;
    c->script_failed = false;
}

static bool note_statement(conn *c, sql_name which)
{
    if (c->sent_count == c->sent_room) {
        int room = c->sent_room ? 2 * c->sent_room : 16;
        sql_name *sent = alloc_resize(c->allocator, c->sent, (size_t)room * sizeof *sent);
        if (sent) c->sent = sent;
        size_t *ends = sent ? alloc_resize(c->allocator, c->ends, (size_t)room * sizeof *ends) : NULL;
        if (ends) c->ends = ends;
        if (!sent || !ends) {
            c->script.failed = true;
            return false;
        }
        c->sent_room = room;
    }
    c->sent[c->sent_count] = which;
    c->ends[c->sent_count++] = c->script.len;
    return true;
}

/* What is inside a transaction anyway may go in parts. */
static void send_part(conn *c)
{
    if (c->script.len < PART_BYTES || !(c->inside || begins(c)) || c->borrowed || c->script_failed) return;
    if (!send_script(c, false)) c->script_failed = true;
    c->sent_count = 0;
    buf_clear(&c->script);
}

static void end_statement(conn *c, sql_name which)
{
    note_statement(c, which);
    buf_char(&c->script, ';');
    c->params_count = 0;
    buf_clear(&c->literals);
    send_part(c);
}

void my_add(conn *c, sql_name which)
{
    const char *sql = c->link->sql[which];
    for (const char *at; (at = strchr(sql, '$'));) {
        char *after;
        long n = strtol(at + 1, &after, 10);
        buf_add(&c->script, sql, (size_t)(at - sql));
        if (n >= 1 && n <= c->params_count && !c->literals.failed) {
            const char *text = c->params[n - 1].text ? c->params[n - 1].text : c->literals.data + c->params[n - 1].at;
            buf_add(&c->script, text, c->params[n - 1].len);
        }
        sql = after;
    }
    buf_str(&c->script, sql);
    if (c->literals.failed) c->script.failed = true;
    end_statement(c, which);
}

void my_add_text(conn *c, const char *sql)
{
    my_add_with_database(&c->script, sql, my_statement_length(sql), c->link->url.database);
    end_statement(c, SQL_COUNT);
}

const answer *my_answer(const conn *c, sql_name which)
{
    static const answer nothing;
    for (int i = 0; i < c->answers_count; i++)
        if (c->answers[i].which == which) return &c->answers[i];
    return &nothing;
}
