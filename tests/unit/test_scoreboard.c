/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * fcgi/scoreboard with real processes, and fcgi/status on what it holds.
 */
#include "base/base.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/json.h"
#include "fcgi/scoreboard.h"
#include "fcgi/status.h"

enum { WRITERS = 3, READ_MS = 300, PATIENCE_MS = 30000, KILLS = 300 };

/* A slot whose every field says the same number. */
static void fill(struct qn_slot *slot, uint64_t k)
{
    *slot = (struct qn_slot){.pid = (int64_t)k, .generation = k, .stage = k % QN_STAGES, .since = (int64_t)k,
                             .request_start = (int64_t)k, .redis_open = k, .postgres_open = k};
#define SET(name) slot->n.name = k;
    QN_COUNTERS(SET)
#undef SET
    memset(slot->what, 'a' + (int)(k % 26), sizeof slot->what - 1);
}

static void assert_whole(const struct qn_slot *slot)
{
    struct qn_slot want;
    fill(&want, (uint64_t)slot->pid);
    assert_memory_equal(slot, &want, sizeof want);
}

/* again: how often each contents is written. Many times, a kill is likely to meet a write and not what is between two;
 * once, a reader is likely to find a moment between two. */
static pid_t start_writer(struct qn_board *board, size_t slot, int again)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct qn_slot s;
        for (uint64_t k = 1; getppid() != 1; k++) {
            fill(&s, k);
            for (int i = 0; i < again; i++)
                qn_board_put(board, slot, &s);
        }
        _exit(0);
    }
    return pid;
}

static void kill_writer(pid_t pid)
{
    int status;
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
}

static void readers_never_see_two_writes_mixed(void **state)
{
    (void)state;
    struct qn_board *board = qn_board_new(WRITERS);
    pid_t pids[WRITERS];
    uint64_t seen = 0;
    int64_t moved[WRITERS] = {0};
    assert_non_null(board);
    for (size_t i = 0; i < WRITERS; i++)
        pids[i] = start_writer(board, i, 1);
    /* for a while, and until enough was seen of each: writers share the processors with us and with others */
    int64_t start = qn_clock_mono_ms(), now = start;
    bool enough = false;
    for (; now - start < READ_MS || (!enough && now - start < PATIENCE_MS); now = qn_clock_mono_ms()) {
        enough = seen > 100;
        for (size_t i = 0; i < WRITERS; i++)
            enough = enough && moved[i] > 1;
        for (size_t i = 0; i < WRITERS; i++) {
            struct qn_slot slot;
            if (qn_board_get(board, i, &slot) != QN_OK || slot.pid == 0)
                continue;
            assert_whole(&slot);
            assert_true(slot.pid >= moved[i]); /* and never an older one again */
            moved[i] = slot.pid;
            seen++;
        }
    }
    for (size_t i = 0; i < WRITERS; i++)
        kill_writer(pids[i]);
    assert_true(seen > 100);
    for (size_t i = 0; i < WRITERS; i++)
        assert_true(moved[i] > 1);
    qn_board_free(board);
}

/* A worker is killed within a write sooner or later: its slot reads "busy", nobody hangs, what it had counted is still
 * there, and the slot is good again for the next one. */
static void a_writer_killed_within_a_write_leaves_a_readable_board(void **state)
{
    (void)state;
    struct qn_board *board = qn_board_new(2);
    int torn = 0;
    struct qn_slot other;
    assert_non_null(board);
    fill(&other, 7);
    qn_board_put(board, 1, &other);
    for (int i = 0; i < KILLS && torn == 0; i++) {
        struct qn_slot slot;
        struct qn_slot last;
        pid_t pid = start_writer(board, 0, 100 * 1000);
        while (qn_board_get(board, 0, &slot) != QN_OK || slot.pid < 2)
            continue;
        kill_writer(pid);
        if (qn_board_get(board, 0, &slot) != QN_OK)
            torn++;
        else
            assert_whole(&slot);
        assert_int_equal(qn_board_get(board, 1, &other), QN_OK);
        assert_whole(&other);

        qn_board_reap(board, 0, &last);
        assert_true(last.n.requests >= 2);
        /* each number is the one before the write or the one of it */
        assert_in_range(last.n.bytes + 1 - last.n.requests, 0, 1);
        assert_int_equal(qn_board_get(board, 0, &slot), QN_OK);
        assert_int_equal(slot.pid, 0);
        assert_int_equal(slot.stage, QN_STAGE_NONE);
        fill(&slot, 5);
        qn_board_put(board, 0, &slot);
        assert_int_equal(qn_board_get(board, 0, &slot), QN_OK);
        assert_whole(&slot);
        qn_board_reap(board, 0, &last);
    }
    assert_int_equal(torn, 1);
    qn_board_free(board);
}

