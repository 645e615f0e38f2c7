/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * A call is a list of commands. It waits (until the connection is made and has logged in), is sent, and is settled
 * once: by its last reply, by its deadline, or by the loss of the connection. Settled calls are reported from an event
 * of their own, so that no caller's code ever runs inside hiredis or inside qn_redis_send. A call settled before its
 * last reply stays on `sent`: hiredis matches replies by order, so each must be read by the call that it answers, never
 * by a later one.
 *
 * No command is ever sent twice: one that may have reached the server may have been carried out. Instead, a connection
 * that has nothing outstanding is looked at before it is used again (see stale()), which catches what a restart or an
 * idle timeout closed meanwhile.
 */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "link/loop.h"
#include "link/redis.h"

enum { MAX_SPARE_CALLS = 32, CALL_ARENA = 4096, POST_LOG_MS = 1000 };

/* One command of a call: its bytes in the call's wire. */
struct part {
    struct qn_redis_call *call;
    const struct qn_script *script;
    size_t argc;
    size_t start;
    size_t args;           /* of a script: where the number of keys starts */
    size_t end;
    bool whole;            /* EVAL was sent */
};

struct qn_redis_call {
    struct qn_redis *redis;
    enum { AT_NONE, AT_WAITING, AT_SENT } at;
    TAILQ_ENTRY(qn_redis_call) link;     /* of waiting or sent */
    TAILQ_ENTRY(qn_redis_call) done;
    bool reporting;                      /* is on done */
    bool settled;
    enum qn_err err;
    struct qn_due due;                   /* its deadline; when that passed after sending: the connection's */
    int64_t sent_at;
    qn_redis_cb cb;                      /* NULL: abandoned */
    void *arg;
    size_t n;
    size_t unanswered;
    struct part *parts;
    struct qn_val *vals;
    struct qn_buf wire;
    struct qn_arena *arena;              /* parts, vals, wire and what vals point to */
};
TAILQ_HEAD(calls, qn_redis_call);

/* A connection: lives as long as its hiredis context, which may be a moment longer than redis->conn points to it. */
struct conn {
    struct qn_redis *redis;
    redisAsyncContext *ac;
    struct event *readable;
    struct event *writable;
    bool up;               /* connected and logged in */
    bool writing;
    size_t hellos;         /* AUTH, SELECT not answered yet */
};

struct qn_redis {
    struct event_base *base;
    const struct qn_config_redis *config;
    struct conn *conn;
    struct qn_breaker breaker;
    struct qn_dues dues;
    struct qn_due conn_due;              /* of connecting; or at once, to drop a connection from outside hiredis */
    struct event *report;
    struct calls waiting;
    struct calls sent;
    struct calls done;
    size_t pending;
    struct calls spare;
    size_t n_spare;
    bool closing;
    uint64_t post_errors;                /* since the last line about them */
    int64_t post_logged;
};

/* ---- calls ---- */

static struct qn_redis_call *call_new(struct qn_redis *r, size_t n)
{
    struct qn_redis_call *call = TAILQ_FIRST(&r->spare);
    struct qn_arena *arena;
    if (call) {
        TAILQ_REMOVE(&r->spare, call, link);
        r->n_spare--;
        arena = call->arena;
    } else {
        call = qn_xmalloc(sizeof(*call));
        arena = qn_arena_new(CALL_ARENA);
    }
    *call = (struct qn_redis_call){.redis = r, .arena = arena, .n = n};
    call->parts = qn_arena_array(arena, n, sizeof(*call->parts));
    call->vals = qn_arena_array(arena, n, sizeof(*call->vals));
    call->wire.arena = arena;
    return call;
}

static void call_free(struct qn_redis_call *call)
{
    qn_arena_free(call->arena);
    free(call);
}

/* Lets go of a call that nothing refers to any more. */
static void call_release(struct qn_redis_call *call)
{
    struct qn_redis *r = call->redis;
    if (!call->settled || call->reporting || call->at != AT_NONE)
        return;
    qn_dues_unset(&r->dues, &call->due);
    if (r->n_spare == MAX_SPARE_CALLS) {
        call_free(call);
        return;
    }
    qn_arena_reset(call->arena);
    TAILQ_INSERT_HEAD(&r->spare, call, link);
    r->n_spare++;
}

