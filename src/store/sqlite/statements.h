/* Every statement of the .sql files by its name; SQL_foo is the statement `-- name: foo`. */
#ifndef STORE_SQLITE_STATEMENTS_H
#define STORE_SQLITE_STATEMENTS_H

/* clang-format off */
#define SQL_TABLE(X) \
    /* apply.sql */ \
    X(begin) X(commit) X(rollback) X(use_wal) X(journal_mode) X(data_version) X(meta_get) X(meta_put) X(name_find) X(name_text) \
    X(name_add) \
    X(receipt_get) X(receipt_put) X(slot_add) X(born_add) X(seen_get) X(seen_put) X(rollup_get) X(rollup_put) \
    /* quota.sql */ \
    X(limit_any) X(limit_each) X(limit_get) X(limit_own) X(limit_put) X(budget_get) X(budget_each) X(budget_add) X(budget_put) X(budget_walk) X(budget_drop) \
    X(slotted_get) X(slotted_has) X(slotted_put) X(slotted_drop) X(slotted_of_type) X(slotted_of_key) X(live_slot) X(live_pull) X(limits_types) X(limits_keys) X(slotted_total) X(slotted_count) \
    /* place.sql */ \
    X(bound_any) X(bound_get) X(bound_keys) X(bound_kind) X(bound_put) X(spot_get) X(spot_by_id) X(spot_add) X(spot_drop) X(spot_walk) \
    X(spots_of_name) X(place_count) X(place_gap) X(place_put) X(place_of_task) X(place_has) X(place_drop) X(place_pending) \
    X(live_block) X(blocked_first) X(blocked_lane) X(blocked_tenant) X(blocked_of_lane) X(leases_bounded) X(body_rate_key) \
    X(body_tenant) X(turn_get) X(turn_put) X(turn_tag) X(shared_priority) X(shared_tenant) X(shared_lane) X(shared_due) X(shared_types) \
    X(shared_future) X(shared_count) X(places_list) X(blocked_count) X(place_oldest) X(live_blocked) \
    /* schedule.sql */ \
    X(schedule_get) X(schedule_of) X(schedule_add) X(schedule_replace) X(schedule_body_put) X(schedule_step) X(schedule_count) \
    X(schedule_version) X(schedule_stir) X(schedule_drop) X(schedule_body_drop) X(schedule_first) X(schedule_follow) \
    X(schedule_followed) X(occurrence_any) X(occurrence_of) X(occurrence_get) X(occurrence_put) X(occurrence_end) \
    X(occurrence_trim) X(occurrence_drop) X(schedules_due) X(schedules_list) X(occurrences_waiting) X(occurrences_list) \
    /* family.sql */ \
    X(family_any) X(edge_put) X(edge_any) X(edge_page) X(edge_set) X(edge_move) X(edges_told) X(wait_put) X(wait_get) X(wait_set) X(wait_drop) \
    X(live_free) X(retried_as) X(unsettled_put) X(unsettled_first) X(unsettled_any) X(unsettled_go_on) X(unsettled_drop) X(kept_state) X(kept_get) \
    X(kept_put) X(kept_drop) X(kept_batch) X(edge_of) X(edge_any_at_all) X(edges_drop) X(member_put) X(member_get) X(member_page) X(member_drop) \
    X(members_drop) X(batch_get) X(batch_named) X(batch_list) X(batch_list_live) X(batch_add) X(batch_joined) X(batch_count) \
    X(batch_close) X(batch_end) X(batch_ended) X(batch_drop) X(relatives_up) X(relatives_down) X(relatives_members) \
    X(relatives_batch) X(relative_done) X(relative_failed) X(body_type) \
    /* claim.sql */ \
    X(lane_next) X(lane_due) X(lane_end) X(lane_future) X(lane_count) \
    /* move.sql */ \
    X(gate_mode) X(gate_get) X(gate_put) X(gate_position) X(gate_leases) X(dump_tasks) X(dump_live) X(dump_leased) \
    X(dump_done) X(dump_failed) X(dump_attempts) X(dump_log) X(dump_changes) X(dump_minute_next) X(dump_minutes) X(dump_acts) \
    X(dump_numbers) X(load_end) X(load_failed) X(load_resolved) X(load_retried_done) X(load_retried_failed) X(load_found) \
    X(load_change) X(load_key) X(load_node_find) X(load_node_add) X(load_minute) \
    X(dump_parents) X(dump_batches) X(dump_kept) X(load_batch) X(load_kept) X(dump_line) X(dump_bounds) \
    X(dump_schedules) X(dump_occurrences) X(load_schedule) \
    /* feed.sql */ \
    X(feed_head) X(feed_head_put) X(feed_put) X(feed_trim) X(feed_list) \
    /* node.sql */ \
    X(node_life) X(node_add) X(node_kill) X(node_victim) X(heartbeat_add) X(heartbeat_beat) X(heartbeat_leases) \
    X(heartbeat_drop) X(tell) X(untell) X(drain_put) X(drain_drop) X(drain_tidy) X(drain_get) X(heartbeat_get) X(heartbeat_others) X(cancel_list) X(leased_by) X(leased_page) X(leased_marks) \
    X(number_get) X(number_free) X(number_last) X(number_put) X(node_number_free) \
    /* operate.sql */ \
    X(done_retried) X(failed_retried) X(failed_ack) X(queue_pause) X(queue_exists) X(queue_get) X(queue_add) \
    /* read.sql */ \
    X(read_begin) X(info_body) X(info_payload) X(info_leased) X(info_live) X(info_done) X(info_failed) \
    X(info_attempts) X(info_attempts_count) X(info_last_error) X(node_name) X(node_pulse) X(list_all_up) X(list_all_down) \
    X(list_live_up) X(list_live_down) X(list_leased_up) X(list_leased_down) X(list_done_up) X(list_done_down) \
    X(list_failed_up) X(list_failed_down) X(list_key_up) X(list_key_down) X(list_live_one) X(list_leased_one) \
    X(list_done_one) X(list_failed_one) X(list_since) X(list_until) X(seen_up) X(seen_down) X(list_body) X(trail_audit) \
    X(search_body) X(search_error) X(trail_audit_count) X(trail_logs) X(nodes_list) X(nodes_count) X(queues_list) X(queues_count) X(queues_throttled) X(rollup_window) X(acts) \
    /* sweep.sql */ \
    X(slots_list) X(slot_rows) X(slot_keep) X(slot_drop) X(failed_resolved_rows) X(failed_open_rows) X(failed_expiring) \
    X(failed_queue) X(forget_done) X(forget_failed) X(forget_body) X(forget_key) X(forget_attempts) X(forget_attempt_logs) \
    X(forget_audit) X(seen_drop) X(body_key) X(body_oldest) X(body_from) X(audit_walk) X(audit_drop) X(runlog_oldest) X(runlog_drop) \
    X(oplog_oldest) X(oplog_drop) X(nodes_idle) X(nodes_dead) X(node_forget) X(nodes_drop) X(receipts_drop) \
    X(receipts_stray) X(born_drop) X(rollup_oldest) X(rollup_drop) \
    /* task.sql */ \
    X(leased_get) X(leased_put) X(leased_drop) X(leased_start) X(leased_cancel) X(leased_progress) X(cancel_put) \
    X(cancel_drop) X(live_get) X(live_put) X(live_drop) X(live_unreadable) X(done_put) X(failed_put) X(done_state) \
    X(failed_state) X(attempt_put) X(done_progress) X(failed_progress) X(runlog_put) X(audit_put) X(audit_put_dispatch) \
    X(body_put) X(body_replace) X(body_get) X(body_stand_in) X(body_queue) X(body_priority) X(key_get) X(key_put) \
    X(key_move) X(oplog_put)
/* clang-format on */

typedef enum sql_name {
#define X(name) SQL_##name,
    SQL_TABLE(X)
#undef X
        SQL_COUNT
} sql_name;

#endif
