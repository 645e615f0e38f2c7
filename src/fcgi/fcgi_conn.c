/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * The members of FCGX_Request that are set here are public, but not documented for this use: configure checks that they
 * exist, and tests/e2e/test_process.py that they do what is expected.
 */
#include "base/base.h"

#include "fcgi/fcgi_conn.h"

#include <errno.h>
#include <fcgiapp.h>
#include <fastcgi.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    BODY_CHUNK = 16 * 1024,
    /* A body over its limit is read on to its end, so that the peer is done sending and reads our 413; up to here. */
    DISCARD_TIMES = 4,
    ALARM_AGAIN_MS = 100,
};

struct qn_fcgi {
    FCGX_Request r;
    int receive_ms;
    size_t max_body;
    bool written;           /* the response is out whole */
};

/* The descriptor that the alarm cuts, and whether it did. */
static volatile sig_atomic_t alarm_fd = -1;
static volatile sig_atomic_t alarm_rang;

/* shutdown(2) is async-signal-safe; it ends the read or write under way and all later ones. The timer repeats, because
 * one that fires between the check of a deadline and the read would be lost. */
static void on_alarm(int sig)
{
    (void)sig;
    int saved = errno;
    if (alarm_fd >= 0) {
        shutdown((int)alarm_fd, SHUT_RDWR);
        alarm_rang = 1;
    }
    errno = saved;
}

static void set_alarm(int ms)
{
    struct itimerval it = {.it_value = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000}};
    if (ms > 0)
        it.it_interval.tv_usec = ALARM_AGAIN_MS * 1000;
    setitimer(ITIMER_REAL, &it, NULL);
}

enum qn_err qn_fcgi_init(void)
{
    struct sigaction sa = {.sa_handler = on_alarm};
    if (FCGX_Init() != 0)
        return QN_EIO;
    sigemptyset(&sa.sa_mask);
    return sigaction(SIGALRM, &sa, NULL) == 0 ? QN_OK : QN_EIO;
}

struct qn_fcgi *qn_fcgi_new(int receive_ms, size_t max_body)
{
    struct qn_fcgi *c = qn_xcalloc(1, sizeof *c);
    c->receive_ms = receive_ms;
    c->max_body = max_body;
    FCGX_InitRequest(&c->r, -1, 0);
    c->r.ipcFd = -1;
    return c;
}

void qn_fcgi_free(struct qn_fcgi *c)
{
    free(c);
}

