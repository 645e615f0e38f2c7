/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * One step at a time: connect, query, copy. A step is moved on by its socket's events (advance) and ended by finish,
 * which calls back as the last thing it does, so that the callback may start the next step or free the connection.
 * A step that fails before it has waited for anything, or at its deadline, ends from an event of its own (fail).
 */
#include "base/base.h"

#include <assert.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "link/loop.h"
#include "link/pgconn.h"

enum {
    COPY_CHUNK = 64 * 1024,
    COPY_CHUNKS = 4,       /* in one event, so that other connections of the loop get their turn */
    STACK_PARAMS = 32,
};

enum step { STEP_NONE, STEP_CONNECT, STEP_SETUP, STEP_QUERY, STEP_COPY, STEP_COPY_DATA, STEP_COPY_END,
            STEP_FAILED /* `later` ends it */ };

struct qn_pgconn {
    struct event_base *base;
    char *dsn;
    char *application;
    int statement_ms;
    PGconn *pg;
    struct event *io;      /* NULL while closed */
    short io_what;         /* what it waits for; 0: it isn't added */
    struct event *later;
    struct qn_dues dues;
    struct qn_due due;
    enum step step;
    enum qn_err failed;    /* why `later` ends the step */
    qn_pgconn_cb cb;
    void *arg;
    struct qn_buf setup;   /* what a new connection runs first */
    struct qn_str data;    /* of COPY: what is left to send */
    PGresult *result;      /* the last one of the step, or its first error */
    char sqlstate[6];
    char message[256];
};

/* ---- what went wrong ---- */

/* The first line of text: for logs. */
static void set_message(struct qn_pgconn *c, const char *text)
{
    size_t n = strcspn(text, "\r\n");
    if (n >= sizeof(c->message))
        n = sizeof(c->message) - 1;
    memcpy(c->message, text, n);
    c->message[n] = '\0';
}

static void set_error(struct qn_pgconn *c, const char *sqlstate, const char *text)
{
    size_t n = strnlen(sqlstate, sizeof(c->sqlstate) - 1);
    memcpy(c->sqlstate, sqlstate, n);
    c->sqlstate[n] = '\0';
    set_message(c, text);
}

static void on_notice(void *arg, const char *message)
{
    (void)arg;
    qn_log_debug("postgres-notice", QN_F_STR("message", ((struct qn_str){message, strcspn(message, "\r\n")})));
}

/* ---- ending a step ---- */

/* PQfinish also after a connect that failed: libpq keeps the socket until then. */
static void disconnect(struct qn_pgconn *c)
{
    if (c->io)
        event_free(c->io);
    c->io = NULL;
    c->io_what = 0;
    if (c->pg)
        PQfinish(c->pg);
    c->pg = NULL;
}

static void clear_result(struct qn_pgconn *c)
{
    if (c->result)
        PQclear(c->result);
    c->result = NULL;
}

static bool starts_with_one_of(const char *text, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strncmp(text, words[i], strlen(words[i])) == 0)
            return true;
    }
    return false;
}

/* The count that the command tag of a writing statement ends with. */
static int64_t affected_rows(PGresult *result)
{
    static const char *const writes[] = {"INSERT ", "UPDATE ", "DELETE ", "MERGE ", "COPY "};
    uint64_t n;
    if (!starts_with_one_of(PQcmdStatus(result), writes, QN_LEN(writes)) ||
        qn_str_u64(qn_str_of(PQcmdTuples(result)), INT64_MAX, &n) != QN_OK)
        return 0;
    return (int64_t)n;
}

/* Cells point into result; the array itself is the caller's (free). */
static struct qn_str *cells_of(PGresult *result, size_t nrows, size_t ncols)
{
    if (nrows == 0 || ncols == 0)
        return NULL;
    struct qn_str *cells = qn_xcalloc(nrows * ncols, sizeof(*cells)); /* both come from an int: no overflow */
    for (size_t row = 0; row < nrows; row++) {
        for (size_t col = 0; col < ncols; col++) {
            int r = (int)row, f = (int)col;
            if (!PQgetisnull(result, r, f))
                cells[row * ncols + col] =
                    (struct qn_str){PQgetvalue(result, r, f), (size_t)PQgetlength(result, r, f)};
        }
    }
    return cells;
}

