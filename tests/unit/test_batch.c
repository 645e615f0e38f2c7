/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "ingest/batch.h"
#include "ingest/lines.h"
#include "ingest/map.h"
#include "ingest/pgcopy.h"

/* ---- numeric */

static void expect_numeric(const char *text, const char *want, const char *bytes)
{
    struct qn_buf b = {0}, out = {0};
    qn_pgcopy_numeric(&b, qn_str_of(text));
    const char *p = b.p;
    struct qn_str value = qn_pgcopy_get(&p);
    assert_ptr_equal(p, b.p + b.n);
    qn_pgcopy_get_numeric(&out, value);
    assert_string_equal(out.p, want);
    if (bytes) {
        struct qn_buf hex = {0};
        for (size_t i = 0; i < value.n; i++)
            qn_buf_printf(&hex, "%02x", (unsigned char)value.p[i]);
        assert_string_equal(hex.p, bytes);
        qn_buf_free(&hex);
    }
    qn_buf_free(&b);
    qn_buf_free(&out);
}

static void numerics_are_postgres_own(void **state)
{
    (void)state;
    /* ndigits, weight, sign, dscale, digits: what numeric_send of Postgres 15 gives */
    expect_numeric("0", "0", "0000000000000000");
    expect_numeric("0.0000000", "0.0000000", "0000000000000007");
    expect_numeric("-0", "0", "0000000000000000");
    expect_numeric("1", "1", "00010000000000000001");
    expect_numeric("-1.50", "-1.50", "000200004000000200011388");
    expect_numeric("10000", "10000", "00010001000000000001");
    expect_numeric("0.0000001", "0.0000001", "0001fffe00000007000a");
    expect_numeric("922337203685.4775807", "922337203685.4775807", "000500020000000724070e880e6512a71f86");
    expect_numeric("007.10", "7.10", NULL);
    expect_numeric("1234567890123456789012345678901234567890", "1234567890123456789012345678901234567890", NULL);
    expect_numeric("0.000000000000000000000000000000000000001", "0.000000000000000000000000000000000000001", NULL);
    expect_numeric("100000000.00010000", "100000000.00010000", NULL);
}

static void integers_are_the_same_numerics(void **state)
{
    (void)state;
    static const char *const values[] = {"1", "9999", "10000", "18446744073709551615", "18446744073709551616",
                                         "100000000000000000000000000000000000000000000000000000000000000000000000",
                                         "4611686018427387904"};
    for (size_t i = 0; i < QN_LEN(values); i++) {
        struct qn_buf a = {0}, b = {0};
        mpz_t z;
        mpz_init_set_str(z, values[i], 10);
        qn_pgcopy_integer(&a, z);
        qn_pgcopy_numeric(&b, qn_str_of(values[i]));
        assert_int_equal(a.n, b.n);
        assert_memory_equal(a.p, b.p, a.n);
        mpz_clear(z);
        qn_buf_free(&a);
        qn_buf_free(&b);
    }
}

/* ---- batches */

static void make(struct qn_trade *t, const char *id, int64_t ts_ms, const char *base_amount, const char *quote_amount)
{
    const char *why;
    struct qn_trade_text in = {.id = qn_str_of(id), .source = QN_STR("sdex"), .base_amount = qn_str_of(base_amount),
                               .quote_amount = qn_str_of(quote_amount), .ts_ms = ts_ms};
    assert_int_equal(qn_trade_read(t, &in, false, 7, 100, ts_ms, &why), QN_OK);
}

static const int64_t t0 = INT64_C(1748736000000);

static enum qn_batch_added add(struct qn_batch *b, const char *id, int64_t ts_ms, const char *base_amount, int pair,
                               uint64_t line)
{
    struct qn_trade t;
    qn_trade_init(&t);
    make(&t, id, ts_ms, base_amount, "5.0000000");
    enum qn_batch_added added = qn_batch_add(b, &t, qn_batch_hash(1, t.id), 1, pair, line);
    qn_trade_clear(&t);
    return added;
}

/* How many rows COPY data has; every row is walked to its end. */
static size_t count_rows(struct qn_str data, int nfields)
{
    size_t rows = 0;
    const char *p = data.p + 19, *end = data.p + data.n;
    for (;;) {
        assert_true(end - p >= 2);
        int n = (int16_t)((unsigned char)p[0] << 8 | (unsigned char)p[1]);
        p += 2;
        if (n == -1)
            break;
        assert_int_equal(n, nfields);
        for (int i = 0; i < n; i++)
            (void)qn_pgcopy_get(&p);
        rows++;
    }
    assert_ptr_equal(p, end);
    return rows;
}