static void call_unlist(struct qn_redis_call *call)
{
    struct qn_redis *r = call->redis;
    if (call->at == AT_WAITING)
        TAILQ_REMOVE(&r->waiting, call, link);
    else if (call->at == AT_SENT)
        TAILQ_REMOVE(&r->sent, call, link);
    call->at = AT_NONE;
    r->pending -= call->unanswered;
    call->unanswered = 0;
}

static void call_settle(struct qn_redis_call *call, enum qn_err err)
{
    if (call->settled)
        return;
    struct qn_redis *r = call->redis;
    call->settled = true;
    call->err = err;
    if (call->cb) {
        call->reporting = true;
        TAILQ_INSERT_TAIL(&r->done, call, done);
        event_active(r->report, 0, 0);
    }
}

static void on_report(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct qn_redis *r = arg;
    struct qn_redis_call *call;
    while ((call = TAILQ_FIRST(&r->done))) {
        TAILQ_REMOVE(&r->done, call, done);
        call->reporting = false;
        qn_redis_cb cb = call->cb;
        call->cb = NULL;
        if (cb)
            cb(call->arg, call->err, call->err == QN_OK ? call->vals : NULL, call->err == QN_OK ? call->n : 0);
        call_release(call);
    }
}

/* ---- the wire ---- */

static void put_count(struct qn_buf *b, char kind, size_t n)
{
    qn_buf_char(b, kind);
    qn_buf_u64(b, n);
    qn_buf_put(b, "\r\n", 2);
}

static void put_bulk(struct qn_buf *b, struct qn_str s)
{
    put_count(b, '$', s.n);
    qn_buf_put(b, s.p, s.n);
    qn_buf_put(b, "\r\n", 2);
}

/* How EVALSHA or EVAL begins; the same bytes follow either. */
static void put_script(struct qn_buf *b, const struct qn_script *script, size_t argc, bool whole)
{
    put_count(b, '*', argc + 3);
    put_bulk(b, whole ? QN_STR("EVAL") : QN_STR("EVALSHA"));
    put_bulk(b, whole ? (struct qn_str){script->source, script->source_len} : (struct qn_str){script->sha, 40});
}

static void put_cmds(struct qn_redis_call *call, const struct qn_cmd *cmds)
{
    size_t size = 0;
    for (size_t i = 0; i < call->n; i++) {
        size += 128;
        for (size_t j = 0; j < cmds[i].argc; j++)
            size += cmds[i].argv[j].n + 16;
    }
    struct qn_buf *b = &call->wire;
    qn_buf_reserve(b, size);
    for (size_t i = 0; i < call->n; i++) {
        const struct qn_cmd *cmd = &cmds[i];
        struct part *part = &call->parts[i];
        *part = (struct part){.call = call, .script = cmd->script, .argc = cmd->argc, .start = b->n};
        if (cmd->script) {
            put_script(b, cmd->script, cmd->argc, false);
            part->args = b->n;
            char nkeys[24];
            int n = snprintf(nkeys, sizeof(nkeys), "%zu", cmd->nkeys);
            put_bulk(b, (struct qn_str){nkeys, (size_t)n});
        } else {
            put_count(b, '*', cmd->argc);
        }
        for (size_t j = 0; j < cmd->argc; j++)
            put_bulk(b, cmd->argv[j]);
        part->end = b->n;
    }
}

/* A copy of a reply in arena. hiredis bounds the depth. */
static void copy_reply(struct qn_arena *arena, const redisReply *in, struct qn_val *out)
{
    *out = (struct qn_val){.kind = QN_VAL_NIL};
    switch (in->type) {
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
    case REDIS_REPLY_ERROR:
        out->kind = in->type == REDIS_REPLY_ERROR ? QN_VAL_ERROR : QN_VAL_STR;
        out->str = qn_arena_copy(arena, (struct qn_str){in->str, (size_t)in->len});
        break;
    case REDIS_REPLY_INTEGER:
        out->kind = QN_VAL_INT;
        out->num = in->integer;
        break;
    case REDIS_REPLY_ARRAY: {
        struct qn_val *items = qn_arena_array(arena, in->elements, sizeof(*items));
        for (size_t i = 0; i < in->elements; i++)
            copy_reply(arena, in->element[i], &items[i]);
        out->kind = QN_VAL_ARRAY;
        out->n = in->elements;
        out->items = items;
        break;
    }
    case REDIS_REPLY_NIL:
        break;
    default: /* RESP3, which we never ask for */
        out->kind = QN_VAL_ERROR;
        out->str = QN_STR("ERR reply of an unknown type");
    }
}

