/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/json.h"

static struct qn_json_reader *reader;

static void expect_refused_n(const char *p, size_t n, const char *want)
{
    struct json_object *o = (struct json_object *)reader; /* must stay as it is */
    const char *why = NULL;
    if (qn_json_read(reader, (struct qn_str){p, n}, &o, &why) != QN_EINVAL)
        fail_msg("read: %.*s", (int)n, p);
    assert_ptr_equal(o, reader);
    assert_non_null(why);
    if (want)
        assert_string_equal(why, want);
}

static void expect_refused(const char *text, const char *want)
{
    expect_refused_n(text, strlen(text), want);
}

static struct json_object *read_n(const char *p, size_t n)
{
    /* At the very end of an allocation: whoever reads past it is found by the sanitizer. */
    char *exact = malloc(n ? n : 1);
    assert_non_null(exact);
    memcpy(exact, p, n);
    struct json_object *o = NULL;
    const char *why = "";
    if (qn_json_read(reader, (struct qn_str){exact, n}, &o, &why) != QN_OK)
        fail_msg("%s: %.*s", why, (int)n, p);
    free(exact);
    return o;
}

/* The tree as json-c prints it. */
static void expect_read(const char *text, const char *want)
{
    struct json_object *o = read_n(text, strlen(text));
    assert_string_equal(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE),
                        want);
    json_object_put(o);
}

static void good_texts_are_read(void **state)
{
    (void)state;
    expect_read("{}", "{}");
    expect_read("[]", "[]");
    expect_read(" \t\r\n{ \"a\" : [ 1 , -2.5e3 , true , false , null , \"x\" ] } \n",
                "{\"a\":[1,-2.5e3,true,false,null,\"x\"]}");
    expect_read("\"\\u00e9\\/\\ud83d\\ude00\"", "\"\xc3\xa9/\xf0\x9f\x98\x80\"");
    expect_read("{\"a\":{\"a\":1},\"b\":{\"a\":2}}",
                "{\"a\":{\"a\":1},\"b\":{\"a\":2}}"); /* of two objects: no duplicates */
    expect_read("[-0]", "[0]");
    expect_read("[999999999999999999,-999999999999999999]", "[999999999999999999,-999999999999999999]");
    expect_read("true", "true");
    expect_read("\"\"", "\"\"");
    expect_read("{\"\":1}", "{\"\":1}");
}

/* json-c waits for more after a number at the end. */
static void a_bare_number_is_a_value(void **state)
{
    (void)state;
    expect_read("123", "123");
    expect_read("-1.5", "-1.5");
    expect_read("0", "0");
    struct json_object *o = read_n("null", 4);
    assert_null(o);
}

/* process-model, section 5.4, row by row. */
static void duplicate_members_are_refused(void **state)
{
    (void)state;
    expect_refused("{\"a\":1,\"a\":2}", "duplicate member");
    expect_refused("{\"a\":1,\"b\":2,\"a\":1}", "duplicate member");
    expect_refused("{\"a\":1,\"\\u0061\":2}", "duplicate member");
    expect_refused("[{\"x\":{\"a\":null,\"a\":null}}]", "duplicate member");
    expect_refused("{\"a\":{\"x\":1,\"y\":2},\"a\":{}}", "duplicate member");
    expect_refused("{\"a\\u0000b\":1,\"a\\u0000c\":2}", "NUL in a member's name"); /* one name, to json-c */
}

static void trailing_bytes_are_refused(void **state)
{
    (void)state;
    expect_refused("{\"a\":1}xyz", "something after the value");
    expect_refused("1 2", "something after the value");
    expect_refused("{}{}", "something after the value");
    expect_refused_n("{}\0", 3, "something after the value");
    expect_refused_n("1\0", 2, "something after the value");
}

static void trailing_commas_are_refused(void **state)
{
    (void)state;
    expect_refused("[1,2,]", NULL);
    expect_refused("{\"a\":1,}", NULL);
    expect_refused("[,1]", NULL);
    expect_refused("[1,,2]", NULL);
    expect_refused("{,}", NULL);
}

static void single_quotes_are_refused(void **state)
{
    (void)state;
    expect_refused("{'a':1}", NULL);
    expect_refused("['a']", NULL);
    expect_refused("'a'", NULL);
}

static void comments_are_refused(void **state)
{
    (void)state;
    expect_refused("/*c*/{\"a\":1}", NULL);
    expect_refused("{\"a\":1}//c", NULL);
    expect_refused("[1/**/]", NULL);
}

