/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Calls wait in one queue for the first connection that is idle; a connection is opened while there are calls that none
 * of those under way will serve. The server's own statement_timeout is a little shorter than our deadline: so a slow
 * statement is told by its error (57014) from a server that answers nothing at all, and only the latter opens the
 * breaker.
 */
#include "base/base.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "link/loop.h"
#include "link/pgpool.h"

enum { MAX_QUEUE = 1000, RECONNECT_MS = 1000 };

struct qn_pgcall {
    struct qn_pgpool *pool;
    struct slot *slot;                   /* that runs it, or connects for it; NULL: it is queued */
    TAILQ_ENTRY(qn_pgcall) link;
    struct qn_due due;                   /* while queued */
    int64_t limit;
    int64_t started;
    bool retried;
    const struct qn_stmt *stmt;
    struct qn_str *params;               /* copies, in the same block as the call */
    qn_pgconn_cb cb;                     /* NULL: abandoned */
    void *arg;
};

struct slot {
    struct qn_pgpool *pool;
    struct qn_pgconn *conn;
    struct qn_pgcall *call;
    bool kept;                           /* the connection was not opened for the call at hand */
};

struct qn_pgpool {
    const struct qn_config_postgres *config;
    const struct qn_stmt *stmts;
    size_t n_stmts;
    int server_ms;
    struct qn_breaker breaker;
    TAILQ_HEAD(, qn_pgcall) queue;
    size_t queued;
    struct qn_dues dues;
    int64_t reconnect_at;                /* after a refused connection, while others live */
    bool closing;
    size_t n_slots;
    struct slot slots[];
};

/* ---- calls ---- */

static struct qn_pgcall *call_new(struct qn_pgpool *p, const struct qn_query *q, qn_pgconn_cb cb, void *arg)
{
    size_t n = (size_t)q->stmt->nparams, bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += q->params[i].n + 1;
    struct qn_pgcall *call = qn_xmalloc(sizeof(*call) + n * sizeof(struct qn_str) + bytes);
    *call = (struct qn_pgcall){.pool = p, .stmt = q->stmt, .cb = cb, .arg = arg};
    call->params = (struct qn_str *)(call + 1);
    char *at = (char *)(call->params + n);
    for (size_t i = 0; i < n; i++) {
        struct qn_str param = q->params[i];
        call->params[i] = QN_STR_NULL;
        if (!param.p)
            continue;
        memcpy(at, param.p, param.n);
        at[param.n] = '\0';
        call->params[i] = (struct qn_str){at, param.n};
        at += param.n + 1;
    }
    return call;
}

static void enqueue(struct qn_pgcall *call)
{
    struct qn_pgpool *p = call->pool;
    TAILQ_INSERT_TAIL(&p->queue, call, link);
    p->queued++;
    qn_dues_set(&p->dues, &call->due, call->limit);
}

static void dequeue(struct qn_pgcall *call)
{
    struct qn_pgpool *p = call->pool;
    TAILQ_REMOVE(&p->queue, call, link);
    p->queued--;
    qn_dues_unset(&p->dues, &call->due);
}

/* Ends a call that is in no queue and in no slot any more. */
static void call_end(struct qn_pgcall *call, const struct qn_pgresult *result)
{
    if (call->cb)
        call->cb(call->arg, result);
    free(call);
}

static void fail_queue(struct qn_pgpool *p, enum qn_err err, const char *message)
{
    /* what the callbacks add is refused or answered later: the breaker is open, or the pool is closing */
    for (size_t n = p->queued; n > 0 && p->queued > 0; n--) {
        struct qn_pgcall *call = TAILQ_FIRST(&p->queue);
        dequeue(call);
        call_end(call, &(struct qn_pgresult){.err = err, .message = message});
    }
}

static void on_due(void *arg, struct qn_due *due)
{
    (void)arg;
    struct qn_pgcall *call = (void *)((char *)due - offsetof(struct qn_pgcall, due));
    dequeue(call);
    call_end(call, &(struct qn_pgresult){.err = QN_ETIMEOUT, .message = "no connection became free in time"});
}

/* ---- connections ---- */

static bool idle(const struct slot *slot)
{
    return !slot->call && qn_pgconn_state(slot->conn) == QN_PG_IDLE;
}