/* Ends the step. rows may be NULL. The last thing that its callers do: the callback may free c. */
static void finish(struct qn_pgconn *c, enum qn_err err, PGresult *rows)
{
    struct qn_pgresult out = {.err = err, .message = c->message};
    memcpy(out.sqlstate, c->sqlstate, sizeof(out.sqlstate));
    struct qn_str *cells = NULL;
    if (rows) {
        out.rows.nrows = (size_t)PQntuples(rows);
        out.rows.ncols = (size_t)PQnfields(rows);
        out.rows.affected = affected_rows(rows);
        out.rows.cells = cells = cells_of(rows, out.rows.nrows, out.rows.ncols);
    }
    qn_pgconn_cb cb = c->cb;
    c->cb = NULL;
    c->step = STEP_NONE;
    qn_dues_unset(&c->dues, &c->due);
    cb(c->arg, &out);
    free(cells);
    if (rows)
        PQclear(rows);
}

static void on_later(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct qn_pgconn *c = arg;
    if (c->step == STEP_FAILED)
        finish(c, c->failed, NULL);
}

/* Ends the step with an error, from the loop; the connection is closed unless the error is one of the call's own. */
static void fail(struct qn_pgconn *c, enum qn_err err)
{
    if (err != QN_EPEER)
        disconnect(c);
    clear_result(c);
    qn_dues_unset(&c->dues, &c->due);
    c->step = STEP_FAILED;
    c->failed = err;
    event_active(c->later, 0, 0);
}

static void on_due(void *arg, struct qn_due *due)
{
    (void)due;
    struct qn_pgconn *c = arg;
    static const char *const messages[] = {
        [STEP_CONNECT] = "connect: deadline passed", [STEP_SETUP] = "set-up of the connection: deadline passed",
        [STEP_QUERY] = "statement: deadline passed", [STEP_COPY] = "copy: deadline passed",
        [STEP_COPY_DATA] = "copy: deadline passed",  [STEP_COPY_END] = "copy: deadline passed",
    };
    set_error(c, "", messages[c->step]);
    fail(c, QN_ETIMEOUT);
}

/* Whether the server's error means that this connection is of no further use. */
static bool is_fatal(const PGresult *error, const char *sqlstate)
{
    static const char *const fatal_states[] = {"08", "57P", "25006"};
    static const char *const fatal_severities[] = {"FATAL", "PANIC"};
    const char *severity = PQresultErrorField(error, PG_DIAG_SEVERITY_NONLOCALIZED);
    return starts_with_one_of(sqlstate, fatal_states, QN_LEN(fatal_states)) ||
           (severity && starts_with_one_of(severity, fatal_severities, QN_LEN(fatal_severities)));
}

/* All results of the step are there. */
static void finish_results(struct qn_pgconn *c)
{
    PGresult *result = c->result;
    c->result = NULL;
    ExecStatusType status = PQresultStatus(result); /* of NULL: PGRES_FATAL_ERROR */
    enum qn_err err = QN_OK;
    bool close = c->step == STEP_SETUP;
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK || status == PGRES_EMPTY_QUERY) {
        close = false;
    } else {
        const char *sqlstate = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
        const char *primary = result ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : NULL;
        set_error(c, sqlstate ? sqlstate : "", primary ? primary : PQerrorMessage(c->pg));
        /* libpq's own errors (connection lost, bytes that are no protocol) have no SQLSTATE */
        err = sqlstate ? QN_EPEER : QN_EUNAVAIL;
        close = close || !sqlstate || is_fatal(result, sqlstate);
    }
    PGTransactionStatusType txn = PQtransactionStatus(c->pg);
    if (close || PQstatus(c->pg) != CONNECTION_OK || txn == PQTRANS_ACTIVE || txn == PQTRANS_UNKNOWN) {
        disconnect(c);
        if (err == QN_OK && c->step == STEP_SETUP)
            err = QN_EUNAVAIL;
    }
    if (err != QN_OK && result) {
        PQclear(result);
        result = NULL;
    }
    finish(c, err, result);
}

/* ---- moving on ---- */

static void on_io(evutil_socket_t fd, short what, void *arg);

