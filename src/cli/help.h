/* `--help` and `pawl help`. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "cli/cli.h"

/* main.c: the tables and how a command is found in them. */
extern const command commands[];
extern const opt global_opts[];
bool is_group(const char *word);
const command *command_of(const char *first, const char *second, int *words);
int unknown_command(const cli *c, const char *first, const char *second);

int help_overview(const cli *c, FILE *out);
int help_group(const cli *c, const char *group, FILE *out);
int help_command(const cli *c, const command *command, FILE *out);

extern const char help_enqueue[], help_list[], help_show[], help_why[], help_wait[], help_cancel[], help_retry[], help_queues[],
    help_pause[], help_resume[], help_queues_set[], help_dead_list[], help_dead_retry[], help_dead_ack[], help_work[],
    help_stats[], help_nodes[], help_events[], help_top[], help_log[], help_backup[], help_move[], help_export[], help_import[],
    help_bench[], help_demo[], help_migrate_status[], help_migrate_up[], help_migrate_sql[], help_doctor[], help_completion[],
    help_cron_next[], help_cron_zones[], help_limits_list[], help_limits_set[], help_limits_drop[], help_limits_pause[],
    help_limits_resume[], help_limits_concurrency[], help_limits_turns[], help_schedules_list[], help_schedules_show[],
    help_schedules_add[], help_schedules_edit[], help_schedules_enable[], help_schedules_disable[], help_schedules_run[],
    help_schedules_rm[], help_serve[], help_tokens_add[], help_tokens_list[], help_tokens_rm[], help_config_check[],
    help_config_sample[], help_tree[], help_batches_list[], help_batches_show[], help_batches_open[], help_batches_close[],
    help_batches_cancel[];

#endif
