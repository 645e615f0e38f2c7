/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * link/pgconn and link/pgpool against a real Postgres.
 */
#include "base/base.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/clock.h"
#include "link/loop.h"
#include "link/pgpool.h"
#include "servers.h"

enum { SLACK_MS = 400, LONG_MS = 20000 };

static struct event_base *base;
static struct server *server;
static struct qn_arena *arena;
static struct qn_pgconn *conn;
/* Does things to the server on a loop of its own: nothing of `base` moves meanwhile. */
static struct event_base *admin_base;
static struct qn_pgconn *admin;

static const struct qn_stmt stmts[] = {
    {"add", "SELECT $1::int8 + $2::int8", 2},
    {"echo", "SELECT $1::text, NULL, '' -- a comment at the end", 1},
    {"all", "SELECT * FROM things ORDER BY 1", 0},
    {"pid", "SELECT pg_backend_pid()", 0},
    {"sleep", "SELECT pg_sleep($1::float8)", 1},
    {"forget", "SELECT forget()", 0},
    {"divide", "SELECT 1 / $1::int4", 1},
    {"fill", "INSERT INTO things SELECT generate_series(1, $1::int4)", 1},
};
enum { ADD, ECHO, ALL, PID, SLEEP, FORGET, DIVIDE, FILL };

/* ---- helpers ---- */

static int64_t in_ms(int64_t ms)
{
    return qn_clock_mono_ms() + ms;
}

static struct qn_rows sql_on(struct qn_pgconn *c, const char *sql)
{
    struct qn_rows rows = {0};
    enum qn_err err = qn_pgconn_run(c, sql, 0, NULL, in_ms(LONG_MS), arena, &rows);
    if (err != QN_OK)
        fail_msg("%s: %s", sql, qn_pgconn_message(c));
    return rows;
}

static void on_admin(const char *sql)
{
    assert_int_equal(qn_pgconn_run_script(admin, sql, in_ms(LONG_MS)), QN_OK);
}

static void assert_cell(const struct qn_rows *rows, size_t row, size_t col, const char *want)
{
    struct qn_str cell = qn_rows_cell(rows, row, col);
    assert_non_null(cell.p);
    assert_string_equal(cell.p, want);
    assert_int_equal(cell.n, strlen(want));
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    *(bool *)arg = true;
}

/* Turns the loop for ms. */
static void turn(int ms)
{
    bool done = false;
    struct event *ev = qn_loop_event(base, -1, 0, on_tick, &done);
    const struct timeval tv = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    evtimer_add(ev, &tv);
    assert_true(qn_loop_until(base, &done));
    event_free(ev);
}

/* A call of the pool, or a step of a connection, as a handler makes it. */
struct seen {
    bool done;
    int times;
    enum qn_err err;
    char sqlstate[6];
    struct qn_rows rows;
    int64_t at;
};

static void on_seen(void *arg, const struct qn_pgresult *result)
{
    struct seen *s = arg;
    s->done = true;
    s->times++;
    s->err = result->err;
    s->at = qn_clock_mono_ms();
    memcpy(s->sqlstate, result->sqlstate, sizeof(s->sqlstate));
    s->rows = result->rows;
    size_t n = result->rows.nrows * result->rows.ncols;
    struct qn_str *cells = qn_arena_array(arena, n, sizeof(*cells));
    for (size_t i = 0; i < n; i++) {
        if (result->rows.cells[i].p)
            cells[i] = qn_arena_copy(arena, result->rows.cells[i]);
    }
    s->rows.cells = cells;
    if (result->err != QN_OK)
        assert_non_null(result->message);
}

static void start(struct qn_pgpool *p, struct seen *s, int stmt, struct qn_str a, struct qn_str b, int64_t deadline)
{
    *s = (struct seen){0};
    const struct qn_str params[] = {a, b};
    const struct qn_query q = {.stmt = &stmts[stmt], .params = params};
    assert_int_equal(qn_pgpool_query(p, &q, deadline, on_seen, s, NULL), QN_OK);
    assert_false(s->done);
}

static enum qn_err ask(struct qn_pgpool *p, struct seen *s, int stmt, struct qn_str a, struct qn_str b)
{
    const struct qn_str params[] = {a, b};
    const struct qn_query q = {.stmt = &stmts[stmt], .params = params};
    *s = (struct seen){0};
    enum qn_err err = qn_pgpool_query(p, &q, INT64_MAX, on_seen, s, NULL);
    if (err != QN_OK)
        return err;
    assert_true(qn_loop_until(base, &s->done));
    assert_int_equal(s->times, 1);
    return s->err;
}

static void assert_adds(struct qn_pgpool *p)
{
    struct seen s;
    assert_int_equal(ask(p, &s, ADD, QN_STR("2"), QN_STR("3")), QN_OK);
    assert_cell(&s.rows, 0, 0, "5");
}

static int64_t wait_until_back(struct qn_pgpool *p)
{
    int64_t from = qn_clock_mono_ms();
    struct seen s;
    while (ask(p, &s, ADD, QN_STR("1"), QN_STR("1")) != QN_OK) {
        assert_true(qn_clock_mono_ms() - from < 15000);
        turn(20);
    }
    return qn_clock_mono_ms() - from;
}

static size_t open_fds(void)
{
    size_t n = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir))
        n++;
    (void)closedir(dir);
    return n;
}

static struct qn_config_postgres config;

static struct qn_pgpool *pool_of(int connections)
{
    return qn_pgpool_new(base, &config, stmts, QN_LEN(stmts), connections);
}