/* Waits for `what`. While connecting, libpq may replace the socket by another of the same number: anew = true. */
static void watch(struct qn_pgconn *c, short what, bool anew)
{
    if (!anew && c->io_what == what)
        return;
    if (c->io)
        event_free(c->io);
    c->io = qn_loop_event(c->base, PQsocket(c->pg), (short)(what | EV_PERSIST), on_io, c);
    c->io_what = what;
    event_add(c->io, NULL);
}

/* Takes one result in. False: it is one that this step can't have. */
static bool take(struct qn_pgconn *c, PGresult *result)
{
    switch (PQresultStatus(result)) {
    case PGRES_COPY_IN:
        PQclear(result);
        if (c->step != STEP_COPY)
            return false;
        c->step = STEP_COPY_DATA;
        return true;
    case PGRES_COPY_OUT:
    case PGRES_COPY_BOTH:
    case PGRES_PIPELINE_SYNC:
    case PGRES_PIPELINE_ABORTED:
    case PGRES_SINGLE_TUPLE:
        PQclear(result);
        return false;
    case PGRES_TUPLES_OK:
    case PGRES_COMMAND_OK:
    case PGRES_EMPTY_QUERY:
    case PGRES_BAD_RESPONSE:
    case PGRES_NONFATAL_ERROR:
    case PGRES_FATAL_ERROR:
        break;
    }
    if (c->result && PQresultStatus(c->result) == PGRES_FATAL_ERROR) {
        PQclear(result); /* the first error says most */
        return true;
    }
    clear_result(c);
    c->result = result;
    return true;
}

/* Hands COPY data to libpq, a chunk at a time and the next only when the socket took the last: libpq itself would
 * buffer all of it. False: the rest goes when the socket is writable again. */
static bool feed(struct qn_pgconn *c)
{
    for (int i = 0; i < COPY_CHUNKS; i++) {
        int n = c->data.n < COPY_CHUNK ? (int)c->data.n : COPY_CHUNK;
        int rc = n > 0 ? PQputCopyData(c->pg, c->data.p, n) : PQputCopyEnd(c->pg, NULL);
        if (rc == 0)
            return false;
        if (rc < 0 || n == 0) { /* on error, the results say what happened */
            c->step = STEP_COPY_END;
            return true;
        }
        c->data.p += n;
        c->data.n -= (size_t)n;
        if (PQflush(c->pg) != 0)
            return false;
    }
    return false;
}

/* Sends what is to be sent and takes what came. Ends the step if that was all. */
static void advance(struct qn_pgconn *c)
{
    for (;;) {
        if (c->step == STEP_COPY_DATA && PQstatus(c->pg) == CONNECTION_OK && !feed(c)) {
            watch(c, EV_READ | EV_WRITE, false);
            return;
        }
        /* a failed flush shows up as a result */
        watch(c, PQflush(c->pg) > 0 ? EV_READ | EV_WRITE : EV_READ, false);
        if (PQisBusy(c->pg))
            return;
        PGresult *result = PQgetResult(c->pg);
        if (!result) {
            finish_results(c);
            return;
        }
        if (!take(c, result)) {
            set_error(c, "", "unexpected kind of result");
            fail(c, QN_EUNAVAIL);
            return;
        }
    }
}

static void start_setup(struct qn_pgconn *c)
{
    c->step = STEP_SETUP;
    watch(c, EV_READ, true);
    if (PQsetnonblocking(c->pg, 1) != 0 || PQsendQuery(c->pg, c->setup.p) != 1) {
        set_error(c, "", PQerrorMessage(c->pg));
        fail(c, QN_EUNAVAIL);
        return;
    }
    advance(c);
}

static void poll_connect(struct qn_pgconn *c)
{
    switch (PQconnectPoll(c->pg)) {
    case PGRES_POLLING_READING:
        watch(c, EV_READ, true);
        break;
    case PGRES_POLLING_WRITING:
        watch(c, EV_WRITE, true);
        break;
    case PGRES_POLLING_OK:
        start_setup(c);
        break;
    case PGRES_POLLING_FAILED:
    case PGRES_POLLING_ACTIVE:
        set_error(c, "", PQerrorMessage(c->pg));
        disconnect(c);
        finish(c, QN_EUNAVAIL, NULL);
        break;
    }
}

