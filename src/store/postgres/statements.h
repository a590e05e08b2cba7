/* Every statement of the .sql files by its name; SQL_foo is the statement `-- name: foo`. */
#ifndef STORE_POSTGRES_STATEMENTS_H
#define STORE_POSTGRES_STATEMENTS_H

/* clang-format off */
#define SQL_TABLE(X) \
    /* calls.sql */ \
    X(apply) X(apply_one) X(claim) X(claim_one) X(unclaim) X(renew) X(held) X(register_node) X(leave) X(take_number) X(rescue) X(sweep) X(days) X(drop_day) X(day_forget) \
    X(names) X(texts) X(notify) X(server_now) \
    /* read.sql */ \
    X(state) X(info) X(attempts) X(logs) X(audit) X(nodes) X(throttled) X(queues) X(due) X(rollup) X(settings) X(limits) X(places) \
    X(read_now) X(schedules_due) X(schedule_get) X(schedules_list) X(occurrences) X(occurrences_waiting) X(relatives) X(batch_get) X(batch_named) X(batch_list) \
    X(list_all) X(list_live) X(list_leased) X(list_done) X(list_failed) X(list_key) X(list_leap) X(list_known) X(list_bounds) X(acts) \
    /* feed.sql */ \
    X(feed) X(feed_head) X(feed_list) X(drain) X(queues_throttled) \
    /* move.sql */ \
    X(set_gate) X(gate) X(dump_range) X(dump_counts) X(dump_tasks) X(dump_attempts) X(dump_logs) X(dump_changes) X(dump_minutes) \
    X(dump_acts) X(dump_queues) X(dump_numbers) X(dump_limits) X(dump_budgets) \
    X(load) X(load_minutes) X(load_acts) X(load_settings) X(load_limits) X(load_now) X(load_budgets) X(dump_lines) X(dump_bounds) X(load_bounds) \
    X(dump_attempts_all) X(dump_logs_all) X(dump_changes_all) X(dump_parents_all) X(dump_kin_all) \
    X(dump_parents) X(dump_kin) X(dump_batches) X(dump_kept) X(dump_schedules) X(dump_occurrences) X(load_found) X(load_batches) \
    X(load_kept) X(load_schedules) \
    /* examine.sql */ \
    X(look) X(ex_server) X(ex_shape) X(ex_old) X(ex_tables) X(ex_index) X(ex_notify) X(ex_days) X(ex_skew) X(ex_readers) X(ex_types) \
    X(ex_slots)
/* clang-format on */

typedef enum sql_name {
#define X(name) SQL_##name,
    SQL_TABLE(X)
#undef X
        SQL_COUNT
} sql_name;

#endif