/* The setting of the prepared-statement mode for the tests that run in both. */
static int setup(void **state)
{
    config = (struct qn_config_postgres){.dsn = (char *)servers_address(server), .connect_ms = 2000,
                                         .statement_ms = 2000, .prepare = *state == NULL};
    on_admin("DROP TABLE IF EXISTS things; CREATE TABLE things (id int); INSERT INTO things VALUES (1), (2)");
    conn = qn_pgconn_new(base, servers_address(server), "test", 10000);
    assert_int_equal(qn_pgconn_run_connect(conn, stmts, QN_LEN(stmts), in_ms(LONG_MS)), QN_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    qn_pgconn_free(conn);
    conn = NULL;
    qn_arena_reset(arena);
    return 0;
}

/* ---- one connection ---- */

static void a_new_connection_is_set_up(void **state)
{
    (void)state;
    struct qn_rows rows = sql_on(conn, "SELECT current_setting('timezone'), current_setting('client_encoding'), "
                                       "current_setting('application_name'), current_setting('statement_timeout'), "
                                       "timestamptz '2024-02-29 12:00:00.123+02', 0.1::float8 + 0.2::float8");
    assert_cell(&rows, 0, 0, "UTC");
    assert_cell(&rows, 0, 1, "UTF8");
    assert_cell(&rows, 0, 2, "test");
    assert_cell(&rows, 0, 3, "10s");
    assert_cell(&rows, 0, 4, "2024-02-29 10:00:00.123+00");
    assert_cell(&rows, 0, 5, "0.30000000000000004");
    assert_int_equal(qn_pgconn_state(conn), QN_PG_IDLE);
}

static void values_pass_exactly(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "plain", "it's; DROP TABLE things; --", "\\", "%s %n", "a\r\nb\t\x01",
                                        "\xe2\x82\xac \xf0\x9f\x9a\x80"};
    for (size_t i = 0; i < QN_LEN(texts); i++) {
        struct qn_str param = qn_str_of(texts[i]);
        struct qn_rows rows;
        assert_int_equal(qn_pgconn_run_stmt(conn, &stmts[ECHO], &param, in_ms(LONG_MS), arena, &rows), QN_OK);
        assert_int_equal(rows.nrows, 1);
        assert_int_equal(rows.ncols, 3);
        assert_cell(&rows, 0, 0, texts[i]);
        assert_null(qn_rows_cell(&rows, 0, 1).p);
        assert_cell(&rows, 0, 2, "");
        assert_int_equal(rows.affected, 0);
    }
    struct qn_str null = QN_STR_NULL;
    struct qn_rows rows;
    assert_int_equal(qn_pgconn_run_stmt(conn, &stmts[ECHO], &null, in_ms(LONG_MS), arena, &rows), QN_OK);
    assert_null(qn_rows_cell(&rows, 0, 0).p);
}

static void text_that_postgres_has_not_is_refused_and_the_connection_stays(void **state)
{
    (void)state;
    static const struct qn_str bad[] = {{"a\0b", 3}, {"\0", 1}, {"\xff", 1}, {"\xed\xa0\x80", 3}, {"\xc0\x80", 2}};
    struct qn_rows rows = sql_on(conn, "SELECT pg_backend_pid()");
    const char *pid = qn_rows_cell(&rows, 0, 0).p;
    for (size_t i = 0; i < QN_LEN(bad); i++) {
        assert_int_equal(qn_pgconn_run_stmt(conn, &stmts[ECHO], &bad[i], in_ms(LONG_MS), arena, &rows), QN_EPEER);
        assert_string_equal(qn_pgconn_sqlstate(conn), "22021");
        assert_int_equal(qn_pgconn_state(conn), QN_PG_IDLE);
    }
    rows = sql_on(conn, "SELECT pg_backend_pid()");
    assert_cell(&rows, 0, 0, pid);
}

static void an_error_of_the_statement_keeps_the_connection(void **state)
{
    (void)state;
    struct qn_rows rows = sql_on(conn, "SELECT pg_backend_pid()");
    const char *pid = qn_rows_cell(&rows, 0, 0).p;
    struct qn_str zero = QN_STR("0");
    assert_int_equal(qn_pgconn_run_stmt(conn, &stmts[DIVIDE], &zero, in_ms(LONG_MS), arena, &rows), QN_EPEER);
    assert_string_equal(qn_pgconn_sqlstate(conn), "22012");
    assert_string_equal(qn_pgconn_message(conn), "division by zero");
    assert_int_equal(qn_pgconn_run(conn, "SELECT * FROM nowhere", 0, NULL, in_ms(LONG_MS), arena, &rows), QN_EPEER);
    assert_string_equal(qn_pgconn_sqlstate(conn), "42P01");
    rows = sql_on(conn, "SELECT pg_backend_pid()");
    assert_cell(&rows, 0, 0, pid);
}

static void counts_of_writing_statements(void **state)
{
    (void)state;
    assert_int_equal(sql_on(conn, "INSERT INTO things VALUES (3), (4), (5)").affected, 3);
    assert_int_equal(sql_on(conn, "UPDATE things SET id = id + 1 WHERE id > 3 RETURNING id").affected, 2);
    assert_int_equal(sql_on(conn, "DELETE FROM things").affected, 5);
    assert_int_equal(sql_on(conn, "DELETE FROM things").affected, 0);
    assert_int_equal(sql_on(conn, "SELECT 1").affected, 0);
}

static void a_transaction_of_a_daemon(void **state)
{
    (void)state;
    struct qn_rows rows;
    assert_false(qn_pgconn_in_transaction(conn));
    sql_on(conn, "BEGIN");
    assert_true(qn_pgconn_in_transaction(conn));
    assert_int_equal(qn_pgconn_state(conn), QN_PG_IDLE);
    sql_on(conn, "INSERT INTO things VALUES (7)");
    assert_int_equal(qn_pgconn_run(conn, "SELECT 1/0", 0, NULL, in_ms(LONG_MS), NULL, NULL), QN_EPEER);
    assert_int_equal(qn_pgconn_run(conn, "SELECT 1", 0, NULL, in_ms(LONG_MS), NULL, NULL), QN_EPEER);
    assert_string_equal(qn_pgconn_sqlstate(conn), "25P02");
    sql_on(conn, "ROLLBACK");
    assert_false(qn_pgconn_in_transaction(conn));
    rows = sql_on(conn, "SELECT count(*) FROM things");
    assert_cell(&rows, 0, 0, "2");
}