static void on_io(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    struct qn_pgconn *c = arg;
    if (c->step == STEP_CONNECT) {
        /* out of the loop's table before libpq closes the socket */
        event_del(c->io);
        poll_connect(c);
        return;
    }
    /* 0: the connection is lost; libpq makes that the last result */
    int read = what & EV_READ ? PQconsumeInput(c->pg) : 1;
    if (c->step != STEP_NONE && c->step != STEP_FAILED) {
        advance(c);
    } else if (!read && c->step == STEP_NONE) {
        qn_log_info("postgres-closed-idle");
        disconnect(c);
    }
}

/* ---- the interface ---- */

bool qn_pg_gone(enum qn_err err, const char *sqlstate)
{
    static const char *const states[] = {"08", "53", "57P", "58", "25006"};
    if (err != QN_EPEER)
        return err == QN_EUNAVAIL || err == QN_ETIMEOUT;
    for (size_t i = 0; i < QN_LEN(states); i++)
        if (strncmp(sqlstate, states[i], strlen(states[i])) == 0)
            return true;
    return false;
}

struct qn_pgconn *qn_pgconn_new(struct event_base *base, const char *dsn, const char *application, int statement_ms)
{
    struct qn_pgconn *c = qn_xcalloc(1, sizeof(*c));
    c->base = base;
    c->dsn = qn_xstrndup(dsn, strlen(dsn));
    c->application = qn_xstrndup(application, strlen(application));
    c->statement_ms = statement_ms;
    c->later = qn_loop_event(base, -1, 0, on_later, c);
    qn_dues_init(&c->dues, base, on_due, c);
    return c;
}

void qn_pgconn_free(struct qn_pgconn *c)
{
    if (!c)
        return;
    qn_pgconn_close(c);
    event_free(c->later);
    qn_dues_clear(&c->dues);
    qn_buf_free(&c->setup);
    free(c->application);
    free(c->dsn);
    free(c);
}

enum qn_pgconn_state qn_pgconn_state(const struct qn_pgconn *c)
{
    switch (c->step) {
    case STEP_NONE:
        return c->pg ? QN_PG_IDLE : QN_PG_CLOSED;
    case STEP_CONNECT:
    case STEP_SETUP:
        return QN_PG_CONNECTING;
    case STEP_COPY_DATA:
        return QN_PG_COPY_IN;
    case STEP_QUERY:
    case STEP_COPY:
    case STEP_COPY_END:
    case STEP_FAILED:
        break;
    }
    return QN_PG_BUSY;
}

bool qn_pgconn_notified(struct qn_pgconn *c)
{
    bool any = false;
    PGnotify *note;
    while (c->pg && (note = PQnotifies(c->pg))) {
        PQfreemem(note);
        any = true;
    }
    return any;
}

bool qn_pgconn_in_transaction(const struct qn_pgconn *c)
{
    return c->pg && PQtransactionStatus(c->pg) != PQTRANS_IDLE;
}

static void begin(struct qn_pgconn *c, enum step step, int64_t deadline, qn_pgconn_cb cb, void *arg)
{
    assert(c->step == STEP_NONE);
    c->step = step;
    c->cb = cb;
    c->arg = arg;
    set_error(c, "", "");
    qn_dues_set(&c->dues, &c->due, deadline);
}

/* SET, not start-up options: PgBouncer refuses those. PREPARE in the same message: one round trip for all. Statements are
 * planned once and not for each set of parameters, and never compiled: either costs more than it saves where every
 * statement is a few walks along an index. */
static void make_setup(struct qn_pgconn *c, const struct qn_stmt *stmts, size_t n)
{
    qn_buf_clear(&c->setup);
    qn_buf_printf(&c->setup,
                  "SET timezone = 'UTC'; SET datestyle = 'ISO, YMD'; SET intervalstyle = 'postgres'; "
                  "SET extra_float_digits = 1; SET bytea_output = 'hex'; SET statement_timeout = %d; "
                  "SET jit = off; SET plan_cache_mode = force_generic_plan;\n",
                  c->statement_ms);
    for (size_t i = 0; i < n; i++)
        qn_buf_printf(&c->setup, "PREPARE \"%s\" AS %s\n;\n", stmts[i].name, stmts[i].sql);
}