static bool peer_closed(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* Why a stream failed: the library keeps an errno, or one of its own (negative) codes; for it an end of file in the
 * middle of a request is a protocol error too. */
static enum qn_err stream_error(const struct qn_fcgi *c, int code)
{
    if (alarm_rang || code == EAGAIN || code == EWOULDBLOCK || code == EINTR)
        return QN_ETIMEOUT;
    return code > 0 || peer_closed(c->r.ipcFd) ? QN_ECANCEL : QN_EPEER;
}

static enum qn_err read_body(struct qn_fcgi *c, struct qn_arena *arena, struct qn_fcgi_request *out)
{
    char *body = NULL;
    size_t n = 0;
    size_t cap = 0;
    for (;;) {
        if (cap - n < BODY_CHUNK && n <= c->max_body) {
            size_t bigger = cap ? cap * 2 : BODY_CHUNK;
            char *p = qn_arena_alloc(arena, bigger + 1);
            if (n)
                memcpy(p, body, n);
            body = p;
            cap = bigger;
        }
        /* once it is too large, the last chunk is overwritten over and over */
        size_t at = n <= c->max_body ? n : cap - BODY_CHUNK;
        int got = FCGX_GetStr(body + at, BODY_CHUNK, c->r.in);
        if (got > 0)
            n += (size_t)got;
        if (got < BODY_CHUNK)
            break;
        if (n > c->max_body * DISCARD_TIMES + BODY_CHUNK)
            return QN_EPEER;
    }
    int code = FCGX_GetError(c->r.in);
    if (code != 0)
        return stream_error(c, code);
    out->body_too_large = n > c->max_body;
    if (!out->body_too_large) {
        body[n] = '\0';
        out->body = (struct qn_str){body, n};
    }
    return QN_OK;
}

static void read_vars(const FCGX_Request *r, struct qn_arena *arena, struct qn_fcgi_request *out)
{
    size_t n = 0;
    while (r->envp[n])
        n++;
    struct qn_param *vars = qn_arena_array(arena, n ? n : 1, sizeof *vars);
    for (size_t i = 0; i < n; i++) {
        const char *eq = strchr(r->envp[i], '=');
        if (!eq)
            continue;
        vars[out->n_vars++] = (struct qn_param){
            .name = {r->envp[i], (size_t)(eq - r->envp[i])},
            .value = qn_str_of(eq + 1),
        };
    }
    out->vars = vars;
}

enum qn_err qn_fcgi_begin(struct qn_fcgi *c, int fd, int budget_ms, struct qn_arena *arena,
                          struct qn_fcgi_request *out)
{
    struct timeval tv = {.tv_sec = c->receive_ms / 1000, .tv_usec = c->receive_ms % 1000 * 1000};
    struct qn_fcgi_request rq = {0};
    int64_t start = qn_clock_mono_ms();
    alarm_rang = 0;
    alarm_fd = fd;
    set_alarm(budget_ms);
    c->written = false;
    /* ipcFd set: the call below skips accept and parses. keepConnection: the finish within it doesn't close. Detach:
     * the close on its error path doesn't linger. */
    c->r.ipcFd = fd;
    c->r.keepConnection = 1;
    c->r.listen_sock = -1;
    FCGX_Detach(&c->r);
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv) != 0)
        return QN_ECANCEL;
    if (peer_closed(fd))
        return QN_ECANCEL;
    if (FCGX_Accept_r(&c->r) < 0) {
        /* it closed the connection, then failed to accept another one from -1: why is lost, but for the time it took */
        alarm_fd = -1;
        return alarm_rang || qn_clock_mono_ms() - start >= c->receive_ms ? QN_ETIMEOUT : QN_EPEER;
    }
    /* parameters that broke off are handed over as if they were all */
    int code = FCGX_GetError(c->r.in);
    if (code != 0)
        return stream_error(c, code);
    if (c->r.role != FCGI_RESPONDER)
        return QN_EPEER;
    enum qn_err err = read_body(c, arena, &rq);
    if (err != QN_OK)
        return err;
    read_vars(&c->r, arena, &rq);
    *out = rq;
    return QN_OK;
}

enum qn_err qn_fcgi_write(struct qn_fcgi *c, struct qn_str response)
{
    const char *p = response.p;
    size_t left = response.n;
    while (left > 0) {
        int n = left > INT32_MAX ? INT32_MAX : (int)left;
        if (FCGX_PutStr(p, n, c->r.out) != n)
            return QN_ECANCEL;
        p += n;
        left -= (size_t)n;
    }
    /* closing writes what is buffered and the end of the request; FCGX_Finish_r would do it too, but tells nobody */
    if (FCGX_FClose(c->r.err) != 0 || FCGX_FClose(c->r.out) != 0)
        return QN_ECANCEL;
    c->written = true;
    return QN_OK;
}

void qn_fcgi_end(struct qn_fcgi *c)
{
    /* the finish would end an unanswered request as if it had been answered with nothing */
    if (c->r.ipcFd >= 0 && !c->written)
        shutdown(c->r.ipcFd, SHUT_RDWR);
    c->r.keepConnection = 0;
    FCGX_Detach(&c->r);
    if (c->r.ipcFd >= 0)
        FCGX_Finish_r(&c->r);
    /* after the close the number may be another descriptor's */
    alarm_fd = -1;
    set_alarm(0);
}
