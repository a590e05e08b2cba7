/* list, map, heap: each against a plain model, with a fixed seed. */
#include "base/alloc.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/idgen.h"
#include "base/map.h"
#include "base/rand.h"
#include "unit/cmocka_all.h"
#include "unit/test_allocator.h"
#include <string.h>

/* ---- list ---- */

typedef struct item {
    int value;
    list link;
} item;

static void list_keeps_order(void **state)
{
    (void)state;
    list head;
    item items[5] = {{.value = 0}, {.value = 1}, {.value = 2}, {.value = 3}, {.value = 4}};
    list_init(&head);
    assert_true(list_empty(&head));
    assert_null(list_pop(&head));
    for (int i = 1; i < 4; i++) list_append(&head, &items[i].link);
    list_prepend(&head, &items[0].link);
    list_insert_before(&items[2].link, &items[4].link);
    const int order[] = {0, 1, 4, 2, 3};
    int n = 0;
    list_each(node, &head) {
        assert_int_equal(container_of(node, item, link)->value, order[n++]);
        if (n % 2 == 0) list_remove(node);
    }
    assert_int_equal(n, 5);
    assert_false(list_linked(&items[1].link));
    list_remove(&items[1].link); /* no harm */
    assert_ptr_equal(list_pop(&head), &items[0].link);
    assert_ptr_equal(list_pop(&head), &items[4].link);
    assert_ptr_equal(list_pop(&head), &items[3].link);
    assert_true(list_empty(&head));
}

/* ---- map ---- */

#define NODES 600

typedef struct model {
    map_node node[NODES];
    uint64_t put_at[NODES]; /* 0: not in the map */
} model;

/* The newest node of the key that is older than `before`. */
static map_node *model_find(model *m, uint64_t key, uint64_t before)
{
    map_node *found = NULL;
    uint64_t newest = 0;
    for (int i = 0; i < NODES; i++) {
        if (m->put_at[i] <= newest || m->put_at[i] >= before || m->node[i].key != key) continue;
        newest = m->put_at[i];
        found = &m->node[i];
    }
    return found;
}

static void check_key(map *m, model *mod, uint64_t key)
{
    uint64_t before = UINT64_MAX;
    map_node *node = map_get(m, key);
    for (;; node = map_next(node)) {
        map_node *expected = model_find(mod, key, before);
        assert_ptr_equal(node, expected);
        if (!node) return;
        before = mod->put_at[node - mod->node];
    }
}

static void drive_map(map *m, uint64_t seed, uint64_t keys, uint64_t stride)
{
    static model mod;
    memset(&mod, 0, sizeof mod);
    rng random;
    rng_init(&random, seed);
    size_t count = 0;
    for (uint64_t step = 1; step <= 6000; step++) {
        size_t i = rng_below(&random, NODES);
        if (mod.put_at[i]) {
            map_remove(m, &mod.node[i]);
            mod.put_at[i] = 0;
            count--;
        } else {
            map_put(m, &mod.node[i], rng_below(&random, keys) * stride);
            mod.put_at[i] = step;
            count++;
        }
        assert_int_equal(m->count, count);
        if (step % 8 == 0) check_key(m, &mod, rng_below(&random, keys) * stride);
    }
    size_t seen = 0;
    map_each(node, m) {
        assert_true(mod.put_at[node - mod.node] > 0);
        map_remove(m, node); /* allowed inside */
        seen++;
    }
    assert_int_equal(seen, count);
    assert_int_equal(m->count, 0);
}

static void map_agrees_with_a_model(void **state)
{
    (void)state;
    const uint64_t keys[] = {1, 40, 5000, 5000}, strides[] = {1, 1, 1, UINT64_C(1) << 40};
    for (int i = 0; i < 4; i++) {
        test_allocator t;
        test_allocator_init(&t);
        map m;
        map_init(&m, &t.allocator);
        drive_map(&m, 42 + (uint64_t)i, keys[i], strides[i]);
        map_done(&m);
        assert_int_equal(t.outstanding, 0);
    }
}

static void map_works_without_memory(void **state)
{
    (void)state;
    test_allocator t;
    test_allocator_init(&t);
    t.fail_at = 1;
    t.persistent = true;
    map m;
    map_init(&m, &t.allocator);
    drive_map(&m, 7, 100, 1);
    assert_true(t.calls > 0);
    assert_int_equal(m.mask, 15);
    map_done(&m);
}

static size_t longest_chain(const map *m)
{
    size_t longest = 0;
    for (size_t slot = 0; slot <= m->mask; slot++) {
        size_t length = 0;
        for (map_node *n = m->slots[slot]; n; n = n->next) length++;
        if (length > longest) longest = length;
    }
    return longest;
}

