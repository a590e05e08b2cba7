/* hello: the smallest whole program. It opens a file, says how to run a type of task, hands over one task and waits for it.
 *
 *     examples/hello            the task is in hello.db: it survives a crash between any two lines below
 *     examples/hello NAME
 */
#include <pawl.h>
#include <stdio.h>

static pawl_outcome greet(pawl_run *run, void *ctx)
{
    (void)ctx;
    pawl_bytes name = pawl_run_payload(run);
    printf("hello %.*s\n", (int)name.len, name.data);
    return pawl_ok();
}

int main(int argc, char **argv)
{
    pawl *p = NULL;
    pawl_error err;
    pawl_id id;
    pawl_state state;
    char text[PAWL_ID_TEXT];

    if (pawl_open(&(pawl_options){.store = "sqlite:hello.db"}, &p, &err)) return pawl_die(&err);
    if (pawl_handle(p, &(pawl_handler){.type = "greet", .run = greet}, &err)) return pawl_die(&err);
    if (pawl_start(p, &err)) return pawl_die(&err);

    pawl_task task = {.type = "greet", .payload = pawl_str(argc > 1 ? argv[1] : "world"), .content_type = "text/plain"};
    if (pawl_dispatch(p, &task, &id, &err)) return pawl_die(&err); /* from here on the task is on disk */
    if (pawl_wait(p, id, 10 * PAWL_SECOND, &state, &err)) return pawl_die(&err);

    pawl_id_format(id, text);
    printf("task %s %s\n", text, pawl_state_name(state));
    return pawl_close(p);
}