void qn_pgconn_connect(struct qn_pgconn *c, const struct qn_stmt *stmts, size_t n, int64_t deadline, qn_pgconn_cb cb,
                       void *arg)
{
    assert(!c->pg);
    begin(c, STEP_CONNECT, deadline, cb, arg);
    make_setup(c, stmts, n);
    /* Later entries override earlier ones, and dbname is taken apart where it stands: what comes before it is a
     * default, what comes after it is certain. tcp_user_timeout is for connections that a partition leaves behind; our
     * deadlines come sooner. */
    const char *keys[] = {"application_name", "keepalives_idle", "keepalives_interval", "keepalives_count",
                          "tcp_user_timeout", "dbname", "client_encoding", NULL};
    const char *values[] = {c->application, "30", "10", "3", "15000", c->dsn, "UTF8", NULL};
    /* A string that can't be read is reported without libpq's message: that quotes it, and it may hold a password. */
    PQconninfoOption *parsed = PQconninfoParse(c->dsn, NULL);
    if (!parsed) {
        set_error(c, "", "the connection string is malformed");
        fail(c, QN_EUNAVAIL);
        return;
    }
    PQconninfoFree(parsed);
    c->pg = PQconnectStartParams(keys, values, 1);
    if (!c->pg || PQstatus(c->pg) == CONNECTION_BAD) {
        set_error(c, "", c->pg ? PQerrorMessage(c->pg) : "out of memory");
        fail(c, QN_EUNAVAIL);
        return;
    }
    PQsetNoticeProcessor(c->pg, on_notice, NULL);
    watch(c, EV_WRITE, true);
}

/* Ends a step that could not be sent. */
static void not_sent(struct qn_pgconn *c)
{
    set_error(c, "", c->pg ? PQerrorMessage(c->pg) : "not connected");
    fail(c, QN_EUNAVAIL);
}

static void after_send(struct qn_pgconn *c, int sent)
{
    if (!sent) {
        not_sent(c);
        return;
    }
    /* what does not leave now, on_io sends; errors show up as results */
    watch(c, PQflush(c->pg) > 0 ? EV_READ | EV_WRITE : EV_READ, false);
}

/* Statement `name`, or sql where name is NULL. */
static void send_query(struct qn_pgconn *c, const char *name, const char *sql, int nparams, const struct qn_str *params)
{
    if (!c->pg) {
        not_sent(c);
        return;
    }
    const char *few[STACK_PARAMS];
    const char **values = nparams <= STACK_PARAMS ? few : qn_xcalloc((size_t)nparams, sizeof(*values));
    bool ok = true;
    for (int i = 0; i < nparams; i++) {
        values[i] = params[i].p;
        /* libpq would cut a text at its first NUL without a word; the server has no text with one */
        ok = ok && (!params[i].p || strnlen(params[i].p, params[i].n + 1) == params[i].n);
    }
    if (!ok) {
        set_error(c, "22021", "a parameter holds a NUL byte");
        fail(c, QN_EPEER);
    } else if (name) {
        after_send(c, PQsendQueryPrepared(c->pg, name, nparams, values, NULL, NULL, 0));
    } else {
        after_send(c, PQsendQueryParams(c->pg, sql, nparams, NULL, values, NULL, NULL, 0));
    }
    if (values != few)
        free(values);
}

void qn_pgconn_query(struct qn_pgconn *c, const struct qn_query *q, bool prepared, int64_t deadline, qn_pgconn_cb cb,
                     void *arg)
{
    begin(c, STEP_QUERY, deadline, cb, arg);
    send_query(c, prepared ? q->stmt->name : NULL, q->stmt->sql, q->stmt->nparams, q->params);
}

void qn_pgconn_copy(struct qn_pgconn *c, const char *sql, struct qn_str data, int64_t deadline, qn_pgconn_cb cb,
                    void *arg)
{
    begin(c, STEP_COPY, deadline, cb, arg);
    c->data = data;
    if (c->pg)
        after_send(c, PQsendQuery(c->pg, sql));
    else
        not_sent(c);
}

void qn_pgconn_close(struct qn_pgconn *c)
{
    disconnect(c);
    clear_result(c);
    if (c->step != STEP_NONE) {
        set_error(c, "", "given up");
        finish(c, QN_ECANCEL, NULL);
    }
}

const char *qn_pgconn_sqlstate(const struct qn_pgconn *c)
{
    return c->sqlstate;
}

