/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pty.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"

static int real_stderr;

/* stderr becomes fd, and the log looks at it anew. */
static void log_to(int fd)
{
    assert_int_equal(dup2(fd, STDERR_FILENO), STDERR_FILENO);
    qn_log_init("test", QN_LOG_INFO);
}

static int restore(void **state)
{
    (void)state;
    dup2(real_stderr, STDERR_FILENO);
    qn_log_init("test", QN_LOG_INFO);
    return 0;
}

static struct qn_str read_line(int fd, char *out, size_t size)
{
    ssize_t n = read(fd, out, size - 1);
    assert_true(n > 0);
    out[n] = '\0';
    assert_int_equal(out[n - 1], '\n');
    return (struct qn_str){out, (size_t)n - 1};
}

static struct json_object *parse(struct qn_str line)
{
    struct qn_json_reader *r = qn_json_reader_new();
    struct json_object *o = NULL;
    const char *why = "";
    enum qn_err err = qn_json_read(r, line, &o, &why);
    if (err != QN_OK)
        fail_msg("%s: %.*s", why, QN_FMT(line));
    qn_json_reader_free(r);
    return o;
}

static void expect_member(struct json_object *o, const char *name, struct qn_str want)
{
    struct qn_str got;
    assert_int_equal(qn_json_get_str(o, name, &got), QN_OK);
    assert_true(qn_str_eq(got, want));
}

static void an_event_is_one_json_line(void **state)
{
    (void)state;
    int p[2];
    char line[8192];
    assert_int_equal(pipe(p), 0);
    log_to(p[1]);
    errno = EDOM;
    qn_log_warn("redis-lost", QN_F_STR("peer", QN_STR("a\"b\\c\nd\x1b[31m\x7f\xc2\x9b\xff/e")), QN_F_INT("age_ms", -5),
                QN_F_ERRNO(ECONNREFUSED), QN_F_Z("none", NULL));
    assert_int_equal(errno, EDOM);
    struct qn_str got = read_line(p[0], line, sizeof line);
    for (size_t i = 0; i < got.n; i++) /* nothing in it commands a terminal, nothing ends the line */
        assert_true((unsigned char)got.p[i] >= 0x20 && got.p[i] != 0x7f);
    assert_null(strstr(line, "\xc2\x9b"));
    struct json_object *o = parse(got);
    expect_member(o, "level", QN_STR("warn"));
    expect_member(o, "program", QN_STR("test"));
    expect_member(o, "event", QN_STR("redis-lost"));
    expect_member(o, "peer", QN_STR("a\"b\\c\nd\x1b[31m\x7f\xc2\x9b\xef\xbf\xbd/e"));
    expect_member(o, "error", qn_str_of(strerror(ECONNREFUSED)));
    expect_member(o, "none", QN_STR(""));
    int64_t v;
    assert_int_equal(qn_json_get_int(o, "age_ms", &v), QN_OK);
    assert_int_equal(v, -5);
    assert_int_equal(qn_json_get_int(o, "pid", &v), QN_OK);
    assert_int_equal(v, getpid());
    json_object_put(o);
    close(p[0]);
    close(p[1]);
}

static void the_least_level_is_kept(void **state)
{
    (void)state;
    int p[2];
    char line[512];
    assert_int_equal(pipe(p), 0);
    log_to(p[1]);
    qn_log_debug("quiet");
    qn_log_info("loud");
    read_line(p[0], line, sizeof line);
    assert_non_null(strstr(line, "\"loud\""));
    assert_null(strstr(line, "quiet"));
    enum qn_log_level level;
    assert_int_equal(qn_log_level_parse(QN_STR("error"), &level), QN_OK);
    assert_int_equal(level, QN_LOG_ERROR);
    assert_int_equal(qn_log_level_parse(QN_STR("ERROR"), &level), QN_EINVAL);
    close(p[0]);
    close(p[1]);
}

