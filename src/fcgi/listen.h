/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * The listening socket: handed over by who started us (LISTEN_FDS, or fd 0), or made from the configuration. Always
 * non-blocking and close-on-exec. A socket file left by a dead server is replaced; a live server's is not. TCP needs
 * allow_peers, which is checked for every connection (libfcgi's own FCGI_WEB_SERVER_ADDRS is not enforced for IPv6).
 */
#ifndef QN_FCGI_LISTEN_H
#define QN_FCGI_LISTEN_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/config.h"

struct qn_listener {
    int fd;
    bool tcp;
    char *path;              /* the socket file that we made, or NULL */
    dev_t dev;               /* of that file: it is removed only if it is still ours */
    ino_t ino;
    struct in6_addr *peers;  /* TCP: who may connect; IPv4 as ::ffff:a.b.c.d */
    size_t n_peers;
};

/* Detection in this order: LISTEN_PID is us and LISTEN_FDS is 1 -> fd 3; fd 0 is a listening socket -> that; else the
 * configured address unless adopt_only. LISTEN_* leave the environment. Each failure is logged as one line:
 * QN_MISS: adopt_only and nothing was handed over (exit 64); QN_EINVAL: the configuration doesn't allow it (78);
 * QN_ECONFLICT: a live server has the address, QN_EIO: the system refused (75). */
QN_MUST enum qn_err qn_listen_open(const struct qn_config_pool *pool, bool adopt_only, struct qn_listener *out);
/* A listening unix socket of this mode, owner's group `group` (NULL: as it is). Errors as above. */
QN_MUST enum qn_err qn_listen_unix(const char *path, unsigned mode, const char *group, int backlog,
                                   struct qn_listener *out);
/* Whether a peer may speak to us. */
bool qn_listen_allows(const struct qn_listener *l, const struct sockaddr *peer);
/* Removes our socket file, if it still is ours; the socket goes on. */
void qn_listen_unlink(struct qn_listener *l);
/* Whether the file that we made is gone or another's: nobody can connect any more, only those who wait in the queue. */
bool qn_listen_unlinked(const struct qn_listener *l);
/* Closes the socket (the file stays). A closed one is no-op. */
void qn_listen_close(struct qn_listener *l);

#endif
