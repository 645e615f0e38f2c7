/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Requests, responses, problems and the rules that hold for every path.
 */
#include "turns.h"

static struct fixture f;

static int start(void **state QN_UNUSED)
{
    fixture_start(&f);
    return 0;
}

static int stop(void **state QN_UNUSED)
{
    fixture_stop(&f);
    return 0;
}

static bool matches(const char *if_none_match, const char *etag)
{
    struct qn_request rq = {.if_none_match = qn_str_of(if_none_match)};
    return qn_request_matches(&rq, qn_str_of(etag));
}

/* RFC 9110, 13.1.2: weak comparison; lists; a comma inside quotes belongs to the tag. */
static void test_if_none_match_weak_list_star_and_unquoted(void **state QN_UNUSED)
{
    assert_true(matches("W/\"abc\"", "\"abc\""));
    assert_true(matches("\"x\", \"abc\"", "\"abc\""));
    assert_true(matches("*", "\"abc\""));
    assert_false(matches("\"ab\"", "\"abc\""));
    assert_false(matches("abc", "\"abc\""));
    assert_true(matches("\"abc\"", "W/\"abc\""));
    assert_true(matches("\"a,b\"", "\"a,b\""));
    assert_false(matches("\"a,b\"", "\"b\""));
    assert_false(matches("\"abc", "\"abc\""));
    assert_false(matches("", "\"abc\""));
    assert_true(matches("junk, \"abc\"", "\"abc\""));
    assert_false(matches("W/", "\"abc\""));
}

static void test_304_keeps_etag_cors_and_has_no_body(void **state QN_UNUSED)
{
    const char *const vars[] = {"HTTP_IF_NONE_MATCH", "W/\"abc\"", NULL};
    assert_int_equal(fixture_begin(&f, "GET", "/v1/healthz", vars), QN_WANT_DONE);
    f.turn.rs.etag = QN_STR("\"abc\"");
    const char *answer = fixture_answer(&f);
    assert_non_null(strstr(answer, "Status: 304 Not Modified\r\n"));
    assert_non_null(strstr(answer, "\r\nETag: \"abc\"\r\n"));
    assert_non_null(strstr(answer, "\r\nAccess-Control-Allow-Origin: *\r\n"));
    assert_null(strstr(answer, "Content-Length"));
    assert_null(strstr(answer, "\"status\""));
}

static void test_head_has_the_headers_of_get_and_no_body(void **state QN_UNUSED)
{
    assert_int_equal(fixture_begin(&f, "HEAD", "/v1/healthz", NULL), QN_WANT_DONE);
    const char *answer = fixture_answer(&f);
    assert_non_null(strstr(answer, "Status: 200 OK\r\n"));
    assert_non_null(strstr(answer, "Content-Length: 15\r\n"));
    assert_string_equal(answer + strlen(answer) - 4, "\r\n\r\n");
}

static void test_method_not_allowed_says_which_are(void **state QN_UNUSED)
{
    static const char *const METHODS[] = {"DELETE", "POST", "PUT", "PATCH", "get", "", "TRACE"};
    for (size_t i = 0; i < QN_LEN(METHODS); i++) {
        assert_int_equal(fixture_begin(&f, METHODS[i], "/v1/price?asset=native", NULL), QN_WANT_DONE);
        assert_problem(&f, 405, "method-not-allowed", NULL);
        assert_non_null(strstr(fixture_answer(&f), "\r\nAllow: GET, HEAD, OPTIONS\r\n"));
    }
}

/* A route that isn't there is 404 whatever the method; 404 and 405 come before 400. */
static void test_unknown_path_is_404_before_all_else(void **state QN_UNUSED)
{
    static const char *const PATHS[] = {"/v1/nowhere?asset=%zz", "/", "", "/v1/price/", "/V1/price", "/v1%2Fprice",
                                        "/v1/price%20", "/v1//price"};
    for (size_t i = 0; i < QN_LEN(PATHS); i++) {
        assert_int_equal(fixture_get(&f, PATHS[i]), QN_WANT_DONE);
        assert_problem(&f, 404, "not-found", NULL);
    }
    assert_int_equal(fixture_begin(&f, "DELETE", "/v1/nowhere", NULL), QN_WANT_DONE);
    assert_problem(&f, 404, "not-found", NULL);
}

static void test_preflight_and_bare_options(void **state QN_UNUSED)
{
    const char *const vars[] = {"HTTP_ORIGIN", "https://example.org", NULL};
    for (int bare = 0; bare < 2; bare++) {
        assert_int_equal(fixture_begin(&f, "OPTIONS", "/v1/price", bare ? NULL : vars), QN_WANT_DONE);
        const char *answer = fixture_answer(&f);
        assert_non_null(strstr(answer, "Status: 204 No Content\r\n"));
        assert_non_null(strstr(answer, "\r\nAllow: GET, HEAD, OPTIONS\r\n"));
        assert_non_null(strstr(answer, "\r\nAccess-Control-Allow-Methods: GET, HEAD, OPTIONS\r\n"));
        assert_non_null(strstr(answer, "\r\nAccess-Control-Max-Age: 86400\r\n"));
        assert_non_null(strstr(answer, "Idempotency-Key\r\n"));
    }
}

