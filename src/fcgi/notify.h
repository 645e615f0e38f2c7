/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * The service manager's notification socket (sd_notify(3), NOTIFY_SOCKET).
 */
#ifndef QN_FCGI_NOTIFY_H
#define QN_FCGI_NOTIFY_H

#include "base/base.h"

/* Takes NOTIFY_SOCKET out of the environment (workers must not have it). *path belongs to the caller; NULL: not set. */
char *qn_notify_take(void);
/* Sends one message ("READY=1"). path NULL: does nothing. Never blocks; a message that can't be sent is logged. */
void qn_notify_send(const char *path, const char *message);

#endif
