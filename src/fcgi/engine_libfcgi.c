/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Requests are served from run's own loop, never from within an event callback: libevent's loop can't be turned from
 * inside itself, and a request that waits has to turn it.
 */
#include "base/base.h"

#include "fcgi/engine_libfcgi.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "fcgi/fcgi_conn.h"
#include "fcgi/worker.h"
#include "link/loop.h"
#include "web/request.h"
#include "web/response.h"

enum {
    /* A web server connects and then writes: its first bytes are a moment behind. Waiting so long keeps a request with
     * the worker that is free for it; what is silent for longer is parked. */
    FIRST_BYTES_MS = 5,
    MAX_PARKED = 64,
    PAUSE_MS = 100,          /* after an accept that failed for want of descriptors or memory */
    ARENA_BLOCK = 64 * 1024,
    PROBLEM_LOG_MS = 1000,   /* such failures are logged at most this often */
};

/* An accepted connection that has not said anything yet. */
struct parked {
    TAILQ_ENTRY(parked) link;
    struct qn_engine_libfcgi *engine;
    struct event *event;
    int fd;
    bool readable;
    bool silent;             /* for receive_ms */
};

struct qn_engine_libfcgi {
    struct qn_worker *w;
    struct qn_fcgi *conn;
    struct qn_arena *arena;
    struct event *listener;
    struct event *pause;
    bool paused;
    bool ready;              /* the listener has a connection */
    bool done;               /* the request that is being driven */
    TAILQ_HEAD(, parked) parked;
    size_t n_parked;
    int reserve;             /* given up to accept one connection when there are no descriptors left */
    int64_t problem_at;      /* when accept's trouble was logged */
};

enum qn_err qn_engine_libfcgi_init(void)
{
    return qn_fcgi_init();
}

static void on_listener(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct qn_engine_libfcgi *e = arg;
    e->ready = true;
}

static void on_pause(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct qn_engine_libfcgi *e = arg;
    e->paused = false;
}