static void a_script_of_several_statements_stops_at_the_first_error(void **state)
{
    (void)state;
    assert_int_equal(qn_pgconn_run_script(conn, "INSERT INTO things VALUES (3); SELECT 1/0; SELECT * FROM nowhere",
                                          in_ms(LONG_MS)), QN_EPEER);
    assert_string_equal(qn_pgconn_sqlstate(conn), "22012");
    struct qn_rows rows = sql_on(conn, "SELECT count(*) FROM things");
    assert_cell(&rows, 0, 0, "2");
    assert_int_equal(qn_pgconn_run_script(conn, "INSERT INTO things VALUES (3); INSERT INTO things VALUES (4);",
                                          in_ms(LONG_MS)), QN_OK);
    assert_int_equal(qn_pgconn_run_script(conn, "", in_ms(LONG_MS)), QN_OK);
    rows = sql_on(conn, "SELECT count(*) FROM things");
    assert_cell(&rows, 0, 0, "4");
}

static void large_parameters_and_results(void **state)
{
    (void)state;
    size_t n = 8 * 1024 * 1024;
    char *text = qn_arena_alloc(arena, n + 1);
    memset(text, 'x', n);
    text[n] = '\0';
    struct qn_str param = {text, n};
    struct qn_rows rows;
    assert_int_equal(qn_pgconn_run_stmt(conn, &stmts[ECHO], &param, in_ms(LONG_MS), arena, &rows), QN_OK);
    assert_true(qn_str_eq(qn_rows_cell(&rows, 0, 0), param));
    rows = sql_on(conn, "SELECT i, i * 2 FROM generate_series(1, 100000) i");
    assert_int_equal(rows.nrows, 100000);
    assert_cell(&rows, 99999, 1, "200000");
}

static void arrays_hold_any_text(void **state)
{
    (void)state;
    static const struct qn_str items[] = {{"plain", 5}, {"", 0}, {NULL, 0}, {"NULL", 4}, {"a\"b\\c", 5}, {"{x,y}", 5},
                                          {" s ", 3}};
    struct qn_str array = qn_pg_array(arena, items, QN_LEN(items));
    struct qn_rows rows;
    assert_int_equal(qn_pgconn_run(conn, "SELECT unnest($1::text[])", 1, &array, in_ms(LONG_MS), arena, &rows), QN_OK);
    assert_int_equal(rows.nrows, QN_LEN(items));
    for (size_t i = 0; i < QN_LEN(items); i++) {
        struct qn_str cell = qn_rows_cell(&rows, i, 0);
        assert_int_equal(cell.p == NULL, items[i].p == NULL);
        assert_true(qn_str_eq(cell, items[i]));
    }
    array = qn_pg_array(arena, NULL, 0);
    assert_int_equal(qn_pgconn_run(conn, "SELECT unnest($1::text[])", 1, &array, in_ms(LONG_MS), arena, &rows), QN_OK);
    assert_int_equal(rows.nrows, 0);
}

/* ---- COPY ---- */

static struct qn_str copy_data(size_t rows)
{
    struct qn_buf b = {.arena = arena};
    qn_buf_reserve(&b, rows * 8);
    for (size_t i = 0; i < rows; i++) {
        qn_buf_u64(&b, i);
        qn_buf_char(&b, '\n');
    }
    return qn_buf_view(&b);
}

static void copy_counts_its_rows(void **state)
{
    (void)state;
    int64_t count = -1;
    assert_int_equal(qn_pgconn_run_copy(conn, "COPY things FROM STDIN", copy_data(300000), in_ms(LONG_MS), &count),
                     QN_OK);
    assert_int_equal(count, 300000);
    assert_int_equal(qn_pgconn_run_copy(conn, "COPY things FROM STDIN", QN_STR(""), in_ms(LONG_MS), &count), QN_OK);
    assert_int_equal(count, 0);
    struct qn_rows rows = sql_on(conn, "SELECT count(*), sum(id) FROM things WHERE id < 300000");
    assert_cell(&rows, 0, 0, "300002");
    assert_cell(&rows, 0, 1, "44999850003");
}

static void copy_with_a_bad_row_writes_nothing_and_keeps_the_connection(void **state)
{
    (void)state;
    struct qn_buf b = {.arena = arena};
    qn_buf_puts(&b, "no number\n");
    qn_buf_str(&b, copy_data(300000));
    int64_t count = -1;
    assert_int_equal(qn_pgconn_run_copy(conn, "COPY things FROM STDIN", qn_buf_view(&b), in_ms(LONG_MS), &count),
                     QN_EPEER);
    assert_string_equal(qn_pgconn_sqlstate(conn), "22P02");
    assert_int_equal(count, -1);
    struct qn_rows rows = sql_on(conn, "SELECT count(*) FROM things");
    assert_cell(&rows, 0, 0, "2");
    assert_int_equal(qn_pgconn_run_copy(conn, "COPY nowhere FROM STDIN", QN_STR(""), in_ms(LONG_MS), &count), QN_EPEER);
    assert_string_equal(qn_pgconn_sqlstate(conn), "42P01");
}

