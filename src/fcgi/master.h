/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * The master: starts workers and starts them again, kills one that is stuck, answers `quoin status`, stops all. It
 * opens no connection to Redis or Postgres.
 */
#ifndef QN_FCGI_MASTER_H
#define QN_FCGI_MASTER_H

#include "fcgi/worker.h"

/* Runs until TERM, INT or QUIT (returns 0) or until starting is hopeless: 78 (a worker says that the configuration is
 * wrong before any was READY), 70 (start_limit starts failed), 75 (the control socket is in use or can't be made).
 * pool->board has a slot a worker; name is the pool's. control: path of the control socket, or NULL for none; notify:
 * the service manager's socket or NULL. The listening socket is closed, and our file of it removed, when this returns.
 * */
int qn_master_run(const struct qn_pool *pool, const char *name, const char *control, const char *notify);

#endif