/* Ids as they come: full milliseconds, one every so often, from one node or from many. */
static void map_spreads_ids(void **state)
{
    (void)state;
    static map_node nodes[1 << 14];
    const int64_t steps_ms[] = {0, 1, 2, 7, 100, 1000, 1024, 60000, 65536, 3600000, 86400000};
    for (size_t k = 0; k < sizeof steps_ms / sizeof *steps_ms; k++) {
        for (int nodes_count = 1; nodes_count <= 1024; nodes_count *= 32) {
            map m;
            map_init(&m, alloc_default());
            for (int i = 0; i < 1 << 14; i++) {
                int64_t ms = INT64_C(59000000000) + (steps_ms[k] ? i / nodes_count * steps_ms[k] : i >> 12);
                map_put(&m, &nodes[i], (uint64_t)id_make(ms, i % nodes_count, steps_ms[k] ? 0 : i & 4095));
            }
            assert_true(longest_chain(&m) <= 16);
            map_done(&m);
        }
    }
}

static void hash_depends_on_every_bit(void **state)
{
    (void)state;
    unsigned char data[40] = {0};
    for (size_t n = 0; n <= sizeof data; n++) {
        uint64_t plain = hash_bytes(data, n, 1);
        assert_true(plain != hash_bytes(data, n, 2));
        if (n) assert_true(plain != hash_bytes(data, n - 1, 1));
        for (size_t bit = 0; bit < 8 * n; bit++) {
            data[bit / 8] ^= (unsigned char)(1u << bit % 8);
            uint64_t changed = hash_bytes(data, n, 1);
            assert_in_range(__builtin_popcountll(plain ^ changed), 10, 54);
            assert_int_equal(changed, hash_bytes(data, n, 1));
            data[bit / 8] ^= (unsigned char)(1u << bit % 8);
        }
    }
}

/* ---- heap ---- */

static void check_heap(const heap *h)
{
    for (size_t i = 0; i < h->count; i++) {
        assert_int_equal(h->places[i].node->index, i + 1);
        if (i) assert_true(h->places[(i - 1) / 4].at <= h->places[i].at);
    }
}

static void heap_agrees_with_a_model(void **state)
{
    (void)state;
    static heap_node nodes[600];
    memset(nodes, 0, sizeof nodes);
    heap h;
    rng random;
    rng_init(&random, 99);
    heap_init(&h, alloc_default());
    assert_true(heap_reserve(&h, 600));
    size_t count = 0;
    for (int step = 0; step < 20000; step++) {
        heap_node *node = &nodes[rng_below(&random, 600)];
        bool was = heap_has(node);
        if (rng_below(&random, 3) == 0) {
            heap_remove(&h, node);
            count -= was;
            assert_false(heap_has(node));
        } else {
            heap_set(&h, node, (int64_t)rng_below(&random, 1000) - 500);
            count += !was;
            assert_true(heap_has(node));
        }
        assert_int_equal(h.count, count);
        if (step % 16 == 0) check_heap(&h);
    }
    int64_t last = INT64_MIN;
    for (heap_node *first; (first = heap_first(&h)); heap_remove(&h, first), count--) {
        assert_true(first->at >= last);
        last = first->at;
    }
    assert_int_equal(count, 0);
    heap_done(&h);
}

static void heap_reserves(void **state)
{
    (void)state;
    test_allocator t;
    test_allocator_init(&t);
    heap h;
    heap_node a = {0}, b = {0};
    heap_init(&h, &t.allocator);
    assert_null(heap_first(&h));
    t.fail_at = 1;
    assert_false(heap_reserve(&h, 1));
    assert_true(heap_reserve(&h, 2));
    heap_set(&h, &a, 5);
    heap_set(&h, &b, INT64_MIN);
    t.fail_at = t.calls + 1;
    assert_false(heap_reserve(&h, 1000));
    assert_ptr_equal(heap_first(&h), &b); /* a failed reservation changes nothing */
    assert_false(heap_reserve(&h, SIZE_MAX));
    heap_set(&h, &b, INT64_MAX);
    assert_ptr_equal(heap_first(&h), &a);
    heap_done(&h);
    assert_false(heap_has(&a));
    assert_int_equal(t.outstanding, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list_keeps_order),
        cmocka_unit_test(map_agrees_with_a_model),
        cmocka_unit_test(map_works_without_memory),
        cmocka_unit_test(map_spreads_ids),
        cmocka_unit_test(hash_depends_on_every_bit),
        cmocka_unit_test(heap_agrees_with_a_model),
        cmocka_unit_test(heap_reserves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