static void words_that_are_not_json_are_refused(void **state)
{
    (void)state;
    static const char *const words[] = {"NaN", "nan", "Infinity", "-Infinity", "-inf", "TRUE", "True", "NULL", "nul",
                                        "truex", "undefined", "tru"};
    for (size_t i = 0; i < QN_LEN(words); i++) {
        char text[32] = "[";
        expect_refused(words[i], NULL);
        memcpy(text + 1, words[i], strlen(words[i]));
        text[1 + strlen(words[i])] = ']';
        expect_refused(text, NULL);
    }
}

static void malformed_numbers_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"[007]", "[01]", "[-01]", "[1.]", "[.5]", "[-]", "[+1]", "[1e]", "[1e+]",
                                      "[1.e1]",
                                      "[0x10]", "[1_0]", "[--1]", "[1.2.3]", "[00]", "[-.5]", "1.", "-"};
    for (size_t i = 0; i < QN_LEN(bad); i++)
        expect_refused(bad[i], NULL);
}

static void integers_that_json_c_would_clamp_are_refused(void **state)
{
    (void)state;
    expect_refused("[18446744073709551616]", "number of more than 18 digits");
    expect_refused("[-9223372036854775809]", "number of more than 18 digits");
    expect_refused("[9223372036854775808.0]", "number of more than 18 digits");
    expect_refused("[1000000000000000000]", "number of more than 18 digits");
    expect_refused("[0.1234567890123456789]", "number of more than 18 digits");
    expect_refused("{\"seed\":9007199254740993000}", "number of more than 18 digits");
}

static void numbers_that_are_infinite_are_refused(void **state)
{
    (void)state;
    expect_refused("[1e400]", "number out of range");
    expect_refused("[1e-400]", "number out of range");
    expect_refused("[999999999999999999e291]", "number out of range");
    expect_refused("[1e99999999999999999999]", "number out of range");
    struct json_object *o = read_n("[999999999999999999e290]", 24);
    json_object_put(o);
}

static void control_bytes_in_strings_are_refused(void **state)
{
    (void)state;
    expect_refused("[\"a\tb\"]", "control byte in a string");
    expect_refused("[\"a\nb\"]", "control byte in a string");
    expect_refused_n("[\"a\0b\"]", 7, "control byte in a string");
    expect_refused("{\"a\x1f\":1}", "control byte in a string");
    expect_refused("[1,\v2]", NULL);
    expect_refused("[1,\f2]", NULL);
    expect_refused("\xc2\xa0[]", NULL);     /* a no-break space is no blank */
    expect_refused("\xef\xbb\xbf[]", NULL); /* nor is a BOM */
}

static void bytes_that_are_not_utf8_are_refused(void **state)
{
    (void)state;
    expect_refused("[\"\xff\xfe\"]", "not UTF-8");
    expect_refused("[\"\xc0\x80\"]", "not UTF-8");
    expect_refused("[\"\xed\xa0\x80\"]", "not UTF-8");
    expect_refused("{\"\x80\":1}", "not UTF-8");
    expect_refused("[\"\xe2\x82\"]", "not UTF-8");
}

static void lone_surrogates_are_refused(void **state)
{
    (void)state;
    expect_refused("[\"\\ud800\"]", "lone surrogate");
    expect_refused("[\"\\ud800x\"]", "lone surrogate");
    expect_refused("[\"\\ud800\\u0041\"]", "lone surrogate");
    expect_refused("[\"\\ud800\\ud800\"]", "lone surrogate");
    expect_refused("[\"\\udc00\"]", "lone surrogate");
    expect_refused("[\"\\ud83d\\", NULL);
    expect_refused("[\"\\ud83d\\u", NULL);
    expect_refused("[\"\\ud83d\\ude", NULL);
}

static void bad_escapes_are_refused(void **state)
{
    (void)state;
    expect_refused("[\"\\x41\"]", "unknown escape");
    expect_refused("[\"\\'\"]", "unknown escape");
    expect_refused_n("[\"\\\0\"]", 6, "unknown escape");
    expect_refused("[\"\\u12g4\"]", "bad \\u escape");
    expect_refused("[\"\\u12\"]", "bad \\u escape");
}

static void an_escaped_nul_stays_in_its_string(void **state)
{
    (void)state;
    struct json_object *o = read_n("{\"a\":\"a\\u0000b\"}", 16);
    struct qn_str s;
    assert_int_equal(qn_json_get_str(o, "a", &s), QN_OK);
    assert_true(qn_str_eq(s, (struct qn_str){"a\0b", 3}));
    json_object_put(o);
}

static void depth_is_16_at_most(void **state)
{
    (void)state;
    char text[300000];
    memset(text, '[', 16);
    memset(text + 16, ']', 16);
    json_object_put(read_n(text, 32));
    memset(text, '[', 17);
    memset(text + 17, ']', 17);
    expect_refused_n(text, 34, "nested too deep");
    memset(text, '[', sizeof text);
    expect_refused_n(text, sizeof text, "nested too deep");
    for (size_t i = 0; i < 16; i++)
        memcpy(text + 5 * i, "{\"a\":", 5);
    text[80] = '1';
    memset(text + 81, '}', 16);
    json_object_put(read_n(text, 97));
}

