/* Countdowns, and memory that fails by them. */
#include "faults.h"
#include <stdlib.h>

/* ---- countdowns ----------------------------------------------------------------------------------------------------------------- */

countdown no_fault;

void fault_arm(countdown *f, long at, bool for_good)
{
    fault_disarm(f);
    atomic_store(&f->for_good, for_good);
    atomic_store(&f->at, at);
}

void fault_scatter(countdown *f, long one_in)
{
    fault_disarm(f);
    atomic_store(&f->one_in, one_in);
}

void fault_disarm(countdown *f)
{
    atomic_store(&f->at, 0);
    atomic_store(&f->one_in, 0);
    atomic_store(&f->calls, 0);
    atomic_store(&f->fired, 0);
}

/* Spreads a counter over all numbers. */
static unsigned long mixed(unsigned long n)
{
    n = (n ^ n >> 31) * 0x9e3779b97f4a7c15ul;
    return n ^ n >> 29;
}

bool fault_now(countdown *f)
{
    long call = atomic_fetch_add(&f->calls, 1) + 1, at = atomic_load(&f->at), one_in = atomic_load(&f->one_in);
    bool fails =
        (at && (call == at || (call > at && atomic_load(&f->for_good)))) || (one_in && mixed((unsigned long)call) % one_in == 0);
    if (fails) atomic_fetch_add(&f->fired, 1);
    return fails;
}

/* ---- the engine's --------------------------------------------------------------------------------------------------------------- */

countdown memory_fault;
atomic_long memory_blocks;

static void *take(void *ctx, size_t size)
{
    (void)ctx;
    void *ptr = fault_now(&memory_fault) ? NULL : malloc(size);
    if (ptr) atomic_fetch_add(&memory_blocks, 1);
    return ptr;
}

static void *resize(void *ctx, void *ptr, size_t size)
{
    (void)ctx;
    void *moved = fault_now(&memory_fault) ? NULL : realloc(ptr, size);
    if (moved && !ptr) atomic_fetch_add(&memory_blocks, 1);
    return moved;
}

static void release(void *ctx, void *ptr)
{
    (void)ctx;
    if (ptr) atomic_fetch_sub(&memory_blocks, 1);
    free(ptr);
}

const pawl_allocator memory_allocator = {take, resize, release, NULL};

/* ---- SQLite's ------------------------------------------------------------------------------------------------------------------- */

countdown sqlite_memory_fault;
static sqlite3_mem_methods below;

static void *sqlite_take(int size) { return fault_now(&sqlite_memory_fault) ? NULL : below.xMalloc(size); }
static void *sqlite_resize(void *ptr, int size) { return fault_now(&sqlite_memory_fault) ? NULL : below.xRealloc(ptr, size); }

bool sqlite_memory_install(void)
{
    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &below) != SQLITE_OK) return false;
    sqlite3_mem_methods methods = below;
    methods.xMalloc = sqlite_take;
    methods.xRealloc = sqlite_resize;
    return sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) == SQLITE_OK;
}
