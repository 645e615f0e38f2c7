/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/buf.h"

static void a_new_buffer_is_an_empty_string(void **state)
{
    (void)state;
    struct qn_buf b = {0};
    assert_string_equal(qn_buf_view(&b).p, "");
    qn_buf_clear(&b);
    qn_buf_put(&b, NULL, 0);
    assert_string_equal(b.p, "");
    qn_buf_free(&b);
    assert_null(b.p);
}

static void a_buffer_grows_and_stays_terminated(void **state)
{
    (void)state;
    struct qn_arena *arena = qn_arena_new(0);
    struct qn_buf on_heap = {0}, in_arena = {.arena = arena};
    for (int i = 0; i < 5000; i++) {
        struct qn_buf *both[] = {&on_heap, &in_arena};
        for (size_t k = 0; k < QN_LEN(both); k++) {
            qn_buf_char(both[k], (char)('a' + i % 26));
            assert_int_equal(both[k]->n, i + 1);
            assert_int_equal(both[k]->p[i + 1], '\0');
        }
    }
    for (int i = 0; i < 5000; i++) {
        assert_int_equal(on_heap.p[i], 'a' + i % 26);
        assert_int_equal(in_arena.p[i], 'a' + i % 26);
    }
    qn_buf_clear(&on_heap);
    assert_int_equal(on_heap.n, 0);
    qn_buf_printf(&on_heap, "%s=%d", "n", 42);
    qn_buf_puts(&on_heap, ";");
    qn_buf_str(&on_heap, QN_STR("x"));
    assert_string_equal(on_heap.p, "n=42;x");
    qn_buf_free(&on_heap);
    qn_buf_free(&in_arena); /* nothing: the arena owns it */
    assert_non_null(in_arena.p);
    qn_arena_free(arena);
}

static void integers_print_to_their_limits(void **state)
{
    (void)state;
    struct qn_buf b = {0};
    qn_buf_i64(&b, INT64_MIN);
    qn_buf_char(&b, ' ');
    qn_buf_i64(&b, INT64_MAX);
    qn_buf_char(&b, ' ');
    qn_buf_u64(&b, UINT64_MAX);
    qn_buf_char(&b, ' ');
    qn_buf_i64(&b, 0);
    assert_string_equal(b.p, "-9223372036854775808 9223372036854775807 18446744073709551615 0");
    qn_buf_free(&b);
}

static void expect_json(struct qn_str s, const char *want)
{
    struct qn_buf b = {0};
    qn_buf_json(&b, s);
    assert_string_equal(b.p, want);
    qn_buf_free(&b);
}