static void incomplete_texts_are_refused(void **state)
{
    (void)state;
    static const char whole[] = "{\"a\":[1,{\"b\":\"\\u00e9\\n\"},true,-1.5e-3],\"c\":null}";
    for (size_t n = 0; n + 1 < sizeof whole; n++)
        expect_refused_n(whole, n, NULL);
    json_object_put(read_n(whole, sizeof whole - 1));
}

/* After a refusal the reader is as new. */
static void a_reader_is_reused_after_errors(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        expect_refused("{\"a\":[1,2", NULL);
        expect_read("{\"a\":[1,2]}", "{\"a\":[1,2]}");
        expect_refused("{\"a\":1,\"a\":[]}", NULL);
    }
}

static void many_members_are_read_in_one_object(void **state)
{
    (void)state;
    enum { COUNT = 60000, EACH = 11 };
    char *text = malloc(COUNT * EACH + 16);
    assert_non_null(text);
    size_t n = 0;
    text[n++] = '{';
    for (unsigned i = 0; i < COUNT; i++) {
        char *p = text + n;
        *p++ = '"';
        for (unsigned v = i, k = 0; k < 6; k++, v /= 10)
            *p++ = (char)('0' + v % 10);
        memcpy(p, "\":1,", 4);
        n += EACH;
    }
    text[n - 1] = '}';
    json_object_put(read_n(text, n));
    free(text);
}

static void members_are_typed(void **state)
{
    (void)state;
    static const char text[] = "{\"s\":\"12abc\",\"i\":-5,"
                               "\"n\":null,\"d\":1.0,\"e\":1e3,\"b\":true,\"big\":999999999999999999}";
    struct json_object *o = read_n(text, sizeof text - 1);
    struct qn_str s = QN_STR("kept");
    int64_t i = 77;
    assert_int_equal(qn_json_get_str(o, "absent", &s), QN_MISS);
    assert_int_equal(qn_json_get_str(o, "n", &s), QN_MISS);
    assert_int_equal(qn_json_get_str(o, "i", &s), QN_EINVAL);
    assert_true(qn_str_eq(s, QN_STR("kept")));
    assert_int_equal(qn_json_get_int(o, "s", &i), QN_EINVAL); /* json-c alone would say 12 */
    assert_int_equal(qn_json_get_int(o, "d", &i), QN_EINVAL);
    assert_int_equal(qn_json_get_int(o, "e", &i), QN_EINVAL);
    assert_int_equal(qn_json_get_int(o, "b", &i), QN_EINVAL);
    assert_int_equal(qn_json_get_int(o, "absent", &i), QN_MISS);
    assert_int_equal(i, 77);
    assert_int_equal(qn_json_get_int(o, "i", &i), QN_OK);
    assert_int_equal(i, -5);
    assert_int_equal(qn_json_get_int(o, "big", &i), QN_OK);
    assert_int_equal(i, INT64_C(999999999999999999));
    json_object_object_add(o, "huge", json_object_new_int64(INT64_MIN)); /* built in code */
    assert_int_equal(qn_json_get_int(o, "huge", &i), QN_ERANGE);
    json_object_put(o);
}

static int setup(void **state)
{
    (void)state;
    reader = qn_json_reader_new();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    qn_json_reader_free(reader);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_texts_are_read),
        cmocka_unit_test(a_bare_number_is_a_value),
        cmocka_unit_test(duplicate_members_are_refused),
        cmocka_unit_test(trailing_bytes_are_refused),
        cmocka_unit_test(trailing_commas_are_refused),
        cmocka_unit_test(single_quotes_are_refused),
        cmocka_unit_test(comments_are_refused),
        cmocka_unit_test(words_that_are_not_json_are_refused),
        cmocka_unit_test(malformed_numbers_are_refused),
        cmocka_unit_test(integers_that_json_c_would_clamp_are_refused),
        cmocka_unit_test(numbers_that_are_infinite_are_refused),
        cmocka_unit_test(control_bytes_in_strings_are_refused),
        cmocka_unit_test(bytes_that_are_not_utf8_are_refused),
        cmocka_unit_test(lone_surrogates_are_refused),
        cmocka_unit_test(bad_escapes_are_refused),
        cmocka_unit_test(an_escaped_nul_stays_in_its_string),
        cmocka_unit_test(depth_is_16_at_most),
        cmocka_unit_test(incomplete_texts_are_refused),
        cmocka_unit_test(a_reader_is_reused_after_errors),
        cmocka_unit_test(many_members_are_read_in_one_object),
        cmocka_unit_test(members_are_typed),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
