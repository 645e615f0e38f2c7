/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * One persistent, non-blocking connection to Redis on a libevent loop (hiredis async, argv only). All commands that are
 * sent within one loop turn leave in one write. A context that saw an error is thrown away, never reused; it is
 * reopened on the next call that the breaker allows. The only file that touches hiredis is redis.c.
 */
#ifndef QN_LINK_REDIS_H
#define QN_LINK_REDIS_H

#include <event2/event.h>

#include "base/arena.h"
#include "base/config.h"
#include "link/breaker.h"
#include "link/command.h"

struct qn_redis;
struct qn_redis_call;

/* Made after fork, connected on first use; config is borrowed and must outlive it. */
struct qn_redis *qn_redis_new(struct event_base *base, const struct qn_config_redis *config);
/* Every outstanding call gets QN_ECANCEL. Not from within a callback. NULL is a no-op. */
void qn_redis_free(struct qn_redis *r);

/* Called exactly once a call, from the loop, never from within qn_redis_send: QN_OK with n replies (in the order of the
 * commands; valid until the callback returns), or QN_ETIMEOUT, QN_EUNAVAIL, QN_ECANCEL with none. Error replies of
 * single commands are values (-OOM, -WRONGTYPE, -NOPERM …), but -LOADING, -READONLY, -MASTERDOWN, -NOREPLICAS, -BUSY,
 * -NOAUTH, -WRONGPASS, -MOVED, -CLUSTERDOWN and any error to AUTH or SELECT make the whole call QN_EUNAVAIL, count for
 * the breaker and drop the connection. A script's first use on a server (NOSCRIPT) costs a second round trip within the
 * deadline. */
typedef void (*qn_redis_cb)(void *arg, enum qn_err err, const struct qn_val *replies, size_t n);

/* Sends cmds (n >= 1) as one pipeline. deadline is monotonic ms; the sooner of it and now + command_ms (+ connect_ms
 * when it has to connect) holds. The commands' bytes are copied. QN_EUNAVAIL: refused at once (breaker open, queue
 * full): then the callback is not called. Otherwise *call (may be NULL) names it until the callback ran.
 * No command is sent twice: what may have reached the server may have been carried out. A kept connection with nothing
 * outstanding is checked first, so that one closed meanwhile (restart, idle timeout, CLIENT KILL) costs nobody an
 * error. After QN_ETIMEOUT the late replies are read and dropped; a command unanswered for 2 * command_ms drops the
 * connection, and with it all calls that are out (QN_EUNAVAIL). Every timeout and every loss with calls out opens the
 * breaker. */
QN_MUST enum qn_err qn_redis_send(struct qn_redis *r, const struct qn_cmd *cmds, size_t n, int64_t deadline,
                                  qn_redis_cb cb, void *arg, struct qn_redis_call **call);
/* Fire and forget: as send, but nobody is told; errors are counted and logged at most once a second. */
void qn_redis_post(struct qn_redis *r, const struct qn_cmd *cmds, size_t n);
/* Gives a call up: its callback won't run, its replies are read and dropped. */
void qn_redis_abandon(struct qn_redis_call *call);

const struct qn_breaker *qn_redis_breaker(const struct qn_redis *r);
/* Commands that wait for the connection or their answer, late ones included. */
size_t qn_redis_pending(const struct qn_redis *r);

/* Whether this server will do: QN_OK, or QN_EPEER with one line in *reason for a Redis older than 7.0 or in cluster
 * mode or one that refuses INFO; otherwise as qn_redis_run, with a reason too (in arena or static). For the start of
 * tools and daemons, turns the loop; workers start with Redis down. */
QN_MUST enum qn_err qn_redis_check_server(struct qn_redis *r, int64_t deadline, struct qn_arena *arena,
                                          struct qn_str *reason);

/* For daemons and tools that do one thing at a time: sends and turns the loop until the answer is there. Replies are
 * copied into arena. Errors as in the callback, or QN_EUNAVAIL at once. Everything else on the loop runs meanwhile; not
 * from within a callback of the loop. */
QN_MUST enum qn_err qn_redis_run(struct qn_redis *r, const struct qn_cmd *cmds, size_t n, int64_t deadline,
                                 struct qn_arena *arena, const struct qn_val **replies);

#endif
