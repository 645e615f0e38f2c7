/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * The libfcgi engine: one request at a time; while the request waits for Redis or Postgres, and while there is none, it
 * turns the worker's loop. A connection that says nothing yet is parked, so that idle ones cost nobody anything.
 */
#ifndef QN_FCGI_ENGINE_LIBFCGI_H
#define QN_FCGI_ENGINE_LIBFCGI_H

#include "base/base.h"

struct qn_worker;
struct qn_engine_libfcgi;

/* Once a process, after fork, before the worker sets its signals. QN_EIO. */
QN_MUST enum qn_err qn_engine_libfcgi_init(void);
/* NULL: the system refused something (logged). w must outlive it. */
struct qn_engine_libfcgi *qn_engine_libfcgi_new(struct qn_worker *w);
/* Serves until w->stopping, or max_requests is reached; then answers what was accepted. */
void qn_engine_libfcgi_run(struct qn_engine_libfcgi *e);
void qn_engine_libfcgi_free(struct qn_engine_libfcgi *e);

#endif