static void copy_val(struct qn_arena *arena, const struct qn_val *in, struct qn_val *out)
{
    *out = *in;
    if (in->str.p)
        out->str = qn_arena_copy(arena, in->str);
    if (in->kind != QN_VAL_ARRAY)
        return;
    struct qn_val *items = qn_arena_array(arena, in->n, sizeof(*items));
    for (size_t i = 0; i < in->n; i++)
        copy_val(arena, &in->items[i], &items[i]);
    out->items = items;
}

/* An error that says that this server can't be used now, whatever the command: the connection is dropped, so that the
 * next one finds the server that can. All others (OOM, WRONGTYPE, NOPERM of one command …) are values. */
static bool is_link_error(const redisReply *reply)
{
    static const struct qn_str starts[] = {
        {"LOADING ", 8}, {"READONLY ", 9}, {"MASTERDOWN ", 11}, {"NOREPLICAS ", 11}, {"NOAUTH ", 7}, {"WRONGPASS ", 10},
        {"BUSY ", 5}, {"MOVED ", 6}, {"CLUSTERDOWN ", 12}, {"ERR max number of clients reached", 33},
    };
    struct qn_str text = {reply->str, (size_t)reply->len};
    for (size_t i = 0; i < QN_LEN(starts); i++) {
        if (qn_str_starts(text, starts[i]))
            return true;
    }
    return false;
}

/* ---- the connection ---- */

static void failed(struct qn_redis *r, struct qn_str why)
{
    if (qn_breaker_failed(&r->breaker, qn_clock_mono_ms()))
        qn_log_warn("redis-lost", QN_F_STR("reason", why));
}

static void worked(struct qn_redis *r)
{
    if (qn_breaker_worked(&r->breaker))
        qn_log_info("redis-back");
}

static void settle_list(struct calls *list, enum qn_err err)
{
    struct qn_redis_call *call;
    while ((call = TAILQ_FIRST(list))) {
        call_unlist(call);
        call_settle(call, err);
        qn_dues_unset(&call->redis->dues, &call->due);
        call_release(call);
    }
}

/* What is left to do once r->conn is gone. */
static void lost(struct qn_redis *r, enum qn_err err)
{
    qn_dues_unset(&r->dues, &r->conn_due);
    settle_list(&r->sent, err);
    settle_list(&r->waiting, err);
}

/* Throws the connection away. May be called from a reply's callback, but not from on_connect: there hiredis 0.14 would
 * free the context under its own feet. */
static void drop(struct qn_redis *r, enum qn_err err)
{
    struct conn *conn = r->conn;
    r->conn = NULL;
    if (conn)
        redisAsyncFree(conn->ac);
    lost(r, err);
}

/* hiredis frees a context, by drop or of its own accord: then the connection is lost. */
static void on_cleanup(void *privdata)
{
    struct conn *conn = privdata;
    struct qn_redis *r = conn->redis;
    event_free(conn->readable);
    event_free(conn->writable);
    if (r->conn == conn) {
        r->conn = NULL;
        failed(r, qn_str_of(conn->ac->errstr));
        lost(r, QN_EUNAVAIL);
    }
    free(conn);
}

/* Whether a connection with nothing outstanding has been closed by the server (or speaks unasked, which no reply may
 * be taken for). Needed where the loop has not been turned since: there the close is still unread. */
