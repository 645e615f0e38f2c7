/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "fcgi/worker.h"

#include <errno.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "fcgi/engine_libfcgi.h"

enum {
    JITTER_PERCENT = 10,
    FLUSH_MS = 100,          /* for write-backs that are still under way when the worker ends */
};

/* All of them end the worker. QUIT is not among them: see on_quit. */
static const int waited_for[] = {SIGTERM, SIGINT, SIGUSR1};
static const int ignored[] = {SIGPIPE, SIGHUP, SIGUSR2};

void qn_worker_block_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < QN_LEN(waited_for); i++)
        sigaddset(&set, waited_for[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

/* "Exit now, the request is lost": also out of a blocking read within libfcgi. */
static void on_quit(int sig)
{
    (void)sig;
    _exit(QN_EXIT_FAIL);
}

/* After qn_engine_libfcgi_init, which takes signals of its own. */
static void set_dispositions(void)
{
    struct sigaction sa = {.sa_handler = SIG_DFL};
    sigset_t open;
    sigemptyset(&sa.sa_mask);
    for (size_t i = 0; i < QN_LEN(waited_for); i++)
        sigaction(waited_for[i], &sa, NULL);
    sa.sa_handler = SIG_IGN;
    for (size_t i = 0; i < QN_LEN(ignored); i++)
        sigaction(ignored[i], &sa, NULL);
    sa.sa_handler = on_quit;
    sigaction(SIGQUIT, &sa, NULL);
    sigemptyset(&open);
    sigaddset(&open, SIGQUIT);
    sigaddset(&open, SIGALRM);
    sigaddset(&open, SIGCHLD); /* the master blocks it */
    sigprocmask(SIG_UNBLOCK, &open, NULL);
}

void qn_worker_stage(struct qn_worker *w, enum qn_stage stage)
{
    struct qn_slot *s = &w->slot;
    const struct qn_breaker *redis = qn_redis_breaker(w->links.redis);
    const struct qn_breaker *postgres = qn_pgpool_breaker(w->links.postgres);
    s->stage = stage;
    s->since = qn_clock_mono_ms();
    s->redis_open = redis->open;
    s->postgres_open = postgres->open;
    s->n.redis_opened = redis->opened;
    s->n.postgres_opened = postgres->opened;
    s->n.log_dropped = qn_log_dropped();
    qn_board_put(w->pool->board, w->slot_index, s);
}

bool qn_worker_turn(struct qn_worker *w)
{
    if (event_base_loop(w->base, EVLOOP_ONCE) == 0)
        return true;
    qn_log_error("loop-failed");
    return false;
}

static void on_signal(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct qn_worker *w = arg;
    struct signalfd_siginfo info;
    while (read(fd, &info, sizeof info) == (ssize_t)sizeof info)
        w->stopping = true;
}

/* The signals as a descriptor on the loop: no window between looking and waiting. */
static struct event *watch_signals(struct qn_worker *w)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < QN_LEN(waited_for); i++)
        sigaddset(&set, waited_for[i]);
    int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (fd < 0)
        return NULL;
    struct event *ev = event_new(w->base, fd, EV_READ | EV_PERSIST, on_signal, w);
    if (ev && event_add(ev, NULL) != 0) {
        event_free(ev);
        ev = NULL;
    }
    return ev;
}

/* So that workers that were started together are not replaced together. */
static int64_t jittered(int max_requests)
{
    uint32_t random = 0;
    int64_t span = (int64_t)max_requests * JITTER_PERCENT / 100;
    if (max_requests <= 0)
        return 0;
    if (span == 0 || getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return max_requests;
    return max_requests - span + (int64_t)(random % (uint64_t)(2 * span + 1));
}

/* Write-backs of the last request may not have left yet. */
static void flush_links(struct qn_worker *w)
{
    struct timeval tv = {.tv_usec = FLUSH_MS * 1000};
    int64_t deadline = qn_clock_mono_ms() + FLUSH_MS;
    if (qn_redis_pending(w->links.redis) == 0 || event_base_loopexit(w->base, &tv) != 0)
        return;
    while (qn_redis_pending(w->links.redis) > 0 && qn_clock_mono_ms() < deadline)
        if (event_base_loop(w->base, EVLOOP_ONCE) != 0)
            return;
}

int qn_worker_run(const struct qn_pool *pool, size_t slot, uint64_t generation, int ready_fd)
{
    struct qn_worker w = {
        .pool = pool,
        .slot_index = slot,
        .app = {.config = pool->config, .routes = pool->routes, .n_routes = pool->n_routes},
        .max_requests = jittered(pool->max_requests),
        .slot = {.pid = getpid(), .generation = generation, .stage = QN_STAGE_STARTING, .since = qn_clock_mono_ms()},
    };
    struct qn_engine_libfcgi *engine = NULL;
    struct event *signals = NULL;
    int code = QN_EXIT_INTERNAL;

    qn_board_put(pool->board, slot, &w.slot);
    if (qn_engine_libfcgi_init() != QN_OK) {
        qn_log_error("worker-start-failed", QN_F_Z("error", "libfcgi"));
        goto out;
    }
    set_dispositions();
    w.base = event_base_new();
    if (!w.base || !(signals = watch_signals(&w))) {
        qn_log_error("worker-start-failed", QN_F_Z("error", "event loop"), QN_F_ERRNO(errno));
        goto out;
    }
    w.links.redis = qn_redis_new(w.base, &pool->config->redis);
    /* one request at a time needs one connection */
    w.links.postgres = qn_pgpool_new(w.base, &pool->config->postgres, pool->stmts, pool->n_stmts, 1);
    engine = qn_engine_libfcgi_new(&w);
    if (!engine)
        goto out;

    qn_worker_stage(&w, QN_STAGE_IDLE);
    if (ready_fd >= 0) {
        uint64_t one = 1;
        if (write(ready_fd, &one, sizeof one) != (ssize_t)sizeof one)
            qn_log_warn("ready-not-told", QN_F_ERRNO(errno));
        close(ready_fd);
    }
    qn_engine_libfcgi_run(engine);
    qn_worker_stage(&w, QN_STAGE_EXITING);
    flush_links(&w);
    code = QN_EXIT_OK;
out:
    qn_engine_libfcgi_free(engine);
    if (w.links.postgres)
        qn_pgpool_free(w.links.postgres);
    if (w.links.redis)
        qn_redis_free(w.links.redis);
    if (signals) {
        int fd = event_get_fd(signals);
        event_free(signals);
        close(fd);
    }
    if (w.base)
        event_base_free(w.base);
    return code;
}
