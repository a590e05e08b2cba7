// hello in C++17: the same header, the same library. Options are zeroed with {} and then filled in; a handler is a captureless
// lambda or a function, and whatever it needs travels in ctx.
//
//     examples/hello_cpp        the task is in hello_cpp.db
#include <pawl.h>

#include <iostream>
#include <memory>
#include <string>
#include <string_view>

struct greeter {
    std::string word;

    static pawl_outcome run(pawl_run *run, void *ctx)
    {
        auto *self = static_cast<greeter *>(ctx);
        const pawl_bytes name = pawl_run_payload(run);
        std::cout << self->word << ' ' << std::string_view(name.data, name.len) << std::endl;
        return pawl_ok();
    }
};

int main()
{
    pawl_error err{};
    pawl *handle = nullptr;
    pawl_options options{};
    options.store = "sqlite:hello_cpp.db";
    if (pawl_open(&options, &handle, &err)) return pawl_die(&err);
    const std::unique_ptr<pawl, int (*)(pawl *)> engine(handle, pawl_close);

    pawl_handler handler{};
    handler.type = "greet";
    handler.run = greeter::run;
    handler.ctx = new greeter{"hello"};
    handler.destroy = [](void *ctx) { delete static_cast<greeter *>(ctx); };
    if (pawl_handle(engine.get(), &handler, &err)) return pawl_die(&err);
    if (pawl_start(engine.get(), &err)) return pawl_die(&err);

    pawl_task task{};
    task.type = "greet";
    task.payload = pawl_str("\"C++\"");
    pawl_id id = 0;
    pawl_state state = PAWL_STATE_NONE;
    if (pawl_dispatch(engine.get(), &task, &id, &err)) return pawl_die(&err);
    if (pawl_wait(engine.get(), id, 10 * PAWL_SECOND, &state, &err)) return pawl_die(&err);
    std::cout << "task " << pawl_state_name(state) << std::endl;
    return 0;
}