static void test_request_id_kept_if_good_else_made(void **state QN_UNUSED)
{
    static const struct {
        const char *given;
        bool kept;
    } CASES[] = {{"abc-123.X_9", true}, {"", false}, {"a b", false}, {"a\r\nSet-Cookie: x", false}, {"\xc3\xa9", false},
                 {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", true},
                 {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false}};
    for (size_t i = 0; i < QN_LEN(CASES); i++) {
        const char *const vars[] = {"HTTP_X_REQUEST_ID", CASES[i].given, NULL};
        assert_int_equal(fixture_begin(&f, "GET", "/v1/healthz", vars), QN_WANT_DONE);
        if (CASES[i].kept)
            assert_string_equal(f.rq.id, CASES[i].given);
        else
            assert_int_equal(strspn(f.rq.id, "0123456789abcdef"), 32);
        assert_int_equal(strlen(f.rq.id), CASES[i].kept ? strlen(CASES[i].given) : 32);
    }
}

static void test_broken_encoding_names_the_parameter(void **state QN_UNUSED)
{
    static const char *const VALUES[] = {"%zz", "%", "%4", "%00", "%ff%fe", "%c0%af", "%ed%a0%80"};
    for (size_t i = 0; i < QN_LEN(VALUES); i++) {
        char uri[64] = "/v1/price?asset=";
        memcpy(uri + strlen(uri), VALUES[i], strlen(VALUES[i]) + 1);
        assert_int_equal(fixture_get(&f, uri), QN_WANT_DONE);
        assert_problem(&f, 400, "invalid-encoding", "asset");
    }
    assert_int_equal(fixture_get(&f, "/v1/price?%zz=native"), QN_WANT_DONE);
    assert_problem(&f, 400, "invalid-encoding", NULL);
}

static void test_path_escapes_are_decoded_once(void **state QN_UNUSED)
{
    assert_int_equal(fixture_get(&f, "/v1/%68ealthz"), QN_WANT_DONE);
    assert_int_equal(f.turn.rs.status, 200);
    assert_int_equal(fixture_get(&f, "/v1/%2568ealthz"), QN_WANT_DONE);
    assert_problem(&f, 404, "not-found", NULL);
    assert_int_equal(fixture_get(&f, "/v1/%ff"), QN_WANT_DONE);
    assert_problem(&f, 400, "invalid-encoding", NULL);
    assert_int_equal(fixture_get(&f, "/v1/%00"), QN_WANT_DONE);
    assert_problem(&f, 400, "invalid-encoding", NULL);
}

static void test_unknown_and_duplicate_parameters(void **state QN_UNUSED)
{
    assert_int_equal(fixture_get(&f, "/v1/price?asset=native&freshness=tip"), QN_WANT_DONE);
    assert_problem(&f, 400, "unknown-parameter", "freshness");
    assert_int_equal(fixture_get(&f, "/v1/price?asset=native&asset=native"), QN_WANT_DONE);
    assert_problem(&f, 400, "duplicate-parameter", "asset");
    assert_int_equal(fixture_get(&f, "/v1/price?asset=native&%61sset=native"), QN_WANT_DONE);
    assert_problem(&f, 400, "duplicate-parameter", "asset");
    assert_int_equal(fixture_get(&f, "/v1/healthz?x="), QN_WANT_DONE);
    assert_problem(&f, 400, "unknown-parameter", "x");
    assert_int_equal(fixture_get(&f, "/v1/healthz?&&"), QN_WANT_DONE);
    assert_int_equal(f.turn.rs.status, 200);
}

/* A key in the query is never taken, and its value is repeated nowhere. */
static void test_api_key_in_the_query_is_not_echoed(void **state QN_UNUSED)
{
    static const char *const URIS[] = {"/v1/price?asset=native&api_key=sk_live_TEST123",
                                       "/v1/price?asset=native&%61pi_key=sk_live_TEST123"};
    for (size_t i = 0; i < QN_LEN(URIS); i++) {
        assert_int_equal(fixture_get(&f, URIS[i]), QN_WANT_DONE);
        assert_problem(&f, 400, "unknown-parameter", "api_key");
        assert_null(strstr(fixture_answer(&f), "sk_live_TEST123"));
    }
}

static void test_headers_of_ours_never_carry_a_line_break(void **state QN_UNUSED)
{
    assert_int_equal(fixture_get(&f, "/v1/healthz"), QN_WANT_DONE);
    qn_response_header(&f.turn.rs, "X-Bad", QN_STR("a\r\nSet-Cookie: b"));
    assert_null(strstr(fixture_answer(&f), "Set-Cookie"));
}

static void test_problem_escapes_client_bytes(void **state QN_UNUSED)
{
    assert_int_equal(fixture_get(&f, "/v1/%22%5c%0a%3cscript%3e"), QN_WANT_DONE);
    assert_non_null(strstr(f.turn.rs.body.p, "\"instance\":\"/v1/\\\"\\\\\\n<script>\""));
}

static void test_body_over_the_cap_is_413(void **state QN_UNUSED)
{
    const struct qn_param vars[] = {{QN_STR("REQUEST_METHOD"), QN_STR("GET")}, {QN_STR("REQUEST_URI"), QN_STR("/v1/price")}};
    qn_request_make(f.arena, vars, 2, QN_STR(""), true, &f.rq);
    f.turn = (struct qn_turn){.app = &f.app, .rq = &f.rq, .arena = f.arena, .now_ms = NOW_MS};
    assert_int_equal(qn_turn_begin(&f.turn), QN_WANT_DONE);
    assert_problem(&f, 413, "body-too-large", NULL);
}

static void test_path_from_a_server_that_sends_no_request_uri(void **state QN_UNUSED)
{
    const struct qn_param vars[] = {{QN_STR("REQUEST_METHOD"), QN_STR("GET")}, {QN_STR("SCRIPT_NAME"), QN_STR("/v1/healthz")}};
    qn_request_make(f.arena, vars, 2, QN_STR(""), false, &f.rq);
    f.turn = (struct qn_turn){.app = &f.app, .rq = &f.rq, .arena = f.arena, .now_ms = NOW_MS};
    assert_int_equal(qn_turn_begin(&f.turn), QN_WANT_DONE);
    assert_int_equal(f.turn.rs.status, 200);
}

/* ok; degraded while one is out; unready only when both are; asked once a second at most. */
static void test_readyz_degrades_before_it_is_unready(void **state QN_UNUSED)
{
    const struct qn_val pong = {.kind = QN_VAL_STR, .str = QN_STR("PONG")};
    const struct qn_str two = QN_STR("2");
    const struct qn_rows rows = {.nrows = 1, .ncols = 1, .cells = &two};
    for (int redis = 0; redis < 2; redis++)
        for (int postgres = 0; postgres < 2; postgres++) {
            f.app.ready_at = 0;
            assert_int_equal(fixture_get(&f, "/v1/readyz"), QN_WANT_REDIS);
            assert_int_equal(redis ? qn_turn_replies(&f.turn, QN_OK, &pong, 1)
                                   : qn_turn_replies(&f.turn, QN_EUNAVAIL, NULL, 0), QN_WANT_ROWS);
            assert_int_equal(postgres ? qn_turn_rows(&f.turn, QN_OK, &rows) : qn_turn_rows(&f.turn, QN_ETIMEOUT, NULL),
                             QN_WANT_DONE);
            assert_int_equal(f.turn.rs.status, redis || postgres ? 200 : 503);
            const char *status = redis && postgres ? "\"status\":\"ok\"" : redis || postgres ? "\"degraded\"" : "\"unready\"";
            assert_non_null(strstr(f.turn.rs.body.p, status));
            assert_true(!postgres == (strstr(f.turn.rs.body.p, "\"error\":\"timeout\"") != NULL));
            assert_true(qn_str_eq(f.turn.rs.cache_control, QN_STR("no-store")));
            assert_int_equal(fixture_get(&f, "/v1/readyz"), QN_WANT_DONE); /* within the second: the same again */
            assert_int_equal(f.turn.rs.status, redis || postgres ? 200 : 503);
            assert_true((f.turn.rs.status == 503) == (strstr(fixture_answer(&f), "Retry-After: ") != NULL));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_if_none_match_weak_list_star_and_unquoted),
        cmocka_unit_test(test_304_keeps_etag_cors_and_has_no_body),
        cmocka_unit_test(test_head_has_the_headers_of_get_and_no_body),
        cmocka_unit_test(test_method_not_allowed_says_which_are),
        cmocka_unit_test(test_unknown_path_is_404_before_all_else),
        cmocka_unit_test(test_preflight_and_bare_options),
        cmocka_unit_test(test_request_id_kept_if_good_else_made),
        cmocka_unit_test(test_broken_encoding_names_the_parameter),
        cmocka_unit_test(test_path_escapes_are_decoded_once),
        cmocka_unit_test(test_unknown_and_duplicate_parameters),
        cmocka_unit_test(test_api_key_in_the_query_is_not_echoed),
        cmocka_unit_test(test_headers_of_ours_never_carry_a_line_break),
        cmocka_unit_test(test_problem_escapes_client_bytes),
        cmocka_unit_test(test_body_over_the_cap_is_413),
        cmocka_unit_test(test_path_from_a_server_that_sends_no_request_uri),
        cmocka_unit_test(test_readyz_degrades_before_it_is_unready),
    };
    return cmocka_run_group_tests_name("web", tests, start, stop);
}