static int open_reserve(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

struct qn_engine_libfcgi *qn_engine_libfcgi_new(struct qn_worker *w)
{
    struct qn_engine_libfcgi *e = qn_xcalloc(1, sizeof *e);
    const struct qn_config_pool *pool = w->pool->pool;
    e->w = w;
    e->conn = qn_fcgi_new(pool->receive_ms, (size_t)pool->max_body);
    e->arena = qn_arena_new(ARENA_BLOCK);
    e->listener = qn_loop_event(w->base, w->pool->listener->fd, EV_READ, on_listener, e);
    e->pause = qn_loop_event(w->base, -1, 0, on_pause, e);
    TAILQ_INIT(&e->parked);
    e->reserve = open_reserve();
    if (e->reserve < 0) {
        qn_log_error("worker-start-failed", QN_F_ERRNO(errno));
        qn_engine_libfcgi_free(e);
        return NULL;
    }
    return e;
}

static void unpark(struct parked *p)
{
    TAILQ_REMOVE(&p->engine->parked, p, link);
    p->engine->n_parked--;
    event_free(p->event);
    free(p);
}

void qn_engine_libfcgi_free(struct qn_engine_libfcgi *e)
{
    if (!e)
        return;
    struct parked *p;
    while ((p = TAILQ_FIRST(&e->parked))) {
        close(p->fd);
        unpark(p);
    }
    if (e->reserve >= 0)
        close(e->reserve);
    event_free(e->pause);
    event_free(e->listener);
    qn_arena_free(e->arena);
    qn_fcgi_free(e->conn);
    free(e);
}

static void on_stage(void *arg, enum qn_stage stage)
{
    struct qn_engine_libfcgi *e = arg;
    qn_worker_stage(e->w, stage);
}

static void on_done(void *arg)
{
    struct qn_engine_libfcgi *e = arg;
    e->done = true;
}

static const char *method_name(const struct qn_fcgi_request *in)
{
    for (size_t i = 0; i < in->n_vars; i++)
        if (qn_str_eq(in->vars[i].name, QN_STR("REQUEST_METHOD")))
            return in->vars[i].value.p;
    return "-";
}

static void count(struct qn_counters *n, const struct qn_turn *turn, size_t bytes, bool late)
{
    int status = qn_response_status(turn->rq, &turn->rs);
    n->requests++;
    n->bytes += bytes;
    n->errors_4xx += status >= 400 && status < 500;
    n->errors_5xx += status >= 500;
    n->deadlines += late;
    n->cache_hit += turn->outcome == QN_OUTCOME_HIT;
    n->cache_stale += turn->outcome == QN_OUTCOME_STALE;
    n->cache_miss += turn->outcome == QN_OUTCOME_MISS;
}

/* Answers a request that was read whole. False: the loop can't turn any more. */
static bool answer(struct qn_engine_libfcgi *e, const struct qn_fcgi_request *in, int64_t deadline)
{
    struct qn_worker *w = e->w;
    struct qn_request rq;
    qn_request_make(e->arena, in->vars, in->n_vars, in->body, in->body_too_large, &rq);
    qn_slot_what(&w->slot, method_name(in), rq.path);

    struct qn_turn turn = {
        .app = &w->app,
        .rq = &rq,
        .arena = e->arena,
        .now_ms = qn_clock_wall_ms(),
        .mono_ms = qn_clock_mono_ms(),
    };
    struct qn_drive drive = {
        .turn = &turn,
        .links = &w->links,
        .deadline = deadline,
        .stage = on_stage,
        .done = on_done,
        .arg = e,
    };
    e->done = false;
    qn_drive_start(&drive);
    while (!e->done)
        if (!qn_worker_turn(w)) {
            qn_drive_abandon(&drive);
            return false;
        }

    struct qn_buf out = {.arena = e->arena};
    qn_response_put(w->pool->config, &rq, &turn.rs, &out);
    qn_worker_stage(w, QN_STAGE_WRITING);
    if (qn_fcgi_write(e->conn, qn_buf_view(&out)) != QN_OK)
        w->slot.n.aborted++;
    count(&w->slot.n, &turn, out.n, qn_clock_mono_ms() >= deadline);
    qn_worker_stage(w, QN_STAGE_FINISHING);
    qn_drive_after(&drive);
    return true;
}

/* Between two requests. */
static void rest(struct qn_engine_libfcgi *e)
{
    qn_worker_stage(e->w, e->w->stopping ? QN_STAGE_EXITING : QN_STAGE_IDLE);
}

/* Takes fd over: one request, then it is closed. */
static void serve(struct qn_engine_libfcgi *e, int fd)
{
    struct qn_worker *w = e->w;
    const struct qn_config_pool *pool = w->pool->pool;
    struct qn_fcgi_request in;
    int64_t start = qn_clock_mono_ms();
    w->slot.request_start = start;
    memset(w->slot.what, 0, sizeof w->slot.what);
    qn_worker_stage(w, QN_STAGE_READING);

    /* the response of a request that used its budget up must still leave */
    enum qn_err err = qn_fcgi_begin(e->conn, fd, pool->request_ms + pool->receive_ms, e->arena, &in);
    if (err == QN_OK && !answer(e, &in, start + pool->request_ms))
        w->stopping = true;
    w->slot.n.cut += err == QN_ETIMEOUT;
    w->slot.n.aborted += err == QN_ECANCEL;
    w->slot.n.malformed += err == QN_EPEER;
    qn_fcgi_end(e->conn);
    qn_arena_reset(e->arena);
    if (w->max_requests > 0 && w->slot.n.requests >= (uint64_t)w->max_requests)
        w->stopping = true;
    rest(e);
    if (e->reserve < 0)
        e->reserve = open_reserve();
}

static void on_parked(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    struct parked *p = arg;
    p->readable = what & EV_READ;
    p->silent = !p->readable;
}

static void park(struct qn_engine_libfcgi *e, int fd)
{
    int ms = e->w->pool->pool->receive_ms;
    struct timeval tv = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    struct parked *p = qn_xcalloc(1, sizeof *p);
    p->engine = e;
    p->fd = fd;
    p->event = qn_loop_event(e->w->base, fd, EV_READ, on_parked, p);
    if (event_add(p->event, &tv) != 0)
        p->silent = true;
    TAILQ_INSERT_TAIL(&e->parked, p, link);
    e->n_parked++;
}

/* Serves what woke up, closes what stayed silent. */
static void serve_parked(struct qn_engine_libfcgi *e)
{
    struct parked *p = TAILQ_FIRST(&e->parked);
    while (p) {
        struct parked *next = TAILQ_NEXT(p, link);
        if (p->readable || p->silent) {
            int fd = p->fd;
            bool readable = p->readable;
            unpark(p);
            if (readable) {
                serve(e, fd); /* turns the loop: others may have woken up, but none is added or removed */
            } else {
                close(fd);
                e->w->slot.n.cut++;
                rest(e);
            }
        }
        p = next;
    }
}

/* Out of descriptors or memory: others may be done with theirs soon. Not accepting for a moment beats spinning. */
static void pause_accept(struct qn_engine_libfcgi *e, int error)
{
    struct timeval tv = {.tv_usec = PAUSE_MS * 1000};
    int64_t now = qn_clock_mono_ms();
    e->w->slot.n.no_fd++;
    if (now - e->problem_at >= PROBLEM_LOG_MS) {
        qn_log_warn("accept-failed", QN_F_ERRNO(error));
        e->problem_at = now;
    }
    e->paused = evtimer_add(e->pause, &tv) == 0;
}

static bool out_of_room(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

/* One connection of the listener, or -1 (none there, a sibling was faster, or it is gone again). */
static int accept_one(struct qn_engine_libfcgi *e)
{
    const struct qn_listener *l = e->w->pool->listener;
    struct sockaddr_storage peer = {0};
    for (int attempt = 0;; attempt++) {
        socklen_t len = sizeof peer;
        int fd = accept4(l->fd, (struct sockaddr *)&peer, &len, SOCK_CLOEXEC);
        int error = errno;
        if (fd >= 0) {
            if (qn_listen_allows(l, (struct sockaddr *)&peer))
                return fd;
            close(fd);
            e->w->slot.n.refused++;
            rest(e);
            return -1;
        }
        if (!out_of_room(error))
            return -1;
        if (attempt == 0 && e->reserve >= 0) {
            close(e->reserve);
            e->reserve = -1;
            continue;
        }
        pause_accept(e, error);
        return -1;
    }
}

static void serve_listener(struct qn_engine_libfcgi *e)
{
    int fd = accept_one(e);
    if (fd < 0)
        return;
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    if (poll(&pfd, 1, FIRST_BYTES_MS) > 0)
        serve(e, fd);
    else
        park(e, fd);
}

/* The pool ends and its socket's file is gone: nobody connects any more, and who waits in the queue is still answered.
 * Within drain_ms, after which the master ends us. */
static void serve_queue(struct qn_engine_libfcgi *e)
{
    const struct qn_pool *pool = e->w->pool;
    int64_t until = qn_clock_mono_ms() + pool->pool->drain_ms;
    while (qn_listen_unlinked(pool->listener) && qn_clock_mono_ms() < until) {
        int fd = accept_one(e);
        if (fd < 0)
            return;
        serve(e, fd);
    }
}

void qn_engine_libfcgi_run(struct qn_engine_libfcgi *e)
{
    struct qn_worker *w = e->w;
    while (!w->stopping) {
        /* one-shot: while a request is being served the loop doesn't wake for others' connections */
        e->ready = false;
        if (!e->paused && e->n_parked < MAX_PARKED && event_add(e->listener, NULL) != 0)
            w->stopping = true;
        if (!qn_worker_turn(w))
            return;
        event_del(e->listener);
        serve_parked(e);
        if (e->ready && !w->stopping)
            serve_listener(e);
    }
    event_del(e->listener);
    serve_queue(e);
    /* siblings and successors must not wait for connections that nobody accepts from here */
    qn_listen_close(w->pool->listener);
    qn_worker_stage(w, QN_STAGE_EXITING);
    while (e->n_parked > 0) {
        if (!qn_worker_turn(w))
            return;
        serve_parked(e);
    }
}