static void copy_where_none_belongs_closes_the_connection(void **state)
{
    (void)state;
    assert_int_equal(qn_pgconn_run_script(conn, "COPY things FROM STDIN", in_ms(LONG_MS)), QN_EUNAVAIL);
    assert_int_equal(qn_pgconn_state(conn), QN_PG_CLOSED);
    assert_int_equal(qn_pgconn_run_connect(conn, NULL, 0, in_ms(LONG_MS)), QN_OK);
    assert_int_equal(qn_pgconn_run_script(conn, "COPY things TO STDOUT", in_ms(LONG_MS)), QN_EUNAVAIL);
    assert_int_equal(qn_pgconn_state(conn), QN_PG_CLOSED);
    assert_int_equal(qn_pgconn_run_copy(conn, "COPY things FROM STDIN", QN_STR(""), in_ms(LONG_MS), NULL), QN_EUNAVAIL);
}

static void several_connections_copy_at_once(void **state)
{
    (void)state;
    enum { N = 3 };
    struct qn_pgconn *conns[N];
    struct seen seen[N] = {0};
    struct qn_str data = copy_data(100000);
    for (size_t i = 0; i < N; i++) {
        conns[i] = qn_pgconn_new(base, servers_address(server), "copy", 0);
        assert_int_equal(qn_pgconn_run_connect(conns[i], NULL, 0, in_ms(LONG_MS)), QN_OK);
    }
    for (size_t i = 0; i < N; i++)
        qn_pgconn_copy(conns[i], "COPY things FROM STDIN", data, in_ms(LONG_MS), on_seen, &seen[i]);
    /* all of them are sending before the first is done */
    bool together = false;
    while (!seen[0].done || !seen[1].done || !seen[2].done) {
        size_t sending = 0;
        for (size_t i = 0; i < N; i++)
            sending += qn_pgconn_state(conns[i]) == QN_PG_COPY_IN;
        together = together || sending == N;
        assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
    }
    assert_true(together);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(seen[i].err, QN_OK);
        assert_int_equal(seen[i].rows.affected, 100000);
        qn_pgconn_free(conns[i]);
    }
    struct qn_rows rows = sql_on(conn, "SELECT count(*) FROM things");
    assert_cell(&rows, 0, 0, "300002");
}

static void copy_into_a_stalled_server_ends_at_its_deadline(void **state)
{
    (void)state;
    struct qn_str data = copy_data(2000000);
    servers_signal(server, SIGSTOP);
    int64_t from = qn_clock_mono_ms();
    assert_int_equal(qn_pgconn_run_copy(conn, "COPY things FROM STDIN", data, in_ms(200), NULL), QN_ETIMEOUT);
    assert_in_range(qn_clock_mono_ms() - from, 200, 200 + SLACK_MS);
    servers_signal(server, SIGCONT);
    assert_int_equal(qn_pgconn_state(conn), QN_PG_CLOSED);
}

/* ---- connections that can't be made, or go away ---- */

static void refused_a_thousand_times_leaks_nothing(void **state)
{
    (void)state;
    const char *dsn = qn_arena_printf(arena, "host=%s user=postgres dbname=nowhere", servers_dir(server)).p;
    struct qn_pgconn *c = qn_pgconn_new(base, dsn, "test", 0);
    size_t before = open_fds();
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(qn_pgconn_run_connect(c, NULL, 0, in_ms(LONG_MS)), QN_EUNAVAIL);
        assert_int_equal(qn_pgconn_state(c), QN_PG_CLOSED);
        if (i == 0)
            assert_non_null(strstr(qn_pgconn_message(c), "nowhere"));
    }
    assert_int_equal(open_fds(), before);
    qn_pgconn_free(c);
}

static void connection_strings_that_can_not_be_used(void **state)
{
    (void)state;
    static const char *const dsns[] = {"host=/tmp/qn-test-no-such-folder", "password=hunter2 host", "",
                                       "postgres://u:hunter2%zz@/db", "host=/tmp port=hunter2"};
    for (size_t i = 0; i < QN_LEN(dsns); i++) {
        if (!dsns[i][0])
            continue;
        struct qn_pgconn *c = qn_pgconn_new(base, dsns[i], "test", 0);
        assert_int_equal(qn_pgconn_run_connect(c, NULL, 0, in_ms(LONG_MS)), QN_EUNAVAIL);
        assert_true(strlen(qn_pgconn_message(c)) > 0);
        if (i != 4)
            assert_null(strstr(qn_pgconn_message(c), "hunter2"));
        qn_pgconn_free(c);
    }
}

static void a_statement_that_can_not_be_prepared_fails_the_connect(void **state)
{
    (void)state;
    const struct qn_stmt bad[] = {{"good", "SELECT 1", 0}, {"bad", "SELECT * FROM nowhere", 0}};
    struct qn_pgconn *c = qn_pgconn_new(base, servers_address(server), "test", 0);
    assert_int_equal(qn_pgconn_run_connect(c, bad, 2, in_ms(LONG_MS)), QN_EPEER);
    assert_string_equal(qn_pgconn_sqlstate(c), "42P01");
    assert_int_equal(qn_pgconn_state(c), QN_PG_CLOSED);
    assert_int_equal(qn_pgconn_run_connect(c, bad, 1, in_ms(LONG_MS)), QN_OK);
    qn_pgconn_free(c);
}

static void a_server_that_stalls_while_connecting(void **state)
{
    (void)state;
    struct qn_pgconn *c = qn_pgconn_new(base, servers_address(server), "test", 0);
    size_t before = open_fds();
    servers_signal(server, SIGSTOP);
    int64_t from = qn_clock_mono_ms();
    assert_int_equal(qn_pgconn_run_connect(c, NULL, 0, in_ms(100)), QN_ETIMEOUT);
    assert_in_range(qn_clock_mono_ms() - from, 100, 100 + SLACK_MS);
    servers_signal(server, SIGCONT);
    assert_int_equal(open_fds(), before);
    assert_int_equal(qn_pgconn_run_connect(c, NULL, 0, in_ms(LONG_MS)), QN_OK);
    qn_pgconn_free(c);
}

