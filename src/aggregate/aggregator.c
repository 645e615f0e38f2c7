/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <event2/event.h>
#include <event2/util.h>
#include <signal.h>
#include <stdio.h>

#include "aggregate/aggregator.h"
#include "aggregate/tick.h"
#include "aggregate/warm.h"
#include "base/clock.h"
#include "base/log.h"
#include "link/loop.h"
#include "market/statements.h"

enum {
    CONNECT_MS = 5000,
    BACKOFF_MIN_MS = 200,
    BACKOFF_MAX_MS = 5000,
    REDIS_RETRY_MS = 1000,     /* as its breaker */
    REDIS_CHECK_MS = 2000,
    STOP_MS = 1000,            /* a statement may take as long once we are told to end */
    ONCE_POLL_MS = 200,
};

struct aggregator {
    const struct qn_config *config;
    struct event_base *base;
    struct event *on_term, *on_int, *wake, *cut;
    volatile bool stop;
    struct qn_redis *redis;
    struct qn_store store;
    struct qn_tick tick;
    struct qn_warm *warm;
    bool locked;
    bool late;                 /* there may be late minutes to make */
    int64_t next_tick;         /* monotonic ms, as all below */
    int64_t redis_retry;
    int backoff;
    char trouble[64];          /* why Postgres can't be used, as logged; "": it can */
    bool standby;              /* logged */
};

/* ---- waiting and ending */

static void on_signal(evutil_socket_t number, short what, void *arg)
{
    (void)what;
    struct aggregator *a = arg;
    if (!a->stop)
        qn_log_info("stopping", QN_F_INT("signal", number));
    a->stop = true;
    const struct timeval grace = {.tv_sec = STOP_MS / 1000, .tv_usec = STOP_MS % 1000 * 1000};
    evtimer_add(a->cut, &grace);
}

/* The statement under way takes too long to wait for: the server undoes its transaction. */
static void on_cut(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct aggregator *a = arg;
    qn_store_close(&a->store);
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg; /* turning the loop was all */
}

/* A file's import has ended: its minutes are made at once. */
static bool import_ended(struct aggregator *a)
{
    if (!qn_pgconn_notified(a->store.conn))
        return false;
    a->next_tick = qn_clock_mono_ms();
    return true;
}

/* Until the moment, or until we are told to end or an import has ended. */
static void wait_until(struct aggregator *a, int64_t moment)
{
    for (int64_t left; !a->stop && !import_ended(a) && (left = moment - qn_clock_mono_ms()) > 0;) {
        struct timeval tv = {.tv_sec = (time_t)(left / 1000), .tv_usec = (suseconds_t)(left % 1000 * 1000)};
        evtimer_add(a->wake, &tv);
        event_base_loop(a->base, EVLOOP_ONCE);
    }
    evtimer_del(a->wake);
}

/* ms, give or take a fifth: copies that lost the same server don't come back as one. */
static int64_t jittered(int64_t ms)
{
    uint32_t r;
    evutil_secure_rng_get_bytes(&r, sizeof r);
    return ms * 4 / 5 + (int64_t)(r % (uint32_t)(ms * 2 / 5 + 1));
}

/* ---- Postgres: connected, and holding the lock */

/* Something failed: gives the connection up (and with it lock and transaction), says so once for each reason, waits. */
static void lost(struct aggregator *a, enum qn_err err, const char *doing)
{
    char why[sizeof a->trouble];
    const char *state = qn_pgconn_sqlstate(a->store.conn);
    snprintf(why, sizeof why, "%s %s %s", doing, qn_err_name(err), err == QN_EPEER ? state : "");
    if (!a->stop && strcmp(why, a->trouble) != 0) {
        qn_log_warn("postgres-trouble", QN_F_Z("doing", doing), QN_F_Z("result", qn_err_name(err)),
                    QN_F_Z("sqlstate", state), QN_F_Z("message", qn_pgconn_message(a->store.conn)));
        memcpy(a->trouble, why, sizeof why);
    }
    qn_store_close(&a->store);
    a->locked = false;
    a->standby = false;
    wait_until(a, qn_clock_mono_ms() + jittered(a->backoff));
    a->backoff = a->backoff * 2 < BACKOFF_MAX_MS ? a->backoff * 2 : BACKOFF_MAX_MS;
}

static enum qn_err connect_store(struct aggregator *a)
{
    struct qn_rows rows;
    enum qn_err err = qn_store_connect(&a->store, &qn_market_stmts[QN_STMT_PRICE], 1, CONNECT_MS);
    qn_tick_reset(&a->tick);
    return err == QN_OK ? qn_store_run(&a->store, "LISTEN quoin_import", 0, NULL, &rows) : err;
}

/* QN_MISS: another copy holds it. */
static enum qn_err try_lock(struct aggregator *a)
{
    struct qn_rows rows;
    enum qn_err err = qn_store_run(&a->store, "SELECT pg_try_advisory_lock(hashtext('quoin.aggregator'))", 0, NULL,
                                   &rows);
    if (err != QN_OK)
        return err;
    if (rows.nrows != 1)
        return QN_ECORRUPT;
    return qn_store_bool(&rows, 0, 0) ? QN_OK : QN_MISS;
}