const char *qn_pgconn_message(const struct qn_pgconn *c)
{
    return c->message;
}

/* ---- one thing at a time ---- */

struct waiter {
    struct qn_arena *arena;
    struct qn_rows rows;
    enum qn_err err;
    bool done;
};

static void on_waited(void *arg, const struct qn_pgresult *result)
{
    struct waiter *w = arg;
    w->err = result->err;
    w->rows = result->rows;
    w->rows.cells = NULL;
    size_t n = result->rows.nrows * result->rows.ncols;
    if (w->arena && n > 0) {
        struct qn_str *cells = qn_arena_array(w->arena, n, sizeof(*cells));
        for (size_t i = 0; i < n; i++) {
            if (result->rows.cells[i].p)
                cells[i] = qn_arena_copy(w->arena, result->rows.cells[i]);
        }
        w->rows.cells = cells;
    }
    w->done = true;
}

static enum qn_err wait_for(struct qn_pgconn *c, struct waiter *w)
{
    if (!qn_loop_until(c->base, &w->done)) {
        qn_pgconn_close(c);
        return QN_EUNAVAIL;
    }
    return w->err;
}

enum qn_err qn_pgconn_run_connect(struct qn_pgconn *c, const struct qn_stmt *stmts, size_t n, int64_t deadline)
{
    struct waiter w = {0};
    qn_pgconn_connect(c, stmts, n, deadline, on_waited, &w);
    return wait_for(c, &w);
}

static enum qn_err run(struct qn_pgconn *c, const char *name, const char *sql, int nparams, const struct qn_str *params,
                       int64_t deadline, struct qn_arena *arena, struct qn_rows *rows)
{
    struct waiter w = {.arena = arena};
    begin(c, STEP_QUERY, deadline, on_waited, &w);
    send_query(c, name, sql, nparams, params);
    enum qn_err err = wait_for(c, &w);
    if (err == QN_OK && rows)
        *rows = w.rows;
    return err;
}

enum qn_err qn_pgconn_run(struct qn_pgconn *c, const char *sql, int nparams, const struct qn_str *params,
                          int64_t deadline, struct qn_arena *arena, struct qn_rows *rows)
{
    return run(c, NULL, sql, nparams, params, deadline, arena, rows);
}

enum qn_err qn_pgconn_run_stmt(struct qn_pgconn *c, const struct qn_stmt *stmt, const struct qn_str *params,
                               int64_t deadline, struct qn_arena *arena, struct qn_rows *rows)
{
    return run(c, stmt->name, stmt->sql, stmt->nparams, params, deadline, arena, rows);
}

enum qn_err qn_pgconn_run_script(struct qn_pgconn *c, const char *sql, int64_t deadline)
{
    struct waiter w = {0};
    begin(c, STEP_QUERY, deadline, on_waited, &w);
    if (c->pg)
        after_send(c, PQsendQuery(c->pg, sql));
    else
        not_sent(c);
    return wait_for(c, &w);
}

enum qn_err qn_pgconn_run_copy(struct qn_pgconn *c, const char *sql, struct qn_str data, int64_t deadline,
                               int64_t *count)
{
    struct waiter w = {0};
    qn_pgconn_copy(c, sql, data, deadline, on_waited, &w);
    enum qn_err err = wait_for(c, &w);
    if (err == QN_OK && count)
        *count = w.rows.affected;
    return err;
}

struct qn_str qn_pg_array(struct qn_arena *arena, const struct qn_str *items, size_t n)
{
    struct qn_buf b = {.arena = arena};
    size_t size = 2;
    for (size_t i = 0; i < n; i++)
        size += items[i].n + 8;
    qn_buf_reserve(&b, size);
    qn_buf_char(&b, '{');
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            qn_buf_char(&b, ',');
        if (!items[i].p) {
            qn_buf_puts(&b, "NULL");
            continue;
        }
        qn_buf_char(&b, '"');
        for (size_t j = 0; j < items[i].n; j++) {
            if (items[i].p[j] == '"' || items[i].p[j] == '\\')
                qn_buf_char(&b, '\\');
            qn_buf_char(&b, items[i].p[j]);
        }
        qn_buf_char(&b, '"');
    }
    qn_buf_char(&b, '}');
    return qn_buf_view(&b);
}