static void close_cancels_the_step_under_way(void **state)
{
    (void)state;
    struct seen s = {0};
    struct qn_str second = QN_STR("1");
    const struct qn_query q = {.stmt = &stmts[SLEEP], .params = &second};
    qn_pgconn_query(conn, &q, true, in_ms(LONG_MS), on_seen, &s);
    turn(5);
    qn_pgconn_close(conn);
    assert_int_equal(s.times, 1);
    assert_int_equal(s.err, QN_ECANCEL);
    assert_int_equal(qn_pgconn_state(conn), QN_PG_CLOSED);
    assert_int_equal(qn_pgconn_run(conn, "SELECT 1", 0, NULL, in_ms(LONG_MS), NULL, NULL), QN_EUNAVAIL);
}

static void on_free(void *arg, const struct qn_pgresult *result)
{
    (void)result;
    qn_pgconn_free(conn);
    conn = NULL;
    *(bool *)arg = true;
}

static void a_callback_may_free_the_connection(void **state)
{
    (void)state;
    bool done = false;
    const struct qn_query q = {.stmt = &stmts[PID]};
    qn_pgconn_query(conn, &q, true, in_ms(LONG_MS), on_free, &done);
    assert_true(qn_loop_until(base, &done));
    /* at a deadline as well */
    assert_int_equal(setup(state), 0);
    done = false;
    struct qn_str second = QN_STR("1");
    const struct qn_query slow = {.stmt = &stmts[SLEEP], .params = &second};
    qn_pgconn_query(conn, &slow, true, in_ms(10), on_free, &done);
    assert_true(qn_loop_until(base, &done));
}

static void a_statement_slower_than_the_server_allows(void **state)
{
    (void)state;
    struct qn_pgconn *c = qn_pgconn_new(base, servers_address(server), "test", 50);
    assert_int_equal(qn_pgconn_run_connect(c, NULL, 0, in_ms(LONG_MS)), QN_OK);
    assert_int_equal(qn_pgconn_run(c, "SELECT pg_sleep(10)", 0, NULL, in_ms(LONG_MS), NULL, NULL), QN_EPEER);
    assert_string_equal(qn_pgconn_sqlstate(c), "57014");
    /* a class of its own among 57: the connection is good */
    assert_int_equal(qn_pgconn_state(c), QN_PG_IDLE);
    assert_int_equal(qn_pgconn_run(c, "SELECT 1", 0, NULL, in_ms(LONG_MS), NULL, NULL), QN_OK);
    qn_pgconn_free(c);
}

/* ---- the pool ---- */

static void the_pool_opens_connections_as_needed_and_keeps_them(void **state)
{
    (void)state;
    struct qn_pgpool *p = pool_of(3);
    struct seen seen[20];
    char *pids[20];
    size_t distinct = 0;
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < QN_LEN(seen); i++)
            start(p, &seen[i], PID, QN_STR_NULL, QN_STR_NULL, INT64_MAX);
        for (size_t i = 0; i < QN_LEN(seen); i++) {
            assert_true(qn_loop_until(base, &seen[i].done));
            assert_int_equal(seen[i].err, QN_OK);
            const char *pid = qn_rows_cell(&seen[i].rows, 0, 0).p;
            size_t j = 0;
            while (j < distinct && strcmp(pids[j], pid) != 0)
                j++;
            if (j == distinct)
                pids[distinct++] = (char *)pid;
        }
        assert_in_range(distinct, 1, 3);
    }
    qn_pgpool_free(p);
}

static void parameters_are_copied(void **state)
{
    (void)state;
    struct qn_pgpool *p = pool_of(1);
    struct seen s, t;
    char text[] = "before";
    start(p, &s, ECHO, (struct qn_str){text, 6}, QN_STR_NULL, INT64_MAX);
    start(p, &t, ECHO, (struct qn_str){text, 6}, QN_STR_NULL, INT64_MAX);
    memcpy(text, "after!", 6);
    assert_true(qn_loop_until(base, &s.done));
    assert_cell(&s.rows, 0, 0, "before");
    assert_true(qn_loop_until(base, &t.done));
    assert_cell(&t.rows, 0, 0, "before");
    qn_pgpool_free(p);
}

static void the_queue_is_bounded(void **state)
{
    (void)state;
    struct qn_pgpool *p = pool_of(1);
    struct seen *seen = qn_arena_array(arena, 1000, sizeof(*seen)), over = {0};
    for (size_t i = 0; i < 1000; i++)
        start(p, &seen[i], ADD, QN_STR("1"), QN_STR("2"), INT64_MAX);
    const struct qn_str params[] = {QN_STR("1"), QN_STR("2")};
    const struct qn_query q = {.stmt = &stmts[ADD], .params = params};
    assert_int_equal(qn_pgpool_query(p, &q, INT64_MAX, on_seen, &over, NULL), QN_EUNAVAIL);
    for (size_t i = 0; i < 1000; i++) {
        assert_true(qn_loop_until(base, &seen[i].done));
        assert_int_equal(seen[i].err, QN_OK);
    }
    assert_int_equal(over.times, 0);
    assert_adds(p);
    qn_pgpool_free(p);
}

static void a_refused_statement_is_the_callers_error_alone(void **state)
{
    (void)state;
    struct qn_pgpool *p = pool_of(1);
    struct seen s;
    assert_int_equal(ask(p, &s, PID, QN_STR_NULL, QN_STR_NULL), QN_OK);
    const char *pid = qn_rows_cell(&s.rows, 0, 0).p;
    assert_int_equal(ask(p, &s, DIVIDE, QN_STR("0"), QN_STR_NULL), QN_EPEER);
    assert_string_equal(s.sqlstate, "22012");
    assert_int_equal(ask(p, &s, ECHO, ((struct qn_str){"a\0b", 3}), QN_STR_NULL), QN_EPEER);
    assert_string_equal(s.sqlstate, "22021");
    assert_int_equal(ask(p, &s, ECHO, QN_STR("\xff"), QN_STR_NULL), QN_EPEER);
    assert_string_equal(s.sqlstate, "22021");
    assert_int_equal(ask(p, &s, PID, QN_STR_NULL, QN_STR_NULL), QN_OK);
    assert_cell(&s.rows, 0, 0, pid);
    assert_int_equal(qn_pgpool_breaker(p)->opened, 0);
    qn_pgpool_free(p);
}