static void count_refused(void *arg, uint64_t line)
{
    uint64_t *sum = arg;
    *sum = *sum * 100 + line;
}

static void one_identity_in_a_batch(void **state)
{
    (void)state;
    struct qn_batch *b = qn_batch_new(10);
    assert_int_equal(add(b, "1", t0, "10.0", 7, 1), QN_BATCH_ADDED);
    assert_int_equal(add(b, "1", t0, "10.00", 7, 2), QN_BATCH_ADDED); /* the same by value: a twin */
    assert_int_equal(add(b, "1", t0, "10.1", 7, 3), QN_BATCH_CONFLICT);
    assert_int_equal(add(b, "1", t0 + 1, "10.0", 7, 4), QN_BATCH_CONFLICT);
    assert_int_equal(add(b, "1", t0, "10.0", 8, 5), QN_BATCH_CONFLICT);
    assert_int_equal(add(b, "01", t0, "10.0", 7, 6), QN_BATCH_ADDED); /* another id, though of one ord */
    assert_int_equal(qn_batch_lines(b), 3);
    assert_int_equal(qn_batch_trades(b), 2);
    struct qn_batch_counts c = qn_batch_count(b);
    assert_int_equal(c.stored, 2);
    assert_int_equal(c.duplicates, 1);
    assert_int_equal(count_rows(qn_batch_copy_trades(b), 10), 2);
    assert_int_equal(count_rows(qn_batch_copy_ids(b), 3), 2);
    qn_batch_free(b);
}

static void marked_trades_are_left_out(void **state)
{
    (void)state;
    struct qn_batch *b = qn_batch_new(10);
    size_t dirty;
    uint64_t lines = 0;
    add(b, "1", t0, "10", 7, 1);
    add(b, "2", t0 + 60000, "10", 7, 2);
    add(b, "2", t0 + 60000, "10", 7, 3);
    add(b, "3", t0, "0", 7, 4); /* unpriced: no candle */
    (void)qn_batch_copy_dirty(b, &dirty);
    assert_int_equal(dirty, 2);
    assert_int_equal(qn_batch_mark(b, 1, QN_STR("2"), false), QN_OK);
    assert_int_equal(qn_batch_mark(b, 1, QN_STR("2"), false), QN_MISS);
    assert_int_equal(qn_batch_mark(b, 2, QN_STR("1"), false), QN_MISS); /* another source */
    assert_int_equal(count_rows(qn_batch_copy_trades(b), 10), 2);
    assert_int_equal(count_rows(qn_batch_copy_ids(b), 3), 2);
    assert_int_equal(count_rows(qn_batch_copy_dirty(b, &dirty), 2), 1);
    struct qn_batch_counts c = qn_batch_count(b);
    assert_int_equal(c.stored, 2);
    assert_int_equal(c.unpriced, 1);
    assert_int_equal(c.refused, 2); /* the twin of what is refused is refused */
    qn_batch_refused(b, count_refused, &lines);
    assert_int_equal(lines, 203);
    assert_int_equal(qn_batch_mark(b, 1, QN_STR("1"), true), QN_OK);
    assert_int_equal(qn_batch_count(b).duplicates, 1);
    qn_batch_reset(b);
    assert_int_equal(add(b, "2", t0, "10", 7, 1), QN_BATCH_ADDED); /* forgotten */
    assert_int_equal(qn_batch_trades(b), 1);
    qn_batch_free(b);
}

static void full_batches_take_no_more(void **state)
{
    (void)state;
    struct qn_batch *b = qn_batch_new(2);
    assert_int_equal(add(b, "1", t0, "10", 7, 1), QN_BATCH_ADDED);
    assert_int_equal(add(b, "2", t0, "10", 7, 2), QN_BATCH_ADDED);
    assert_int_equal(add(b, "1", t0, "10", 7, 3), QN_BATCH_FULL);
    qn_batch_free(b);
}

static void last_trade_is_by_ts_then_number_then_id(void **state)
{
    (void)state;
    struct qn_batch *b = qn_batch_new(10);
    struct qn_arena *arena = qn_arena_new(4096);
    struct qn_str arrays[QN_BATCH_PAIR_ARRAYS];
    add(b, "10-10", t0 + 5, "3", 7, 1);
    add(b, "10-2", t0 + 5, "2", 7, 2); /* as text the last one */
    add(b, "9-0", t0, "1", 7, 3);
    add(b, "1", t0, "9", 3, 4);
    qn_batch_pairs(b, arena, arrays);
    assert_string_equal(arrays[0].p, "{\"3\",\"7\"}");
    assert_string_equal(arrays[2].p, "{\"2025-06-01T00:00:00.000Z\",\"2025-06-01T00:00:00.000Z\"}");
    assert_string_equal(arrays[3].p, "{\"2025-06-01T00:00:00.000Z\",\"2025-06-01T00:00:00.005Z\"}");
    assert_string_equal(arrays[5].p, "{\"1\",\"10-10\"}");
    assert_string_equal(arrays[6].p, "{\"9\",\"3\"}");
    qn_arena_free(arena);
    qn_batch_free(b);
}