static void the_query_string_and_raw_bytes_stay_out(void **state)
{
    (void)state;
    struct qn_slot slot = {0};
    qn_slot_what(&slot, "GET", QN_STR("/v1/price?asset=native&api_key=sk_live_TEST123"));
    assert_string_equal(slot.what, "GET /v1/price");
    qn_slot_what(&slot, "GET", QN_STR("/\r\n\"\\\x1b\xff"));
    assert_string_equal(slot.what, "GET /\\x0d\\x0a\\x22\\x5c\\x1b\\xff");
    char path[300];
    memset(path, '\n', sizeof path);
    qn_slot_what(&slot, "GET", (struct qn_str){path, sizeof path});
    assert_true(strlen(slot.what) < sizeof slot.what);
    assert_int_equal((strlen(slot.what) - 4) % 4, 0); /* no half escape at the end */
    qn_slot_what(&slot, path, QN_STR("/"));
    assert_true(strlen(slot.what) < sizeof slot.what);
}

static int64_t number(struct json_object *o, const char *object, const char *name)
{
    struct json_object *v;
    assert_true(!object || json_object_object_get_ex(o, object, &o));
    assert_true(json_object_object_get_ex(o, name, &v));
    assert_true(json_object_is_type(v, json_type_int));
    return json_object_get_int64(v);
}

static void status_adds_up_slots_and_retired(void **state)
{
    (void)state;
    struct qn_board *board = qn_board_new(3);
    struct qn_counters retired = {.requests = 100, .errors_5xx = 1};
    struct qn_respawn respawn = {.planned = 4, .crashed = 2};
    struct qn_slot a = {.pid = getpid(), .generation = 9, .stage = QN_STAGE_IDLE, .since = 900,
                        .n = {.requests = 20, .errors_4xx = 3}};
    struct qn_slot b = {.pid = 1, .generation = 8, .stage = QN_STAGE_STORE, .since = 950, .request_start = 940,
                        .redis_open = 1, .n = {.requests = 7, .cache_miss = 7}};
    qn_slot_what(&b, "GET", QN_STR("/v1/\"x\""));
    qn_board_put(board, 0, &a);
    qn_board_put(board, 1, &b);
    struct qn_status s = {.pool = "prices", .state = "running", .pid = 4711, .now = 1000, .starts = 9, .terminated = 1,
                          .board = board, .retired = &retired, .respawn = &respawn};
    struct qn_buf out = {0};
    qn_status_put(&s, true, &out);

    struct qn_json_reader *reader = qn_json_reader_new();
    struct json_object *o;
    const char *why;
    assert_int_equal(qn_json_read(reader, qn_buf_view(&out), &o, &why), QN_OK);
    assert_int_equal(number(o, "total", "requests"), 127);
    assert_int_equal(number(o, "total", "errors_4xx"), 3);
    assert_int_equal(number(o, "total", "errors_5xx"), 1);
    assert_int_equal(number(o, "total", "cache_miss"), 7);
    assert_int_equal(number(o, "retired", "requests"), 100);
    assert_int_equal(number(o, "workers", "configured"), 3);
    assert_int_equal(number(o, "workers", "idle"), 1);
    assert_int_equal(number(o, "workers", "active"), 1);
    assert_int_equal(number(o, "workers", "none"), 1);
    assert_int_equal(number(o, "breakers", "redis_open"), 1);
    assert_int_equal(number(o, "breakers", "postgres_open"), 0);
    assert_int_equal(number(o, NULL, "crashes"), 2);
    assert_int_equal(number(o, NULL, "planned_ends"), 4);
    assert_int_equal(number(o, NULL, "terminated"), 1);
    struct json_object *slots;
    struct json_object *text;
    assert_true(json_object_object_get_ex(o, "slots", &slots));
    assert_int_equal(json_object_array_length(slots), 3);
    struct json_object *second = json_object_array_get_idx(slots, 1);
    assert_int_equal(number(second, NULL, "request_ms"), 60);
    assert_int_equal(number(second, NULL, "stage_ms"), 50);
    assert_true(number(json_object_array_get_idx(slots, 0), NULL, "rss_kb") > 0);
    assert_true(json_object_object_get_ex(second, "request", &text));
    assert_string_equal(json_object_get_string(text), "GET /v1/\\x22x\\x22");
    json_object_put(o);
    qn_json_reader_free(reader);

    qn_buf_clear(&out);
    qn_status_put(&s, false, &out);
    assert_non_null(strstr(out.p, "workers: 3 configured, 0 starting, 1 idle, 1 active"));
    assert_non_null(strstr(out.p, "listen queue: n/a"));
    qn_buf_free(&out);
    qn_board_free(board);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_never_see_two_writes_mixed),
        cmocka_unit_test(a_writer_killed_within_a_write_leaves_a_readable_board),
        cmocka_unit_test(the_query_string_and_raw_bytes_stay_out),
        cmocka_unit_test(status_adds_up_slots_and_retired),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