/* Longer than a pipe takes in one piece: cut, marked, still JSON, and other lines can't mix in. */
static void a_long_value_is_cut_to_a_whole_line(void **state)
{
    (void)state;
    int p[2];
    char line[8192], value[6000];
    assert_int_equal(pipe(p), 0);
    log_to(p[1]);
    static const char *const fills[] = {"a", "\"", "\x01", "\xf0\x9f\x98\x80", "\xff"};
    for (size_t f = 0; f < QN_LEN(fills); f++) {
        for (size_t i = 0; i < sizeof value; i++)
            value[i] = fills[f][i % strlen(fills[f])];
        qn_log_info("long", QN_F_STR("value", ((struct qn_str){value, sizeof value})), QN_F_INT("after", 1),
                    QN_F_Z("name", "x"));
        struct qn_str got = read_line(p[0], line, sizeof line);
        assert_in_range(got.n, PIPE_BUF - 60, PIPE_BUF - 1);
        struct json_object *o = parse(got);
        assert_non_null(json_object_object_get(o, "truncated"));
        json_object_put(o);
    }
    close(p[0]);
    close(p[1]);
}

/* Every length around the limit: no field may be half written. */
static void lines_near_the_limit_are_json_too(void **state)
{
    (void)state;
    int p[2];
    char line[8192], value[PIPE_BUF];
    memset(value, 'x', sizeof value);
    assert_int_equal(pipe(p), 0);
    log_to(p[1]);
    for (size_t n = PIPE_BUF - 260; n < PIPE_BUF; n++) {
        qn_log_info("e", QN_F_STR("v", ((struct qn_str){value, n})), QN_F_INT("i", -123456789012345678),
                    QN_F_Z("z", "\n\n"));
        json_object_put(parse(read_line(p[0], line, sizeof line)));
    }
    close(p[0]);
    close(p[1]);
}