static void run(struct slot *slot, struct qn_pgcall *call);
static void on_connected(void *arg, const struct qn_pgresult *result);

static void start_connect(struct slot *slot)
{
    struct qn_pgpool *p = slot->pool;
    int64_t deadline = qn_clock_mono_ms() + p->config->connect_ms;
    if (slot->call && slot->call->limit < deadline)
        deadline = slot->call->limit;
    slot->kept = false;
    qn_pgconn_connect(slot->conn, p->stmts, p->config->prepare ? p->n_stmts : 0, deadline, on_connected, slot);
}

/* Whether there is a connection left to hope for. */
static bool any_open(const struct qn_pgpool *p)
{
    for (size_t i = 0; i < p->n_slots; i++) {
        if (qn_pgconn_state(p->slots[i].conn) != QN_PG_CLOSED)
            return true;
    }
    return false;
}

/* Runs what can be run, and opens connections for what is left. */
static void dispatch(struct qn_pgpool *p)
{
    if (p->closing)
        return;
    size_t opening = 0;
    for (size_t i = 0; i < p->n_slots && p->queued > 0; i++) {
        if (idle(&p->slots[i])) {
            struct qn_pgcall *call = TAILQ_FIRST(&p->queue);
            dequeue(call);
            run(&p->slots[i], call);
        } else if (!p->slots[i].call && qn_pgconn_state(p->slots[i].conn) == QN_PG_CONNECTING) {
            opening++;
        }
    }
    bool may_open = qn_clock_mono_ms() >= p->reconnect_at || !any_open(p);
    for (size_t i = 0; i < p->n_slots && may_open && opening < p->queued; i++) {
        if (!p->slots[i].call && qn_pgconn_state(p->slots[i].conn) == QN_PG_CLOSED) {
            start_connect(&p->slots[i]);
            opening++;
        }
    }
}

static void failed(struct qn_pgpool *p, const char *why)
{
    if (qn_breaker_failed(&p->breaker, qn_clock_mono_ms()))
        qn_log_warn("postgres-lost", QN_F_Z("reason", why));
    fail_queue(p, QN_EUNAVAIL, why);
}

static void worked(struct qn_pgpool *p)
{
    if (qn_breaker_worked(&p->breaker))
        qn_log_info("postgres-back");
}

static void on_connected(void *arg, const struct qn_pgresult *result)
{
    struct slot *slot = arg;
    struct qn_pgpool *p = slot->pool;
    struct qn_pgcall *call = slot->call;
    slot->call = NULL;
    if (result->err == QN_OK) {
        worked(p);
        if (call)
            run(slot, call);
        dispatch(p);
        slot->kept = idle(slot);
        return;
    }
    if (result->err != QN_ECANCEL && any_open(p)) {
        /* one connection too many, perhaps: go on with those that there are */
        p->reconnect_at = qn_clock_mono_ms() + RECONNECT_MS;
        qn_log_warn("postgres-connect-failed", QN_F_Z("reason", result->message));
    } else if (result->err != QN_ECANCEL) {
        failed(p, result->message);
    }
    if (call) {
        enum qn_err err = result->err == QN_EPEER ? QN_EUNAVAIL : result->err;
        call_end(call, &(struct qn_pgresult){.err = err, .message = result->message});
    }
}

static bool state_is(const struct qn_pgresult *result, const char *start)
{
    return result->err == QN_EPEER && strncmp(result->sqlstate, start, strlen(start)) == 0;
}

/* Whether it may go better on a new connection: the prepared statement is gone (26000) or its plan outdated (0A000), or
 * the connection was closed meanwhile. Statements of a pool only read, so that it does not matter how far it came. */
static bool worth_retrying(const struct slot *slot, const struct qn_pgresult *result)
{
    return state_is(result, "26000") || state_is(result, "0A000") || state_is(result, "57P") ||
           state_is(result, "08") || state_is(result, "25006") || (result->err == QN_EUNAVAIL && slot->kept);
}