/* ---- working */

static enum qn_err run_tick(struct aggregator *a)
{
    bool moved;
    int64_t started = qn_clock_mono_ms();
    a->tick.n_touched = 0;
    enum qn_err err = qn_tick_run(&a->tick, qn_clock_wall_ms(), &moved);
    if (err != QN_OK)
        return err;
    if (a->trouble[0]) {
        qn_log_info("postgres-back");
        a->trouble[0] = '\0';
    }
    a->backoff = BACKOFF_MIN_MS;
    a->late = true;
    if (moved)
        qn_warm_all(a->warm);
    else
        qn_warm_pairs(a->warm, a->tick.touched, a->tick.n_touched);
    if (!qn_warm_due(a->warm))
        qn_warm_check(a->warm);
    int64_t now = qn_clock_mono_ms(), period = a->config->aggregator.period_ms;
    a->next_tick = started + period;
    if (a->next_tick < now + period / 5) /* a long tick leaves time for hot values and late minutes */
        a->next_tick = now + period / 5;
    return QN_OK;
}

static enum qn_err run_late(struct aggregator *a)
{
    a->tick.n_touched = 0;
    enum qn_err err = qn_tick_late(&a->tick);
    if (err == QN_OK)
        qn_warm_pairs(a->warm, a->tick.touched, a->tick.n_touched);
    a->late = err == QN_OK;
    return err;
}

/* Between ticks: a chunk of hot values and a batch of late minutes, in turn; or waits. */
static enum qn_err between(struct aggregator *a)
{
    int64_t now = qn_clock_mono_ms(), rewrite = qn_warm_since(a->warm) + a->config->aggregator.rewrite_ms;
    if (now >= rewrite)
        qn_warm_all(a->warm);
    bool worked = false;
    if (now >= a->redis_retry) {
        enum qn_err err = qn_warm_step(a->warm);
        if (err == QN_EUNAVAIL)
            a->redis_retry = qn_clock_mono_ms() + REDIS_RETRY_MS;
        else if (err != QN_OK && err != QN_MISS)
            return err;
        worked = err == QN_OK;
    }
    if (a->late && !a->stop) {
        enum qn_err err = run_late(a);
        if (err != QN_OK && err != QN_MISS)
            return err;
        worked = worked || err == QN_OK;
    }
    if (worked)
        return QN_OK;
    int64_t until = a->next_tick < rewrite || now >= rewrite ? a->next_tick : rewrite;
    if (qn_warm_due(a->warm) && a->redis_retry < until)
        until = a->redis_retry;
    wait_until(a, until);
    return QN_OK;
}

static void take_lock(struct aggregator *a)
{
    enum qn_err err = try_lock(a);
    if (err == QN_OK) {
        qn_log_info("active");
        a->locked = true;
        a->next_tick = qn_clock_mono_ms();
        qn_warm_all(a->warm);
    } else if (err == QN_MISS) {
        if (!a->standby)
            qn_log_info("standby");
        a->standby = true;
        a->backoff = BACKOFF_MIN_MS;
        wait_until(a, qn_clock_mono_ms() + jittered(a->config->aggregator.period_ms));
    } else {
        lost(a, err, "lock");
    }
}

static int run_daemon(struct aggregator *a)
{
    while (!a->stop) {
        enum qn_err err = QN_OK;
        if (!qn_store_connected(&a->store)) {
            a->locked = false;
            err = connect_store(a);
            if (err != QN_OK)
                lost(a, err, "connect");
        } else if (!a->locked) {
            take_lock(a);
        } else if (import_ended(a) || qn_clock_mono_ms() >= a->next_tick) {
            err = run_tick(a);
            if (err != QN_OK)
                lost(a, err, "tick");
        } else {
            err = between(a);
            if (err != QN_OK)
                lost(a, err, "write");
        }
    }
    return QN_EXIT_OK;
}

/* ---- once */

/* All that is dirty, and its hot values. */
static enum qn_err work_once(struct aggregator *a)
{
    enum qn_err err = run_tick(a);
    while (err == QN_OK && a->late && !a->stop) {
        err = run_late(a);
        err = err == QN_MISS ? QN_OK : err;
    }
    qn_warm_all(a->warm);
    while (err == QN_OK && !a->stop)
        err = qn_warm_step(a->warm);
    if (err == QN_EUNAVAIL) /* Redis: logged; readers do without */
        err = QN_MISS;
    return err == QN_MISS ? QN_OK : err;
}