static void maps_forget_when_full(void **state)
{
    (void)state;
    struct qn_map *m = qn_map_new(1000);
    int64_t v;
    char name[32];
    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "name %d", i);
        assert_int_equal(qn_map_get(m, qn_str_of(name), &v), QN_MISS);
        qn_map_put(m, qn_str_of(name), i);
        assert_int_equal(qn_map_get(m, qn_str_of(name), &v), QN_OK);
        assert_int_equal(v, i);
    }
    assert_int_equal(qn_map_get(m, QN_STR("name 0"), &v), QN_MISS);
    qn_map_free(m);
}

/* ---- lines */

static struct qn_lines *lines_of(const void *data, size_t n, size_t max, int *fd)
{
    char path[] = "/tmp/quoin-lines.XXXXXX";
    *fd = mkstemp(path);
    assert_true(*fd >= 0);
    unlink(path);
    assert_int_equal(write(*fd, data, n), n);
    assert_int_equal(lseek(*fd, 0, SEEK_SET), 0);
    return qn_lines_new(*fd, max);
}

/* Everything that comes out, "|" behind a line, "!" for one that is too long. */
static void read_lines(const void *data, size_t n, size_t max, struct qn_buf *out)
{
    int fd;
    struct qn_lines *l = lines_of(data, n, max, &fd);
    struct qn_str line;
    enum qn_lines_got got;
    qn_buf_clear(out);
    qn_buf_puts(out, "");
    for (;;) {
        got = qn_lines_next(l, &line);
        bool ended = got == QN_LINES_MORE && qn_lines_fill(l) == QN_MISS;
        if (ended)
            got = qn_lines_last(l, &line);
        if (got == QN_LINES_LINE && line.n < 1000)
            qn_buf_str(out, line);
        if (got != QN_LINES_MORE)
            qn_buf_char(out, got == QN_LINES_LINE ? '|' : '!');
        if (ended)
            break;
    }
    assert_int_equal(qn_lines_bytes(l), n);
    qn_lines_free(l);
    close(fd);
}

static void expect_lines(const char *data, const char *want)
{
    struct qn_buf out = {0};
    read_lines(data, strlen(data), 8, &out);
    assert_string_equal(out.p, want);
    qn_buf_free(&out);
}

static void lines_end_in_newlines_or_not(void **state)
{
    (void)state;
    expect_lines("", "");
    expect_lines("a\nb\n", "a|b|");
    expect_lines("a\r\nb", "a|b|");
    expect_lines("\n\na", "||a|");
    expect_lines("12345678\n123456789\n12345678\r\nx", "12345678|!12345678|x|");
    expect_lines("123456789", "!");
    expect_lines("\xef\xbb\xbf" "a\n\xef\xbb\xbf" "b\n", "a|\xef\xbb\xbf" "b|"); /* a mark is one at the start only */
    expect_lines("\xef\xbb\xbf", "");
    expect_lines("\xef\xbb", "\xef\xbb|");
    expect_lines("a\rb\n", "a\rb|");
}

static void long_lines_are_skipped_in_bounded_memory(void **state)
{
    (void)state;
    size_t n = 3 * 1024 * 1024;
    char *data = qn_xmalloc(n + 8);
    struct qn_buf out = {0};
    memset(data, 'x', n);
    memcpy(data, "a\n", 2);
    memcpy(data + n, "\nb\n", 3);
    read_lines(data, n + 3, 65536, &out);
    assert_string_equal(out.p, "a|!b|");
    read_lines(data, n, 65536, &out); /* and without an end */
    assert_string_equal(out.p, "a|!");
    qn_buf_free(&out);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numerics_are_postgres_own),
        cmocka_unit_test(integers_are_the_same_numerics),
        cmocka_unit_test(one_identity_in_a_batch),
        cmocka_unit_test(marked_trades_are_left_out),
        cmocka_unit_test(full_batches_take_no_more),
        cmocka_unit_test(last_trade_is_by_ts_then_number_then_id),
        cmocka_unit_test(maps_forget_when_full),
        cmocka_unit_test(lines_end_in_newlines_or_not),
        cmocka_unit_test(long_lines_are_skipped_in_bounded_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