static void on_result(void *arg, const struct qn_pgresult *result)
{
    struct slot *slot = arg;
    struct qn_pgpool *p = slot->pool;
    struct qn_pgcall *call = slot->call;
    if (worth_retrying(slot, result) && !call->retried && call->cb) {
        qn_log_info("postgres-retry", QN_F_Z("sqlstate", result->sqlstate), QN_F_Z("reason", result->message));
        call->retried = true;
        qn_pgconn_close(slot->conn);
        start_connect(slot);
        return;
    }
    slot->call = NULL;
    slot->kept = true;
    struct qn_pgresult out = *result;
    if (result->err != QN_ETIMEOUT && qn_pg_gone(result->err, result->sqlstate)) {
        out.err = QN_EUNAVAIL;
        failed(p, result->message);
    } else if (result->err == QN_ETIMEOUT) {
        /* one that had not its whole time says nothing of the server */
        if (qn_clock_mono_ms() - call->started >= p->server_ms)
            failed(p, result->message);
    } else if (result->err != QN_ECANCEL) {
        worked(p);
        if (state_is(result, "57014"))
            out.err = QN_ETIMEOUT;
    }
    if (qn_pgconn_in_transaction(slot->conn)) {
        qn_log_error("postgres-in-transaction", QN_F_Z("statement", call->stmt->name));
        qn_pgconn_close(slot->conn);
    }
    call_end(call, &out);
    dispatch(p);
}

static void run(struct slot *slot, struct qn_pgcall *call)
{
    struct qn_pgpool *p = slot->pool;
    slot->call = call;
    call->slot = slot;
    call->started = qn_clock_mono_ms();
    qn_pgconn_query(slot->conn, &(struct qn_query){.stmt = call->stmt, .params = call->params}, p->config->prepare,
                    call->limit, on_result, slot);
}

/* ---- the interface ---- */

struct qn_pgpool *qn_pgpool_new(struct event_base *base, const struct qn_config_postgres *config,
                                const struct qn_stmt *stmts, size_t n_stmts, int connections)
{
    size_t n = connections < 1 ? 1 : (size_t)connections;
    struct qn_pgpool *p = qn_xcalloc(1, sizeof(*p) + n * sizeof(p->slots[0]));
    p->config = config;
    p->stmts = stmts;
    p->n_stmts = n_stmts;
    p->server_ms = config->statement_ms - config->statement_ms / 10;
    p->n_slots = n;
    TAILQ_INIT(&p->queue);
    qn_dues_init(&p->dues, base, on_due, p);
    for (size_t i = 0; i < n; i++) {
        p->slots[i].pool = p;
        p->slots[i].conn = qn_pgconn_new(base, config->dsn, "quoin", p->server_ms);
    }
    return p;
}

void qn_pgpool_free(struct qn_pgpool *p)
{
    if (!p)
        return;
    p->closing = true;
    for (size_t i = 0; i < p->n_slots; i++)
        qn_pgconn_free(p->slots[i].conn);
    fail_queue(p, QN_ECANCEL, "given up");
    qn_dues_clear(&p->dues);
    free(p);
}

enum qn_err qn_pgpool_query(struct qn_pgpool *p, const struct qn_query *q, int64_t deadline, qn_pgconn_cb cb,
                            void *arg, struct qn_pgcall **out)
{
    int64_t now = qn_clock_mono_ms();
    if (p->closing || p->queued >= MAX_QUEUE)
        return QN_EUNAVAIL;
    if (deadline > now && !qn_breaker_allows(&p->breaker, now))
        return QN_EUNAVAIL;
    bool has_idle = false;
    for (size_t i = 0; i < p->n_slots && !has_idle; i++)
        has_idle = idle(&p->slots[i]);
    struct qn_pgcall *call = call_new(p, q, cb, arg);
    if (out)
        *out = call;
    call->limit = now + p->config->statement_ms + (has_idle ? 0 : p->config->connect_ms);
    if (deadline < call->limit)
        call->limit = deadline;
    enqueue(call);
    if (deadline > now)
        dispatch(p);
    return QN_OK;
}

void qn_pgpool_abandon(struct qn_pgcall *call)
{
    call->cb = NULL;
    if (call->slot)
        return; /* its result is read and dropped */
    dequeue(call);
    free(call);
}

const struct qn_breaker *qn_pgpool_breaker(const struct qn_pgpool *p)
{
    return &p->breaker;
}