static void a_backend_terminated_while_idle_costs_nobody_an_error(void **state)
{
    (void)state;
    struct qn_pgpool *p = pool_of(2);
    for (int i = 0; i < 6; i++) {
        assert_adds(p);
        on_admin("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                 "WHERE pid <> pg_backend_pid() AND application_name = 'quoin'");
        if (i % 2 == 1)
            turn(10); /* the close is seen while idle; else by the statement */
    }
    assert_adds(p);
    assert_int_equal(qn_pgpool_breaker(p)->opened, 0);
    qn_pgpool_free(p);
}

static void a_changed_result_type_is_asked_for_again(void **state)
{
    (void)state;
    struct qn_pgpool *p = pool_of(1);
    struct seen s;
    assert_int_equal(ask(p, &s, ALL, QN_STR_NULL, QN_STR_NULL), QN_OK);
    assert_int_equal(s.rows.ncols, 1);
    on_admin("ALTER TABLE things ADD COLUMN more text DEFAULT 'm'");
    assert_int_equal(ask(p, &s, ALL, QN_STR_NULL, QN_STR_NULL), QN_OK);
    assert_int_equal(s.rows.ncols, 2);
    assert_cell(&s.rows, 0, 1, "m");
    on_admin("ALTER TABLE things ALTER COLUMN id TYPE text");
    assert_int_equal(ask(p, &s, ALL, QN_STR_NULL, QN_STR_NULL), QN_OK);
    assert_int_equal(s.rows.ncols, 2);
    assert_int_equal(qn_pgpool_breaker(p)->opened, 0);
    qn_pgpool_free(p);
}

static void lost_prepared_statements_are_prepared_again(void **state)
{
    (void)state;
    struct qn_pgpool *p = pool_of(1);
    struct seen s;
    assert_adds(p);
    assert_int_equal(ask(p, &s, FORGET, QN_STR_NULL, QN_STR_NULL), QN_OK);
    assert_adds(p);
    assert_adds(p);
    assert_int_equal(qn_pgpool_breaker(p)->opened, 0);
    qn_pgpool_free(p);
}

static void a_slow_statement_times_out_and_the_server_is_not_blamed(void **state)
{
    (void)state;
    config.statement_ms = 400;
    struct qn_pgpool *p = pool_of(1);
    struct seen s;
    assert_adds(p);
    int64_t from = qn_clock_mono_ms();
    assert_int_equal(ask(p, &s, SLEEP, QN_STR("10"), QN_STR_NULL), QN_ETIMEOUT);
    assert_in_range(s.at - from, 350, 400 + SLACK_MS);
    assert_adds(p);
    assert_int_equal(qn_pgpool_breaker(p)->opened, 0);
    /* a caller in a hurry */
    from = qn_clock_mono_ms();
    start(p, &s, SLEEP, QN_STR("10"), QN_STR_NULL, in_ms(30));
    assert_true(qn_loop_until(base, &s.done));
    assert_int_equal(s.err, QN_ETIMEOUT);
    assert_in_range(s.at - from, 30, 30 + SLACK_MS);
    assert_int_equal(qn_pgpool_breaker(p)->opened, 0);
    /* one that is late already, one that waits behind another for too long */
    start(p, &s, ADD, QN_STR("1"), QN_STR("1"), in_ms(-1));
    assert_true(qn_loop_until(base, &s.done));
    assert_int_equal(s.err, QN_ETIMEOUT);
    assert_adds(p);
    struct seen slow, behind;
    start(p, &slow, SLEEP, QN_STR("0.15"), QN_STR_NULL, INT64_MAX);
    start(p, &behind, ADD, QN_STR("1"), QN_STR("1"), in_ms(40));
    assert_true(qn_loop_until(base, &behind.done));
    assert_int_equal(behind.err, QN_ETIMEOUT);
    assert_true(qn_loop_until(base, &slow.done));
    assert_int_equal(slow.err, QN_OK);
    assert_int_equal(qn_pgpool_breaker(p)->opened, 0);
    qn_pgpool_free(p);
}

static void a_stalled_server_opens_the_breaker_and_comes_back(void **state)
{
    (void)state;
    config.statement_ms = 200;
    config.connect_ms = 200;
    struct qn_pgpool *p = pool_of(2);
    struct seen s, first, second, queued;
    assert_adds(p);
    start(p, &first, SLEEP, QN_STR("0.15"), QN_STR_NULL, INT64_MAX);
    turn(10);
    servers_signal(server, SIGSTOP); /* in the middle of it */
    int64_t from = qn_clock_mono_ms();
    start(p, &second, ADD, QN_STR("1"), QN_STR("1"), INT64_MAX);
    start(p, &queued, ADD, QN_STR("1"), QN_STR("1"), INT64_MAX);
    assert_true(qn_loop_until(base, &first.done));
    assert_int_equal(first.err, QN_ETIMEOUT);
    assert_true(qn_loop_until(base, &second.done));
    assert_true(qn_loop_until(base, &queued.done));
    assert_int_not_equal(second.err, QN_OK);
    assert_int_not_equal(queued.err, QN_OK);
    assert_true(qn_clock_mono_ms() - from <= 400 + SLACK_MS);
    assert_true(qn_pgpool_breaker(p)->open);
    from = qn_clock_mono_ms();
    for (int i = 0; i < 1000; i++)
        assert_int_equal(ask(p, &s, ADD, QN_STR("1"), QN_STR("1")), QN_EUNAVAIL);
    assert_true(qn_clock_mono_ms() - from < SLACK_MS);
    servers_signal(server, SIGCONT);
    assert_true(wait_until_back(p) <= 1000 + SLACK_MS);
    assert_adds(p);
    assert_int_equal(first.times + second.times + queued.times, 3);
    qn_pgpool_free(p);
}

static void a_backend_killed_in_mid_statement(void **state)
{
    (void)state;
    struct qn_pgpool *p = pool_of(1);
    struct seen s;
    assert_int_equal(ask(p, &s, PID, QN_STR_NULL, QN_STR_NULL), QN_OK);
    pid_t pid = (pid_t)strtol(qn_rows_cell(&s.rows, 0, 0).p, NULL, 10);
    start(p, &s, SLEEP, QN_STR("1"), QN_STR_NULL, INT64_MAX);
    turn(20);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_true(qn_loop_until(base, &s.done));
    /* asked again on a new connection, which the server refuses while it recovers, or serves */
    assert_true(s.err == QN_EUNAVAIL || s.err == QN_OK);
    assert_int_equal(s.times, 1);
    wait_until_back(p);
    qn_pgpool_free(p);
    /* the crash took the other connections along */
    qn_pgconn_close(admin);
    assert_int_equal(qn_pgconn_run_connect(admin, NULL, 0, in_ms(LONG_MS)), QN_OK);
}

static void a_killed_server_fails_the_calls_at_once_and_is_found_again(void **state)
{
    (void)state;
    qn_pgconn_close(conn); /* or its own end would be counted below */
    struct qn_pgpool *p = pool_of(2);
    struct seen s, seen[5];
    assert_adds(p);
    for (size_t i = 0; i < QN_LEN(seen); i++)
        start(p, &seen[i], SLEEP, QN_STR("1"), QN_STR_NULL, INT64_MAX);
    turn(50);
    int64_t from = qn_clock_mono_ms();
    servers_kill(server);
    for (size_t i = 0; i < QN_LEN(seen); i++) {
        assert_true(qn_loop_until(base, &seen[i].done));
        assert_int_equal(seen[i].err, QN_EUNAVAIL);
        assert_int_equal(seen[i].times, 1);
    }
    assert_true(qn_clock_mono_ms() - from < 2 * SLACK_MS);
    assert_true(qn_pgpool_breaker(p)->open);
    size_t before = open_fds();
    for (int i = 0; i < 3; i++) {
        turn(1001);
        assert_int_equal(ask(p, &s, ADD, QN_STR("1"), QN_STR("1")), QN_EUNAVAIL);
    }
    assert_int_equal(open_fds(), before);
    servers_start(server);
    assert_true(wait_until_back(p) <= 1000 + 2 * SLACK_MS);
    qn_pgpool_free(p);
    qn_pgconn_close(admin);
    assert_int_equal(qn_pgconn_run_connect(admin, NULL, 0, in_ms(LONG_MS)), QN_OK);
}

static void one_connection_too_many_leaves_the_others_at_work(void **state)
{
    (void)state;
    on_admin("CREATE ROLE few LOGIN CONNECTION LIMIT 2; GRANT ALL ON things TO few");
    config.dsn = (char *)qn_arena_printf(arena, "host=%s user=few dbname=postgres", servers_dir(server)).p;
    struct qn_pgpool *p = pool_of(5);
    for (int round = 0; round < 3; round++) {
        struct seen seen[20];
        for (size_t i = 0; i < QN_LEN(seen); i++)
            start(p, &seen[i], SLEEP, QN_STR("0.005"), QN_STR_NULL, INT64_MAX);
        for (size_t i = 0; i < QN_LEN(seen); i++) {
            assert_true(qn_loop_until(base, &seen[i].done));
            assert_int_equal(seen[i].err, QN_OK);
        }
    }
    qn_pgpool_free(p);
    on_admin("DROP OWNED BY few; DROP ROLE few");
}

static void a_connection_left_in_a_transaction_is_not_used_again(void **state)
{
    (void)state;
    static const struct qn_stmt odd[] = {{"begin", "BEGIN", 0}, {"pid", "SELECT pg_backend_pid()", 0}};
    config.prepare = false;
    struct qn_pgpool *p = qn_pgpool_new(base, &config, odd, QN_LEN(odd), 1);
    char pids[2][16];
    for (int i = 0; i < 2; i++) {
        struct seen s = {0};
        assert_int_equal(qn_pgpool_query(p, &(struct qn_query){.stmt = &odd[1]}, INT64_MAX, on_seen, &s, NULL), QN_OK);
        assert_true(qn_loop_until(base, &s.done));
        (void)snprintf(pids[i], sizeof(pids[i]), "%s", qn_rows_cell(&s.rows, 0, 0).p);
        s = (struct seen){0};
        assert_int_equal(qn_pgpool_query(p, &(struct qn_query){.stmt = &odd[0]}, INT64_MAX, on_seen, &s, NULL), QN_OK);
        assert_true(qn_loop_until(base, &s.done));
        assert_int_equal(s.err, QN_OK);
    }
    assert_string_not_equal(pids[0], pids[1]);
    qn_pgpool_free(p);
}

static void an_abandoned_call_is_never_reported(void **state)
{
    (void)state;
    struct qn_pgpool *p = pool_of(1);
    struct seen given_up = {0};
    const struct qn_str params[] = {QN_STR("0.02")};
    const struct qn_query q = {.stmt = &stmts[SLEEP], .params = params};
    struct qn_pgcall *running, *queued;
    assert_adds(p);
    assert_int_equal(qn_pgpool_query(p, &q, INT64_MAX, on_seen, &given_up, &running), QN_OK);
    assert_int_equal(qn_pgpool_query(p, &q, INT64_MAX, on_seen, &given_up, &queued), QN_OK);
    turn(5);
    qn_pgpool_abandon(queued);
    qn_pgpool_abandon(running);
    assert_adds(p);
    assert_int_equal(given_up.times, 0);
    qn_pgpool_free(p);
}

static void free_cancels_what_is_out(void **state)
{
    (void)state;
    struct qn_pgpool *p = pool_of(1);
    struct seen connecting, queued;
    start(p, &connecting, ADD, QN_STR("1"), QN_STR("1"), INT64_MAX);
    qn_pgpool_free(p);
    assert_int_equal(connecting.times, 1);
    assert_int_equal(connecting.err, QN_ECANCEL);
    p = pool_of(1);
    assert_adds(p);
    struct seen running;
    start(p, &running, SLEEP, QN_STR("1"), QN_STR_NULL, INT64_MAX);
    start(p, &queued, SLEEP, QN_STR("1"), QN_STR_NULL, INT64_MAX);
    turn(5);
    qn_pgpool_free(p);
    assert_int_equal(running.times + queued.times, 2);
    assert_int_equal(running.err, QN_ECANCEL);
    assert_int_equal(queued.err, QN_ECANCEL);
}

static void test_what_says_that_the_server_is_gone(void **state)
{
    (void)state;
    static const char *const gone[] = {"08006", "53300", "57P01", "57P03", "58030", "25006"};
    static const char *const refused[] = {"23505", "42P01", "57014", "22021", "40P01", "25P02", ""};
    for (size_t i = 0; i < QN_LEN(gone); i++)
        assert_true(qn_pg_gone(QN_EPEER, gone[i]));
    for (size_t i = 0; i < QN_LEN(refused); i++)
        assert_false(qn_pg_gone(QN_EPEER, refused[i]));
    assert_true(qn_pg_gone(QN_EUNAVAIL, ""));
    assert_true(qn_pg_gone(QN_ETIMEOUT, ""));
    assert_false(qn_pg_gone(QN_ECORRUPT, ""));
}

int main(void)
{
    static bool unprepared;
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    /* the same without prepared statements, as behind a transaction-pooling PgBouncer */
#define UNPREPARED(name) {#name " (prepare = false)", name, setup, teardown, &unprepared}
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_says_that_the_server_is_gone),
        TEST(a_new_connection_is_set_up),
        TEST(values_pass_exactly),
        TEST(text_that_postgres_has_not_is_refused_and_the_connection_stays),
        TEST(an_error_of_the_statement_keeps_the_connection),
        TEST(counts_of_writing_statements),
        TEST(a_transaction_of_a_daemon),
        TEST(a_script_of_several_statements_stops_at_the_first_error),
        TEST(large_parameters_and_results),
        TEST(arrays_hold_any_text),
        TEST(copy_counts_its_rows),
        TEST(copy_with_a_bad_row_writes_nothing_and_keeps_the_connection),
        TEST(copy_where_none_belongs_closes_the_connection),
        TEST(several_connections_copy_at_once),
        TEST(copy_into_a_stalled_server_ends_at_its_deadline),
        TEST(refused_a_thousand_times_leaks_nothing),
        TEST(connection_strings_that_can_not_be_used),
        TEST(a_statement_that_can_not_be_prepared_fails_the_connect),
        TEST(a_server_that_stalls_while_connecting),
        TEST(close_cancels_the_step_under_way),
        TEST(a_callback_may_free_the_connection),
        TEST(a_statement_slower_than_the_server_allows),
        TEST(the_pool_opens_connections_as_needed_and_keeps_them),
        TEST(parameters_are_copied),
        TEST(the_queue_is_bounded),
        TEST(a_refused_statement_is_the_callers_error_alone),
        TEST(a_backend_terminated_while_idle_costs_nobody_an_error),
        TEST(a_changed_result_type_is_asked_for_again),
        TEST(lost_prepared_statements_are_prepared_again),
        TEST(a_slow_statement_times_out_and_the_server_is_not_blamed),
        TEST(a_stalled_server_opens_the_breaker_and_comes_back),
        TEST(a_backend_killed_in_mid_statement),
        TEST(a_killed_server_fails_the_calls_at_once_and_is_found_again),
        TEST(one_connection_too_many_leaves_the_others_at_work),
        TEST(a_connection_left_in_a_transaction_is_not_used_again),
        TEST(an_abandoned_call_is_never_reported),
        TEST(free_cancels_what_is_out),
        UNPREPARED(the_queue_is_bounded),
        UNPREPARED(a_refused_statement_is_the_callers_error_alone),
        UNPREPARED(a_backend_terminated_while_idle_costs_nobody_an_error),
        UNPREPARED(a_changed_result_type_is_asked_for_again),
        UNPREPARED(lost_prepared_statements_are_prepared_again),
    };
    (void)signal(SIGPIPE, SIG_IGN);
    server = servers_postgres(NULL);
    (void)alarm(300);
    base = event_base_new();
    admin_base = event_base_new();
    arena = qn_arena_new(65536);
    admin = qn_pgconn_new(admin_base, servers_address(server), "admin", 0);
    if (qn_pgconn_run_connect(admin, NULL, 0, in_ms(LONG_MS)) != QN_OK ||
        qn_pgconn_run_script(admin, "CREATE FUNCTION forget() RETURNS int LANGUAGE plpgsql AS $$ BEGIN "
                                    "EXECUTE 'DEALLOCATE ALL'; RETURN 1; END $$", in_ms(LONG_MS)) != QN_OK) {
        (void)fprintf(stderr, "test_pg: %s\n", qn_pgconn_message(admin));
        return 1;
    }
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    qn_pgconn_free(admin);
    qn_arena_free(arena);
    event_base_free(base);
    event_base_free(admin_base);
    return failures;
}