/* Whether the running copy is through with what was dirty when we started: QN_OK, or QN_MISS. */
static enum qn_err done_by_other(struct aggregator *a, struct qn_str newest, struct qn_str closed)
{
    static const char SQL[] =
        "SELECT NOT EXISTS (SELECT FROM dirty WHERE id <= $1::int8)"
        " AND (SELECT closed_until >= to_timestamp($2::int8) FROM progress WHERE source_id = 0)";
    struct qn_str params[2] = {newest, closed};
    struct qn_rows rows;
    enum qn_err err = qn_store_run(&a->store, SQL, 2, params, &rows);
    if (err != QN_OK)
        return err;
    return rows.nrows == 1 && qn_store_bool(&rows, 0, 0) ? QN_OK : QN_MISS;
}

static enum qn_err once(struct aggregator *a, struct qn_arena *arena)
{
    enum qn_err err = connect_store(a);
    if (err != QN_OK)
        return err;
    int64_t closed = qn_horizon_floor(qn_clock_wall_ms() - a->config->prices.grace_ms);
    struct qn_rows rows;
    err = qn_store_run(&a->store, "SELECT coalesce(max(id), 0) FROM dirty", 0, NULL, &rows);
    if (err != QN_OK)
        return err;
    struct qn_str newest = qn_arena_copy(arena, qn_rows_cell(&rows, 0, 0));
    struct qn_str horizon = qn_arena_printf(arena, "%lld", (long long)(closed / 1000));
    while (!a->stop) {
        err = try_lock(a);
        if (err == QN_OK)
            return work_once(a);
        if (err == QN_MISS)
            err = done_by_other(a, newest, horizon);
        if (err != QN_MISS)
            return err;
        if (qn_clock_mono_ms() >= a->store.until)
            return QN_ETIMEOUT;
        wait_until(a, qn_clock_mono_ms() + ONCE_POLL_MS);
    }
    return QN_ECANCEL;
}

static int run_once(struct aggregator *a, int timeout_s)
{
    a->store.until = qn_clock_mono_ms() + timeout_s * INT64_C(1000);
    struct qn_arena *arena = qn_arena_new(256);
    enum qn_err err = once(a, arena);
    qn_arena_free(arena);
    if (err == QN_OK && !a->stop)
        return QN_EXIT_OK;
    bool late = qn_clock_mono_ms() >= a->store.until;
    qn_log_error("not-done", QN_F_Z("result", late ? "timeout" : qn_err_name(err)),
                 QN_F_Z("sqlstate", qn_pgconn_sqlstate(a->store.conn)),
                 QN_F_Z("message", qn_pgconn_message(a->store.conn)));
    return late || err == QN_ECORRUPT ? QN_EXIT_INTERNAL : QN_EXIT_TEMPFAIL;
}

/* ---- start and end */

/* A Redis that would not do is refused; one that is down is no reason not to start. */
static bool redis_will_do(struct aggregator *a)
{
    struct qn_arena *arena = qn_arena_new(1024);
    struct qn_str reason = QN_STR_NULL;
    enum qn_err err = qn_redis_check_server(a->redis, qn_clock_mono_ms() + REDIS_CHECK_MS, arena, &reason);
    if (err == QN_EPEER)
        qn_log_error("redis-unfit", QN_F_STR("reason", reason));
    qn_arena_free(arena);
    return err != QN_EPEER;
}

static bool start(struct aggregator *a)
{
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    a->base = event_base_new();
    if (!a->base) {
        qn_log_error("no-event-loop");
        return false;
    }
    a->on_term = qn_loop_event(a->base, SIGTERM, EV_SIGNAL | EV_PERSIST, on_signal, a);
    a->on_int = qn_loop_event(a->base, SIGINT, EV_SIGNAL | EV_PERSIST, on_signal, a);
    a->wake = qn_loop_event(a->base, -1, 0, on_wake, a);
    a->cut = qn_loop_event(a->base, -1, 0, on_cut, a);
    evsignal_add(a->on_term, NULL);
    evsignal_add(a->on_int, NULL);
    a->redis = qn_redis_new(a->base, &a->config->redis);
    qn_store_init(&a->store, a->base, a->config->postgres.direct_dsn, "quoin-aggregator");
    a->warm = qn_warm_new(&a->store, a->redis, a->config);
    a->tick = (struct qn_tick){.store = &a->store, .config = a->config, .stop = &a->stop};
    a->backoff = BACKOFF_MIN_MS;
    return true;
}

static void end(struct aggregator *a)
{
    qn_warm_free(a->warm);
    qn_tick_clear(&a->tick);
    qn_store_clear(&a->store);
    qn_redis_free(a->redis);
    event_free(a->cut);
    event_free(a->wake);
    event_free(a->on_int);
    event_free(a->on_term);
    event_base_free(a->base);
}

int qn_aggregator_run(const struct qn_config *config, const struct qn_aggregator_options *options)
{
    struct aggregator a = {.config = config};
    if (!start(&a))
        return QN_EXIT_INTERNAL;
    int status = QN_EXIT_CONFIG;
    if (redis_will_do(&a))
        status = options->once ? run_once(&a, options->timeout_s) : run_daemon(&a);
    end(&a);
    return status;
}