static bool stale(const struct conn *conn)
{
    char c;
    return recv(conn->ac->c.fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || (errno != EAGAIN && errno != EINTR);
}

/* More was read than was asked for. hiredis ends the program over a reply that belongs to no command. */
static bool surplus(const struct conn *conn)
{
    const redisReader *reader = conn->ac->c.reader;
    return TAILQ_EMPTY(&conn->redis->sent) && reader->pos < reader->len;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct conn *conn = arg;
    struct qn_redis *r = conn->redis;
    if (r->conn != conn)
        return;
    if (conn->up && TAILQ_EMPTY(&r->sent)) {
        qn_log_info("redis-closed-idle");
        drop(r, QN_EUNAVAIL);
    } else {
        redisAsyncHandleRead(conn->ac);
    }
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct conn *conn = arg;
    struct qn_redis *r = conn->redis;
    if (r->conn != conn)
        return;
    conn->writing = true;
    redisAsyncHandleWrite(conn->ac);
    if (r->conn == conn)
        conn->writing = false;
}

/* hiredis wants to write. Once up, the socket nearly always takes it: the write is tried at the end of this turn of the
 * loop, when all commands of the turn are there, and the kernel is asked only after a write that did not take all. */
static void add_write(void *privdata)
{
    struct conn *conn = privdata;
    if (conn->up && !conn->writing)
        event_active(conn->writable, EV_WRITE, 0);
    else
        event_add(conn->writable, NULL);
}

static void del_write(void *privdata)
{
    struct conn *conn = privdata;
    event_del(conn->writable);
}

/* The read event is there from first to last. */
static void keep_read(void *privdata)
{
    (void)privdata;
}

static void on_reply(redisAsyncContext *ac, void *reply, void *privdata);

static bool send_bytes(struct conn *conn, struct part *part, const char *p, size_t n)
{
    if (redisAsyncFormattedCommand(conn->ac, on_reply, part, p, n) == REDIS_OK)
        return true;
    qn_dues_set(&conn->redis->dues, &conn->redis->conn_due, qn_clock_mono_ms());
    return false;
}

static void call_send(struct qn_redis_call *call)
{
    struct qn_redis *r = call->redis;
    call->at = AT_SENT;
    call->sent_at = qn_clock_mono_ms();
    TAILQ_INSERT_TAIL(&r->sent, call, link);
    for (size_t i = 0; i < call->n; i++) {
        struct part *part = &call->parts[i];
        if (!send_bytes(r->conn, part, call->wire.p + part->start, part->end - part->start))
            return;
    }
}

static void go_up(struct qn_redis *r)
{
    r->conn->up = true;
    qn_dues_unset(&r->dues, &r->conn_due);
    struct qn_redis_call *call;
    while ((call = TAILQ_FIRST(&r->waiting))) {
        TAILQ_REMOVE(&r->waiting, call, link);
        call_send(call);
    }
}

static void on_connect(const redisAsyncContext *ac, int status)
{
    struct conn *conn = ac->ev.data;
    if (status == REDIS_OK && conn->redis->conn == conn && conn->hellos == 0)
        go_up(conn->redis);
}

/* The answer to AUTH or SELECT. */
static void on_hello(redisAsyncContext *ac, void *reply, void *privdata)
{
    (void)privdata;
    const redisReply *in = reply;
    if (!in)
        return;
    struct conn *conn = ac->ev.data;
    struct qn_redis *r = conn->redis;
    if (r->conn != conn)
        return;
    if (in->type == REDIS_REPLY_ERROR) {
        failed(r, (struct qn_str){in->str, (size_t)in->len});
        drop(r, QN_EUNAVAIL);
    } else if (--conn->hellos == 0 && surplus(conn)) {
        failed(r, QN_STR("unasked reply"));
        drop(r, QN_EUNAVAIL);
    } else if (conn->hellos == 0) {
        go_up(r);
    }
}

/* NOSCRIPT: the server has lost its scripts (restart, SCRIPT FLUSH). The source goes along once; the call's other
 * commands keep their replies. */
static void send_whole(struct part *part)
{
    struct qn_redis_call *call = part->call;
    struct qn_redis *r = call->redis;
    part->whole = true;
    struct qn_buf b = {0};
    put_script(&b, part->script, part->argc, true);
    qn_buf_put(&b, call->wire.p + part->args, part->end - part->args);
    /* now the newest of the commands sent */
    TAILQ_REMOVE(&r->sent, call, link);
    TAILQ_INSERT_TAIL(&r->sent, call, link);
    call->sent_at = qn_clock_mono_ms();
    (void)send_bytes(r->conn, part, b.p, b.n);
    qn_buf_free(&b);
}

static void on_reply(redisAsyncContext *ac, void *reply, void *privdata)
{
    const redisReply *in = reply;
    /* A context that is being freed answers everything with NULL, in hiredis 1.x even after on_cleanup: the calls are
     * settled by that or by drop, and may be gone already. */
    if (!in)
        return;
    struct conn *conn = ac->ev.data;
    struct qn_redis *r = conn->redis;
    if (r->conn != conn)
        return;
    struct part *part = privdata;
    struct qn_redis_call *call = part->call;
    if (in->type == REDIS_REPLY_ERROR) {
        struct qn_str text = {in->str, (size_t)in->len};
        if (is_link_error(in)) {
            failed(r, text);
            drop(r, QN_EUNAVAIL);
            return;
        }
        if (part->script && !part->whole && !call->settled && qn_str_starts(text, QN_STR("NOSCRIPT "))) {
            send_whole(part);
            return;
        }
    }
    r->pending--;
    call->unanswered--;
    if (!call->settled)
        copy_reply(call->arena, in, &call->vals[part - call->parts]);
    if (call->unanswered > 0)
        return;
    call_unlist(call);
    if (!call->settled) {
        worked(r);
        qn_dues_unset(&r->dues, &call->due);
        call_settle(call, QN_OK);
    }
    call_release(call);
    if (surplus(conn)) {
        qn_log_warn("redis-unasked-reply");
        drop(r, QN_EUNAVAIL);
    }
}

static void say_hello(struct conn *conn, int argc, const char **argv)
{
    size_t lens[3];
    for (int i = 0; i < argc; i++)
        lens[i] = strlen(argv[i]);
    if (redisAsyncCommandArgv(conn->ac, on_hello, NULL, argc, argv, lens) == REDIS_OK)
        conn->hellos++;
}

/* Starts to connect; on failure all that waits is settled. */
static void conn_open(struct qn_redis *r)
{
    const struct qn_config_redis *config = r->config;
    redisAsyncContext *ac = config->socket ? redisAsyncConnectUnix(config->socket)
                                           : redisAsyncConnect(config->host, config->port);
    if (!ac || ac->err) {
        failed(r, ac ? qn_str_of(ac->errstr) : QN_STR("out of memory"));
        if (ac)
            redisAsyncFree(ac);
        lost(r, QN_EUNAVAIL);
        return;
    }
    int flags = fcntl(ac->c.fd, F_GETFD);
    if (flags >= 0)
        (void)fcntl(ac->c.fd, F_SETFD, flags | FD_CLOEXEC);
    struct conn *conn = qn_xcalloc(1, sizeof(*conn));
    conn->redis = r;
    conn->ac = ac;
    conn->readable = qn_loop_event(r->base, ac->c.fd, EV_READ | EV_PERSIST, on_readable, conn);
    conn->writable = qn_loop_event(r->base, ac->c.fd, EV_WRITE, on_writable, conn);
    event_add(conn->readable, NULL);
    ac->ev.data = conn;
    ac->ev.addRead = keep_read;
    ac->ev.delRead = keep_read;
    ac->ev.addWrite = add_write;
    ac->ev.delWrite = del_write;
    ac->ev.cleanup = on_cleanup;
    r->conn = conn;
    qn_dues_set(&r->dues, &r->conn_due, qn_clock_mono_ms() + config->connect_ms);
    redisAsyncSetConnectCallback(ac, on_connect);
    if (config->password) {
        if (config->user)
            say_hello(conn, 3, (const char *[]){"AUTH", config->user, config->password});
        else
            say_hello(conn, 2, (const char *[]){"AUTH", config->password});
    }
    if (config->db != 0) {
        char db[16];
        (void)snprintf(db, sizeof(db), "%d", config->db);
        say_hello(conn, 2, (const char *[]){"SELECT", db});
    }
}

static void on_due(void *arg, struct qn_due *due)
{
    struct qn_redis *r = arg;
    if (due == &r->conn_due) {
        failed(r, r->conn && r->conn->up ? QN_STR("out of memory") : QN_STR("connect: timeout"));
        drop(r, QN_EUNAVAIL);
        return;
    }
    struct qn_redis_call *call = (void *)((char *)due - offsetof(struct qn_redis_call, due));
    if (!call->settled) {
        failed(r, QN_STR("timeout"));
        call_settle(call, QN_ETIMEOUT);
    }
    if (call->at == AT_WAITING) {
        call_unlist(call);
        call_release(call);
        return;
    }
    /* Sent: its reply may still come, and is read and dropped. A server that does not answer for twice the time has
     * lost us. */
    int64_t drop_at = call->sent_at + 2 * (int64_t)r->config->command_ms;
    if (qn_clock_mono_ms() < drop_at) {
        qn_dues_set(&r->dues, &call->due, drop_at);
    } else {
        failed(r, QN_STR("no reply in twice the time"));
        drop(r, QN_EUNAVAIL);
    }
}

/* ---- the interface ---- */

struct qn_redis *qn_redis_new(struct event_base *base, const struct qn_config_redis *config)
{
    struct qn_redis *r = qn_xcalloc(1, sizeof(*r));
    r->base = base;
    r->config = config;
    qn_dues_init(&r->dues, base, on_due, r);
    r->report = qn_loop_event(base, -1, 0, on_report, r);
    TAILQ_INIT(&r->waiting);
    TAILQ_INIT(&r->sent);
    TAILQ_INIT(&r->done);
    TAILQ_INIT(&r->spare);
    return r;
}

void qn_redis_free(struct qn_redis *r)
{
    if (!r)
        return;
    r->closing = true; /* what a callback sends from here on is refused */
    drop(r, QN_ECANCEL);
    on_report(-1, 0, r);
    event_free(r->report);
    qn_dues_clear(&r->dues);
    struct qn_redis_call *call;
    while ((call = TAILQ_FIRST(&r->spare))) {
        TAILQ_REMOVE(&r->spare, call, link);
        call_free(call);
    }
    free(r);
}

enum qn_err qn_redis_send(struct qn_redis *r, const struct qn_cmd *cmds, size_t n, int64_t deadline, qn_redis_cb cb,
                          void *arg, struct qn_redis_call **out)
{
    int64_t now = qn_clock_mono_ms();
    if (r->closing || r->pending + n > (size_t)r->config->max_pending)
        return QN_EUNAVAIL;
    /* what is late already says nothing of the server and must not use up the probe */
    if (deadline > now && !qn_breaker_allows(&r->breaker, now))
        return QN_EUNAVAIL;
    struct qn_redis_call *call = call_new(r, n);
    call->cb = cb;
    call->arg = arg;
    if (out)
        *out = call;
    if (deadline <= now) {
        call_settle(call, QN_ETIMEOUT);
        return QN_OK;
    }
    put_cmds(call, cmds);
    call->unanswered = n;
    r->pending += n;
    if (r->conn && r->conn->up && TAILQ_EMPTY(&r->sent) && stale(r->conn)) {
        qn_log_info("redis-closed-idle");
        drop(r, QN_EUNAVAIL);
    }
    bool up = r->conn && r->conn->up;
    int64_t limit = now + r->config->command_ms + (up ? 0 : r->config->connect_ms);
    qn_dues_set(&r->dues, &call->due, limit < deadline ? limit : deadline);
    if (up) {
        call_send(call);
    } else {
        call->at = AT_WAITING;
        TAILQ_INSERT_TAIL(&r->waiting, call, link);
        if (!r->conn)
            conn_open(r);
    }
    return QN_OK;
}

static void post_error(struct qn_redis *r, struct qn_str what)
{
    r->post_errors++;
    int64_t now = qn_clock_mono_ms();
    if (r->post_logged && now - r->post_logged < POST_LOG_MS)
        return;
    qn_log_warn("redis-write-failed", QN_F_STR("reason", what), QN_F_INT("count", r->post_errors));
    r->post_logged = now;
    r->post_errors = 0;
}

static void on_posted(void *arg, enum qn_err err, const struct qn_val *replies, size_t n)
{
    struct qn_redis *r = arg;
    if (err != QN_OK && err != QN_ECANCEL)
        post_error(r, qn_str_of(qn_err_name(err)));
    for (size_t i = 0; i < n; i++) {
        if (replies[i].kind == QN_VAL_ERROR)
            post_error(r, replies[i].str);
    }
}

void qn_redis_post(struct qn_redis *r, const struct qn_cmd *cmds, size_t n)
{
    enum qn_err err = qn_redis_send(r, cmds, n, INT64_MAX, on_posted, r, NULL);
    if (err != QN_OK)
        post_error(r, qn_str_of(qn_err_name(err)));
}

void qn_redis_abandon(struct qn_redis_call *call)
{
    /* It stays where it is: what was sent is still answered, and a deadline that passes still tells of an outage. */
    call->cb = NULL;
}

const struct qn_breaker *qn_redis_breaker(const struct qn_redis *r)
{
    return &r->breaker;
}

size_t qn_redis_pending(const struct qn_redis *r)
{
    return r->pending;
}

struct waiter {
    struct qn_arena *arena;
    const struct qn_val *replies;
    enum qn_err err;
    bool done;
};

static void on_waited(void *arg, enum qn_err err, const struct qn_val *replies, size_t n)
{
    struct waiter *w = arg;
    w->err = err;
    if (err == QN_OK) {
        struct qn_val *copies = qn_arena_array(w->arena, n, sizeof(*copies));
        for (size_t i = 0; i < n; i++)
            copy_val(w->arena, &replies[i], &copies[i]);
        w->replies = copies;
    }
    w->done = true;
}

enum qn_err qn_redis_run(struct qn_redis *r, const struct qn_cmd *cmds, size_t n, int64_t deadline,
                         struct qn_arena *arena, const struct qn_val **replies)
{
    struct waiter w = {.arena = arena};
    struct qn_redis_call *call;
    enum qn_err err = qn_redis_send(r, cmds, n, deadline, on_waited, &w, &call);
    if (err != QN_OK)
        return err;
    if (!qn_loop_until(r->base, &w.done)) {
        qn_redis_abandon(call);
        return QN_EUNAVAIL;
    }
    if (w.err == QN_OK)
        *replies = w.replies;
    return w.err;
}

/* The value of "name:value\r\n" in INFO's text; empty if it isn't there. */
static struct qn_str info_field(struct qn_str info, struct qn_str name)
{
    while (info.n > 0) {
        const char *end = memchr(info.p, '\n', info.n);
        size_t n = end ? (size_t)(end - info.p) : info.n;
        struct qn_str line = {info.p, n > 0 && info.p[n - 1] == '\r' ? n - 1 : n};
        if (qn_str_starts(line, name) && line.n > name.n && line.p[name.n] == ':')
            return (struct qn_str){line.p + name.n + 1, line.n - name.n - 1};
        n += end ? 1 : 0;
        info = (struct qn_str){info.p + n, info.n - n};
    }
    return QN_STR("");
}

enum qn_err qn_redis_check_server(struct qn_redis *r, int64_t deadline, struct qn_arena *arena, struct qn_str *reason)
{
    const struct qn_cmd cmd = {.argc = 2, .argv = (const struct qn_str[]){QN_STR("INFO"), QN_STR("server")}};
    const struct qn_val *reply;
    enum qn_err err = qn_redis_run(r, &cmd, 1, deadline, arena, &reply);
    if (err != QN_OK) {
        *reason = qn_arena_printf(arena, "Redis can't be asked: %s", qn_err_name(err));
        return err;
    }
    if (reply->kind != QN_VAL_STR) {
        *reason = qn_arena_printf(arena, "Redis refuses INFO: %.*s", QN_FMT(reply->str));
        return QN_EPEER;
    }
    struct qn_str version = info_field(reply->str, QN_STR("redis_version"));
    struct qn_str mode = info_field(reply->str, QN_STR("redis_mode"));
    struct qn_str major = {version.p, 0};
    while (major.n < version.n && version.p[major.n] != '.')
        major.n++;
    uint64_t number;
    if (qn_str_u64(major, 1000000, &number) != QN_OK || number < 7) {
        *reason = qn_arena_printf(arena, "Redis %.*s is too old: 7.0 is needed", QN_FMT(version));
        return QN_EPEER;
    }
    if (qn_str_eq(mode, QN_STR("cluster"))) {
        *reason = QN_STR("Redis is in cluster mode, which is not supported");
        return QN_EPEER;
    }
    return QN_OK;
}
