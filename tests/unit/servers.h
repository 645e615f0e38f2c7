/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Private Redis and Postgres servers for tests: a folder under /tmp, a unix socket, no port. All of them are killed (by
 * pid) and their folders removed when the program exits, however it exits. A server that can't be started ends the
 * program with exit 1.
 */
#ifndef QN_TESTS_SERVERS_H
#define QN_TESTS_SERVERS_H

#include <sys/types.h>

#include "base/base.h"

struct server;

/* A Redis without persistence; args (NULL-ended, or NULL) go behind ours. */
struct server *servers_redis(const char *const *args);
/* A fresh Postgres cluster, superuser postgres, trust; args as above ("-c", "max_connections=5"). */
struct server *servers_postgres(const char *const *args);
/* Redis: the socket's path. Postgres: a connection string. */
const char *servers_address(const struct server *s);
/* Its folder. */
const char *servers_dir(const struct server *s);
pid_t servers_pid(const struct server *s);
/* To the server and its child processes (Postgres: all backends). */
void servers_signal(const struct server *s, int sig);
/* SIGKILL to all of it, and waits until it is gone. */
void servers_kill(struct server *s);
/* Starts it again on the same data and address, and waits until it answers. */
void servers_start(struct server *s);

#endif