static void fill(int fd)
{
    char bytes[4096];
    memset(bytes, 'x', sizeof bytes);
    int flags = fcntl(fd, F_GETFL);
    assert_int_equal(fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
    for (size_t n = sizeof bytes; n >= 1; n /= 2)
        while (write(fd, bytes, n) > 0)
            ;
    assert_int_equal(fcntl(fd, F_SETFL, flags), 0);
}

/* A log reader that stopped once held every worker in write(2). */
static void a_full_pipe_drops_lines_and_never_blocks(void **state)
{
    (void)state;
    int p[2];
    assert_int_equal(pipe(p), 0);
    log_to(p[1]);
    fill(p[1]);
    alarm(10); /* a blocked write ends the test by SIGALRM */
    uint64_t before = qn_log_dropped();
    for (int i = 0; i < 100; i++)
        qn_log_error("lost");
    assert_int_equal(qn_log_dropped() - before, 100);
    assert_int_equal(fcntl(p[1], F_GETFL) & O_NONBLOCK, 0); /* the description is others' too */
    char sink[65536];
    while (read(p[0], sink, sizeof sink) == (ssize_t)sizeof sink && sink[sizeof sink - 1] == 'x')
        break; /* room for one line at least */
    before = qn_log_dropped();
    qn_log_error("back");
    assert_int_equal(qn_log_dropped(), before);
    alarm(0);
    close(p[0]);
    close(p[1]);
}

static void a_full_socket_drops_lines_and_never_blocks(void **state)
{
    (void)state;
    int s[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
    log_to(s[1]);
    fill(s[1]);
    alarm(10);
    uint64_t before = qn_log_dropped();
    for (int i = 0; i < 100; i++)
        qn_log_error("lost");
    assert_int_equal(qn_log_dropped() - before, 100);
    alarm(0);
    close(s[0]);
    close(s[1]);
}

/* A terminal says that it is writable when there is room for some of a line, and moves bytes on when it likes: so some
 * lines may still go, but of half a megabyte that nobody reads most can't. */
static void a_stopped_terminal_drops_lines_and_never_blocks(void **state)
{
    (void)state;
    int master, slave;
    assert_int_equal(openpty(&master, &slave, NULL, NULL, NULL), 0);
    log_to(slave);
    fill(slave);
    alarm(10);
    uint64_t before = qn_log_dropped();
    for (int i = 0; i < 10000; i++)
        qn_log_error("lost");
    assert_in_range(qn_log_dropped() - before, 5000, 10000);
    assert_int_equal(fcntl(slave, F_GETFL) & O_NONBLOCK, 0);
    alarm(0);
    close(slave);
    close(master);
}

static void a_closed_reader_is_a_dropped_line(void **state)
{
    (void)state;
    int p[2];
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe(p), 0);
    log_to(p[1]);
    close(p[0]);
    uint64_t before = qn_log_dropped();
    qn_log_error("nobody");
    assert_int_equal(qn_log_dropped() - before, 1);
    close(p[1]);
}

static void a_file_gets_every_line(void **state)
{
    (void)state;
    char name[] = "/tmp/qn-test-log-XXXXXX", line[4096];
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    unlink(name);
    log_to(fd);
    qn_log_info("one");
    qn_log_info("two", QN_F_INT("n", 2));
    ssize_t n = pread(fd, line, sizeof line - 1, 0);
    assert_true(n > 0);
    line[n] = '\0';
    assert_non_null(strstr(line, "\"event\":\"one\"}\n"));
    assert_non_null(strstr(line, "\"event\":\"two\",\"n\":2}\n"));
    close(fd);
}

static void a_terminal_gets_key_value(void **state)
{
    (void)state;
    int master, slave;
    char line[4096];
    assert_int_equal(openpty(&master, &slave, NULL, NULL, NULL), 0);
    log_to(slave);
    qn_log_warn("redis-lost", QN_F_Z("peer", "10.0.0.1:6379"), QN_F_Z("why", "no \x1b[2J route"), QN_F_INT("n", 3),
                QN_F_Z("empty", ""));
    ssize_t n = read(master, line, sizeof line - 1);
    assert_true(n > 0);
    line[n] = '\0';
    char want[256];
    snprintf(want, sizeof want,
             "Z warn test[%ld] redis-lost peer=10.0.0.1:6379 why=\"no \\u001b[2J route\" n=3 empty=\"\"",
             (long)getpid());
    assert_non_null(strstr(line, want));
    close(slave);
    close(master);
}

static void the_test_clock_moves_only_when_allowed(void **state)
{
    (void)state;
    int64_t before = qn_clock_wall_ms();
    setenv("QUOIN_TEST_CLOCK_OFFSET", "-3600", 1);
    assert_int_equal(qn_clock_init(false), QN_OK);
    assert_true(qn_clock_wall_ms() >= before);
    static const char *const bad[] = {"", "x", "1.5", "12345678901", "--1", "+5"};
    for (size_t i = 0; i < QN_LEN(bad); i++) {
        setenv("QUOIN_TEST_CLOCK_OFFSET", bad[i], 1);
        assert_int_equal(qn_clock_init(true), QN_EINVAL);
    }
    setenv("QUOIN_TEST_CLOCK_OFFSET", "-3600", 1);
    assert_int_equal(qn_clock_init(true), QN_OK);
    assert_true(qn_clock_wall_ms() < before - 3500000);
    int64_t mono = qn_clock_mono_us();
    assert_true(qn_clock_mono_us() >= mono && qn_clock_mono_ms() >= mono / 1000);
    setenv("QUOIN_TEST_CLOCK_OFFSET", "0", 1);
    assert_int_equal(qn_clock_init(true), QN_OK);
    unsetenv("QUOIN_TEST_CLOCK_OFFSET");
}

int main(void)
{
    real_stderr = dup(STDERR_FILENO);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(an_event_is_one_json_line, restore),
        cmocka_unit_test_teardown(the_least_level_is_kept, restore),
        cmocka_unit_test_teardown(a_long_value_is_cut_to_a_whole_line, restore),
        cmocka_unit_test_teardown(lines_near_the_limit_are_json_too, restore),
        cmocka_unit_test_teardown(a_full_pipe_drops_lines_and_never_blocks, restore),
        cmocka_unit_test_teardown(a_full_socket_drops_lines_and_never_blocks, restore),
        cmocka_unit_test_teardown(a_stopped_terminal_drops_lines_and_never_blocks, restore),
        cmocka_unit_test_teardown(a_closed_reader_is_a_dropped_line, restore),
        cmocka_unit_test_teardown(a_file_gets_every_line, restore),
        cmocka_unit_test_teardown(a_terminal_gets_key_value, restore),
        cmocka_unit_test(the_test_clock_moves_only_when_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
