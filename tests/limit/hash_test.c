/* SHA-256 against the standard's examples, and against what another implementation makes of every length around a block;
 * SipHash-1-3 against another implementation. */
#include "../unit/cmocka_all.h"
#include "base/sha256.h"
#include "base/siphash.h"
#include <stdlib.h>
#include <string.h>

static void is(const void *data, size_t n, const char *expected)
{
    char text[SHA256_HEX + 1] = {0};
    sha256_hex(data, n, text);
    assert_string_equal(text, expected);
}

static void the_standards_examples(void **state)
{
    (void)state;
    is("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    is("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    is("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    char *million = malloc(1000000);
    assert_non_null(million);
    memset(million, 'a', 1000000);
    is(million, 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
}

/* Python: h = hashlib.sha256; h(''.join(h(bytes(i * 7 % 256 for i in range(n))).hexdigest() for n in range(300)).encode()) */
static void every_length_around_a_block(void **state)
{
    (void)state;
    static char all[300 * SHA256_HEX];
    unsigned char data[300];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i * 7);
    for (size_t n = 0; n < 300; n++) sha256_hex(data, n, all + n * SHA256_HEX);
    is(all, sizeof all, "2956ef4e8392a8964f6f552bfba7613a805ef8f8550abe7eedcd072dcec36695");
}

/* Python 3.11 with PYTHONHASHSEED=0: hash(bytes((i * 37 + 1) % 256 for i in range(n))) for n from 1 to 32. */
static void siphash_of_every_length(void **state)
{
    (void)state;
    static const uint64_t expected[] = {
        0x44bc103b1f8540ed, 0x7615693f7499cfd4, 0xa1d6da6846286c1e, 0x16d3af1def6a6ff9, 0x29f33a2c64a9f38b, 0xe5b6ede7c1522ca7,
        0x2c9b8329a6ad655e, 0xd3c9755bb011e092, 0x486871e010dfc3f2, 0x38d80fa8effe957d, 0x17b94db3a6792060, 0x036c9131a5c1b0d8,
        0x9ed95dbbb6763d55, 0x77b32cc00589e227, 0xe459374d4ed4d6f6, 0x0d5a64a5f6e96214, 0x8a343e7d735e1d17, 0x97fc4610ca563879,
        0xe7449720ded7ce9d, 0x9421e6981ad77f06, 0x566d3f1116bea5f4, 0xe9b6bbe4c618d0e6, 0xb4be83aa8276c283, 0x3dc31138b1b03cbe,
        0xb573e0f40db717b5, 0xf1b54e2e40e58fdb, 0x382a8f1834222496, 0xd37cdd9052176815, 0xff711b56e5ad1a83, 0xcd21d68577d4839a,
        0xb8f3db26732b9f20, 0xdebd62054f335393,
    };
    unsigned char data[32];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i * 37 + 1);
    for (size_t n = 1; n <= 32; n++) assert_true(siphash(data, n, 0, 0) == expected[n - 1]);
    assert_true(siphash(NULL, 0, 0, 0) == siphash("", 0, 0, 0));
}

static void seeds_change_everything(void **state)
{
    (void)state;
    for (uint64_t bit = 1; bit; bit <<= 1) {
        assert_true(siphash("key", 3, 7, 9) != siphash("key", 3, 7 ^ bit, 9));
        assert_true(siphash("key", 3, 7, 9) != siphash("key", 3, 7, 9 ^ bit));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_standards_examples),
        cmocka_unit_test(every_length_around_a_block),
        cmocka_unit_test(siphash_of_every_length),
        cmocka_unit_test(seeds_change_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