static void json_strings_are_escaped_and_always_utf8(void **state)
{
    (void)state;
    expect_json(QN_STR(""), "\"\"");
    expect_json(QN_STR("a/b"), "\"a/b\"");
    expect_json(QN_STR("\"\\\n\r\t\b\f"), "\"\\\"\\\\\\n\\r\\t\\b\\f\"");
    expect_json(QN_STR("\x01\x1f\0z"), "\"\\u0001\\u001f\\u0000z\"");
    expect_json(QN_STR("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"), "\"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"");
    expect_json(QN_STR("\xff\xfe"), "\"\xef\xbf\xbd\xef\xbf\xbd\"");
    expect_json(QN_STR("a\xc3"), "\"a\xef\xbf\xbd\"");                         /* cut off */
    expect_json(QN_STR("\xe2\x82" "b"), "\"\xef\xbf\xbd" "b\"");               /* one for the maximal part */
    expect_json(QN_STR("\xc0\xaf"), "\"\xef\xbf\xbd\xef\xbf\xbd\"");           /* overlong */
    expect_json(QN_STR("\xed\xa0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""); /* a surrogate */
    expect_json(QN_STR("\xf4\x90\x80\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

static void utf8_is_told_from_what_is_not(void **state)
{
    (void)state;
    assert_true(qn_str_utf8(QN_STR("")));
    assert_true(qn_str_utf8(QN_STR("a\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xef\xbf\xbf")));
    assert_true(qn_str_utf8(QN_STR("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf")));
    assert_false(qn_str_utf8(QN_STR("\x80")));
    assert_false(qn_str_utf8(QN_STR("\xe0\x9f\xbf")));
    assert_false(qn_str_utf8(QN_STR("\xf0\x8f\xbf\xbf")));
    assert_false(qn_str_utf8(QN_STR("\xf5\x80\x80\x80")));
    assert_false(qn_str_utf8((struct qn_str){"\xe2\x82\xac", 2}));
}

static void arena_memory_is_aligned_separate_and_reused(void **state)
{
    (void)state;
    struct qn_arena *a = qn_arena_new(4096);
    void *first = qn_arena_alloc(a, 1);
    for (int round = 0; round < 3; round++) {
        char *blocks[200];
        qn_arena_reset(a);
        assert_int_equal(qn_arena_used(a), 0);
        assert_ptr_equal(qn_arena_alloc(a, 1), first); /* the first block is kept */
        for (size_t i = 0; i < QN_LEN(blocks); i++) {
            blocks[i] = qn_arena_alloc(a, i * 7);
            assert_non_null(blocks[i]);
            assert_int_equal((uintptr_t)blocks[i] % _Alignof(max_align_t), 0);
            memset(blocks[i], (int)i, i * 7);
        }
        for (size_t i = 0; i < QN_LEN(blocks); i++)
            for (size_t k = 0; k < i * 7; k++)
                assert_int_equal((unsigned char)blocks[i][k], i);
        assert_int_equal(qn_arena_used(a), 1 + 7 * (199 * 200) / 2);
    }
    char *big = qn_arena_zalloc(a, 3 << 20);
    assert_int_equal(big[(3 << 20) - 1], 0);
    assert_string_equal(qn_arena_printf(a, "%d-%s", 7, "x").p, "7-x");
    struct qn_str copy = qn_arena_copy(a, QN_STR("ab\0c"));
    assert_memory_equal(copy.p, "ab\0c", 5);
    assert_string_equal(qn_arena_copy(a, QN_STR_NULL).p, "");
    int *array = qn_arena_array(a, 10, sizeof *array);
    for (int i = 0; i < 10; i++)
        assert_int_equal(array[i], 0);
    qn_arena_free(a);
    qn_arena_free(NULL);
}

/* AddressSanitizer must let malloc fail as the system's does. */
const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

/* A size that wraps must end the process as "out of memory" (70), never give a short block. */
static void overflowing_sizes_are_out_of_memory(void **state)
{
    (void)state;
    for (int which = 0; which < 3; which++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            struct qn_arena *a = qn_arena_new(0);
            struct qn_buf b = {0};
            if (which == 0)
                qn_arena_array(a, SIZE_MAX / 2, 4);
            else if (which == 1)
                qn_arena_alloc(a, SIZE_MAX - 3);
            else
                qn_buf_reserve(&b, SIZE_MAX - 3);
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), QN_EXIT_INTERNAL);
    }
}

static void integers_are_read_strictly(void **state)
{
    (void)state;
    uint64_t v;
    assert_int_equal(qn_str_u64(QN_STR("0"), 10, &v), QN_OK);
    assert_int_equal(v, 0);
    assert_int_equal(qn_str_u64(QN_STR("18446744073709551615"), UINT64_MAX, &v), QN_OK);
    assert_true(v == UINT64_MAX);
    assert_int_equal(qn_str_u64(QN_STR("18446744073709551616"), UINT64_MAX, &v), QN_ERANGE);
    assert_int_equal(qn_str_u64(QN_STR("11"), 10, &v), QN_ERANGE);
    static const char *const bad[] = {"", "00", "01", "+1", "-1", " 1", "1 ", "0x1", "1.0", "1e3",
                                      "99999999999999999999999999x"};
    for (size_t i = 0; i < QN_LEN(bad); i++)
        assert_int_equal(qn_str_u64(qn_str_of(bad[i]), UINT64_MAX, &v), QN_EINVAL);
    assert_true(v == UINT64_MAX); /* untouched by failures */
}

static void strings_order_by_bytes(void **state)
{
    (void)state;
    assert_true(qn_str_cmp(QN_STR("USDA"), QN_STR("aBTC")) < 0);
    assert_true(qn_str_cmp(QN_STR("a"), QN_STR("ab")) < 0);
    assert_true(qn_str_cmp(QN_STR("\xc3"), QN_STR("z")) > 0);
    assert_int_equal(qn_str_cmp(QN_STR_NULL, QN_STR("")), 0);
    assert_true(qn_str_eq(QN_STR_NULL, QN_STR("")));
    assert_true(qn_str_starts(QN_STR("abc"), QN_STR("ab")));
    assert_false(qn_str_starts(QN_STR("a"), QN_STR("ab")));
    assert_string_equal(qn_err_name(QN_ETIMEOUT), "timeout");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_buffer_is_an_empty_string),
        cmocka_unit_test(a_buffer_grows_and_stays_terminated),
        cmocka_unit_test(integers_print_to_their_limits),
        cmocka_unit_test(json_strings_are_escaped_and_always_utf8),
        cmocka_unit_test(utf8_is_told_from_what_is_not),
        cmocka_unit_test(arena_memory_is_aligned_separate_and_reused),
        cmocka_unit_test(overflowing_sizes_are_out_of_memory),
        cmocka_unit_test(integers_are_read_strictly),
        cmocka_unit_test(strings_order_by_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
