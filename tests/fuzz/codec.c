/* The store's own bytes, as a damaged file may hold them: receipts and histograms. What is no receipt is refused, what is one is written
 * the same way again; a histogram keeps what makes sense of it.
 *
 * The first byte says which. For a receipt the next says how many operations the batch has, and one byte each of what kind they are;
 * a FINISH has two spawns. */
#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "store/sqlite/inner.h"
#include <string.h>

#define OPS 6

typedef struct batch {
    pawl_batch all;
    pawl_op ops[OPS], spawns[OPS][2], *pointers[OPS];
    pawl_body bodies[OPS][3];
} batch;

static void shape(batch *b, const uint8_t *kinds, int count)
{
    memset(b, 0, sizeof *b);
    for (int i = 0; i < count; i++) {
        pawl_op *op = b->pointers[i] = &b->ops[i];
        *op = (pawl_op){.kind = (pawl_op_kind)(1 + kinds[i] % PAWL_OP_RESERVE), .id = 1000 + i};
        if (op->kind == PAWL_OP_INSERT) op->u.insert.body = &b->bodies[i][0];
        if (op->kind != PAWL_OP_FINISH) continue;
        for (int k = 0; k < 2; k++) b->spawns[i][k] = (pawl_op){.kind = PAWL_OP_INSERT, .u.insert.body = &b->bodies[i][1 + k]};
        op->u.finish.spawns = b->spawns[i];
        op->u.finish.spawns_count = 2;
    }
    b->all = (pawl_batch){.node = 1, .number = 1, .ops = b->pointers, .count = count};
}

static void receipts(const uint8_t *data, size_t size)
{
    static batch first, second;
    int count = size ? data[0] % (OPS + 1) : 0;
    if (size < 1 + (size_t)count) return;
    shape(&first, data + 1, count);
    shape(&second, data + 1, count);
    if (!receipt_read((pawl_bytes){(const char *)data + 1 + count, size - 1 - (size_t)count}, &first.all)) return;
    buf once, twice;
    buf_init(&once, alloc_default(), 1 << 16);
    buf_init(&twice, alloc_default(), 1 << 16);
    HOLDS(receipt_write(&once, &first.all));
    HOLDS(receipt_read((pawl_bytes){buf_text(&once), once.len}, &second.all));
    HOLDS(receipt_write(&twice, &second.all));
    HOLDS(once.len == twice.len && memcmp(buf_text(&once), buf_text(&twice), once.len) == 0);
    buf_done(&once);
    buf_done(&twice);
}

static void histograms(const uint8_t *data, size_t size)
{
    histogram h = {0}, again = {0};
    char written[HISTOGRAM_BYTES];
    histogram_merge(&h, (pawl_bytes){(const char *)data, size});
    int64_t least = histogram_percentile(&h, 1), most = histogram_percentile(&h, 99);
    HOLDS(least >= 0 && (h.total > 0) == (least > 0) && least <= most);
    histogram_merge(&again, (pawl_bytes){written, histogram_write(&h, written)});
    HOLDS(memcmp(h.counts, again.counts, sizeof h.counts) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    if (data[0] % 2) receipts(data + 1, size - 1);
    else histograms(data + 1, size - 1);
    return 0;
}
