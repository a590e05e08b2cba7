/* Every statement of the .sql files by its name; SQL_foo is the statement `-- name: foo`. */
#ifndef STORE_MYSQL_STATEMENTS_H
#define STORE_MYSQL_STATEMENTS_H

/* clang-format off */
#define SQL_TABLE(X) \
    /* batch.sql */ \
    X(begin) X(commit) X(greet) X(server_now) X(guard) X(life) X(life_shared) X(receipt) X(receipt_make) X(receipt_put) \
    X(lane_new) X(paused) X(queue_make) X(queue_lock) X(depths) X(keys_lock) X(live_lock) X(leased_lock) X(live_look) \
    X(leased_look) X(ends_look) X(done_lock) X(failed_lock) X(bodies_look) X(body_heads) X(rollups_look) X(bodies_put) \
    X(body_again) X(body_replace) X(live_put) X(live_drop) X(leased_put) X(leased_drop) X(leased_start) \
    X(leased_progress) X(leased_cancel) X(cancel_put) X(cancel_drop) X(done_put) X(failed_put) X(done_retried) \
    X(failed_retried) X(failed_ack) X(attempts_put) X(runlogs_put) X(audit_put) X(audit_dispatch) X(keys_put) \
    X(key_old) X(key_move) X(queue_pause) X(oplog_put) X(counts_put) X(born_put) X(rollups_put) X(leases_take) \
    X(names_make) X(names) X(texts) X(draw) X(savepoint) X(savepoint_back) X(savepoint_end) \
    /* limits.sql */ \
    X(limits_now) X(limit_types) X(budgets_lock) X(budgets_put) X(rate_heads) X(slotted_put) X(slotted_drop) X(slots) X(backlog) \
    X(live_move) X(limits_lock) X(limit_old) X(limit_put) X(limits_changed) X(slotted_of) X(budgets_next) X(budgets_drop) \
    X(limits_types) X(limits_list) \
    /* places.sql */ \
    X(version) X(version_shared) X(bound_kinds) X(spots_make) X(spots_ask) X(spots_lock) X(spots_of) X(stands) X(holders) X(places) X(places_beside) X(spot_first) \
    X(line_ends) X(line_from) X(line_step) X(line_at) X(line_first) X(order_first) X(places_put) X(places_drop) X(blocked_put) X(blocked_drop) \
    X(shared_drop) X(shared_move) X(live_ready) X(live_park) X(shared_put) X(admit_look) X(admit_lock) X(admit_keys) X(turn_lock) X(turn_weighted) \
    X(turn_make) X(turn_put) X(turn_tag) X(shared_look) X(shared_priority) X(tenant_ends) X(tenant_from) X(tenant_step) X(tenant_at) \
    X(tenant_weights) X(shared_due) X(shared_count) X(bound_old) X(bound_put) \
    X(leases_lock) X(leases_of) X(spots_blocked) X(spots_next) X(spots_drop) X(places_list) \
    /* schedules.sql */ \
    X(features) X(schedules_mark) X(schedules_lock) X(occurrences_open) X(occurrences_of) X(schedules_add) X(schedules_put) \
    X(schedule_bodies_put) X(occurrences_add) X(occurrences_told) X(occurrences_put) X(occurrences_trim) X(schedules_drop) \
    X(schedule_bodies_drop) X(occurrences_drop) X(schedule_first) X(schedules_due) X(schedule_bodies) X(schedules_list) \
    X(schedule_one) X(occurrences_waiting) X(occurrences_list) \
    /* families.sql */ \
    X(families_mark) X(live_share) X(leased_share) X(kept_look) X(batches_lock) X(batches_look) X(batches_named) X(members_look) \
    X(batches_put) X(members_put) X(batch_joined) X(batch_close) X(batches_end) X(edges_put) X(edges_move) X(waits_put) X(waits_drop) \
    X(ends_left) X(members_count) X(members_drained) X(members_later) X(retried_left) X(unsettled_put) \
    X(unsettled_lock) X(unsettled_any) X(unsettled_free) X(unsettled_drop) X(unsettled_go_on) X(kids_lock) X(members_page) \
    X(inner_left) X(inner_cancel) X(parents_of) X(kept_put) X(edges_drop) X(members_drop) X(kept_drop) X(batches_old) \
    X(batch_members_drop) X(kept_batch) X(batch_drop) X(batches) X(relatives) X(lane_moved) \
    /* node.sql */ \
    X(node_add) X(node_lock) X(node_gone) X(node_kill) X(node_numbers) X(node_lapse) X(tell) X(untell) X(pulse) X(others) X(cancels) \
    X(ended_leases) X(ended_drop) X(beat) X(backs) X(held) X(number_mine) X(number_free) X(number_lock) X(number_put) \
    X(claim_now) X(lane_after) X(lane_due) X(lane_next) X(choose_one) X(choose_look) X(choose_lock) X(lane_heads) X(lane_end) X(lane_count) \
    X(bodies) X(leased_ids) X(marks) X(poll) X(poll_nobody) X(hold_life) X(lives) X(lock_try) X(lock_free) \
    /* read.sql */ \
    X(tasks) X(state) X(attempts) X(logs) X(audit) X(audit_cut) X(nodes) X(throttled) X(queues) X(rollup) X(settings) X(list_up) \
    X(list_down) X(list_key_up) X(list_key_down) X(list_known) X(list_bounds) X(acts) \
    /* sweep.sql */ \
    X(done_old) X(done_first) X(failed_resolved) X(failed_open) X(resolved_first) X(open_first) X(failed_expiring) \
    X(forget_keys_look) X(forget_keys) X(forget_attempts) X(forget_runlogs) X(forget_audit) X(forget_bodies) \
    X(forget_done) X(forget_failed) X(audit_old) X(audit_first) X(oplog_old) X(oplog_first) X(runlog_old) \
    X(runlog_first) X(audit_cut_put) X(born_next) X(nodes_idle) X(nodes_dead) X(nodes_forget_lanes) X(nodes_forget) \
    X(lanes_stray) X(nodes_unnamed) X(nodes_drop) X(nodes_next) X(rollup_drop) X(born_drop) X(merge_counts) X(merge_counts_drop) \
    X(merge_lanes) X(merge_lanes_drop) X(merge_lanes_put) X(merge_born) X(merge_born_drop) X(merge_minutes) \
    X(merge_rollups) X(merge_rollups_drop) \
    /* feed.sql */ \
    X(feed_lock) X(feed_put) X(feed_trim) X(feed_head_put) X(feed_head) X(feed_list) X(drain_look) X(drain_tidy) X(drain_put) X(drain_drop) X(queues_throttled) \
    /* move.sql */ \
    X(gate_hold) X(gate_mode) X(gate_shared) X(gate_lock) X(gate_get) X(gate_writers) X(gate_put) X(gate_position) \
    X(discard) X(dump_range) X(dump_range_bytes) X(dump_more) X(dump_counts) X(dump_tasks) X(dump_attempts) X(dump_logs) \
    X(dump_changes) X(dump_minutes) X(dump_acts) X(dump_numbers) X(dump_limits) X(dump_budgets) X(past_nodes) X(past_nodes_make) X(load_found) \
    X(past_done_put) X(past_failed_put) X(old_keys_put) X(held_keys_put) X(load_retried_done) X(load_retried_failed) \
    X(dump_attempts_all) X(dump_logs_all) X(dump_changes_all) X(dump_lines_all) X(dump_parents_all) X(dump_members_all) X(dump_waits_all) \
    X(dump_parents) X(dump_members) X(dump_waits) X(dump_batches) X(dump_kept) X(load_kin) X(load_batches) X(load_kept) X(dump_schedules) \
    X(dump_occurrences) X(load_schedules_found) X(load_occurrences_end) X(load_schedules_count) \
    X(dump_bounds) X(dump_lines) X(load_bounds) X(load_spots) X(load_places) X(load_turns_taken) X(load_turns_ready) X(load_turns_shared) X(load_turns_told) \
    X(load_acts) X(load_limits) X(load_queues) X(load_ceilings) X(load_drawn) X(load_audit_cut) \
    /* examine.sql */ \
    X(is_there) X(look) X(shape) X(ex_concat) X(ex_server) X(ex_old) X(ex_skew) X(ex_types)
/* clang-format on */

typedef enum sql_name {
#define X(name) SQL_##name,
    SQL_TABLE(X)
#undef X
        SQL_COUNT
} sql_name;

#endif
