/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * quoin-fcgi: the FastCGI server of a pool; a master with workers, or one worker on a socket that somebody else made.
 */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "fcgi/listen.h"
#include "fcgi/master.h"
#include "fcgi/notify.h"
#include "fcgi/worker.h"
#include "market/statements.h"
#include "prices/routes.h"

enum { MAX_WORKERS = 1024, MAX_REQUESTS = 1000 * 1000 * 1000 };

static const char help[] =
    "usage: quoin-fcgi [OPTION]...\n"
    "Serves the market-data API through FastCGI.\n\n"
    "  -c, --config FILE   the configuration (default: $QUOIN_CONFIG or " QN_SYSCONFDIR "/quoin/quoin.toml)\n"
    "  -p, --pool NAME     what is served: prices (the default)\n"
    "  -n, --workers N     instead of the configured number (1-1024)\n"
    "      --worker        be one worker on a listening socket that is handed over as fd 0 (spawn-fcgi, multiwatch,\n"
    "                      lighttpd's bin-path) or by LISTEN_FDS; nobody restarts it, and it has no control socket\n"
    "      --check         check the configuration and exit: 0, or 78 when it is wrong\n"
    "  -h, --help          this text\n"
    "  -V, --version       the version\n\n"
    "The listening socket is, in this order: fd 3 when the service manager passed one (LISTEN_FDS), fd 0 when it is a\n"
    "listening socket, else what the configuration names.\n\n"
    "Environment, with --worker: QUOIN_WORKERS (above 1: a master with so many workers on the socket handed over),\n"
    "QUOIN_MAX_REQUESTS (requests until a worker is replaced, 0 = never).\n\n"
    "Signals to the master: TERM, INT stop it when what is under way is answered (a second INT: at once), QUIT stops\n"
    "it at once; HUP, USR1 and USR2 are ignored. To a worker: TERM, INT, USR1 end it when what it accepted is\n"
    "answered, QUIT at once; HUP and USR2 are ignored. (php-fpm has TERM and QUIT the other way round.)\n\n"
    "exit status: 0 stopped, 64 usage, 70 starting failed too often, 75 the address is in use or can't be had,\n"
    "78 the configuration is wrong\n";

struct options {
    const char *config;
    bool worker;
    bool check;
    int workers;             /* 0: as configured */
    int max_requests;        /* -1: as configured */
};

static int usage_error(const char *what, const char *value)
{
    fprintf(stderr, "quoin-fcgi: %s: %s; see quoin-fcgi --help\n", what, value);
    return QN_EXIT_USAGE;
}

static bool read_int(const char *text, int min, int max, int *out)
{
    uint64_t v;
    if (qn_str_u64(qn_str_of(text), (uint64_t)max, &v) != QN_OK || (int)v < min)
        return false;
    *out = (int)v;
    return true;
}

/* Returns -1, or the status to exit with. */
static int read_options(int argc, char **argv, struct options *o)
{
    enum { OPT_WORKER = 256, OPT_CHECK };
    static const struct option longs[] = {
        {"config", required_argument, NULL, 'c'}, {"pool", required_argument, NULL, 'p'},
        {"workers", required_argument, NULL, 'n'}, {"worker", no_argument, NULL, OPT_WORKER},
        {"check", no_argument, NULL, OPT_CHECK}, {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'}, {0},
    };
    int c;
    *o = (struct options){.max_requests = -1};
    while ((c = getopt_long(argc, argv, "c:p:n:hV", longs, NULL)) != -1) {
        switch (c) {
        case 'c':
            o->config = optarg;
            break;
        case 'p':
            if (strcmp(optarg, "prices") != 0)
                return usage_error("no such pool", optarg);
            break;
        case 'n':
            if (!read_int(optarg, 1, MAX_WORKERS, &o->workers))
                return usage_error("--workers: not 1-1024", optarg);
            break;
        case OPT_WORKER:
            o->worker = true;
            break;
        case OPT_CHECK:
            o->check = true;
            break;
        case 'h':
            fputs(help, stdout);
            return QN_EXIT_OK;
        case 'V':
            puts("quoin-fcgi " PACKAGE_VERSION);
            return QN_EXIT_OK;
        default:
            return QN_EXIT_USAGE;
        }
    }
    if (optind < argc)
        return usage_error("unexpected argument", argv[optind]);
    if (o->worker && o->workers)
        return usage_error("--worker and --workers", "one of them");
    const char *workers = getenv("QUOIN_WORKERS");
    const char *requests = getenv("QUOIN_MAX_REQUESTS");
    if (o->worker && workers && !read_int(workers, 1, MAX_WORKERS, &o->workers))
        return usage_error("QUOIN_WORKERS: not 1-1024", workers);
    if (o->worker && requests && !read_int(requests, 0, MAX_REQUESTS, &o->max_requests))
        return usage_error("QUOIN_MAX_REQUESTS: not a count", requests);
    return -1;
}

/* Processors that we may run on. */
static int cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

static int exit_code_of(enum qn_err err)
{
    switch (err) {
    case QN_MISS:
        return QN_EXIT_USAGE;
    case QN_EINVAL:
        return QN_EXIT_CONFIG;
    default:
        return QN_EXIT_TEMPFAIL;
    }
}

int main(int argc, char **argv)
{
    struct options o;
    qn_worker_block_signals();
    qn_open_standard_fds();
    int code = read_options(argc, argv, &o);
    if (code >= 0)
        return code;
    struct qn_config *config = qn_config_start("quoin-fcgi", o.config, o.check);
    const struct qn_config_pool *settings = &config->prices_pool;

    /* a worker alone is told apart from a master with one worker by who restarts it */
    bool master = !o.worker || o.workers > 1;
    int workers = o.workers ? o.workers : o.worker ? 1 : settings->workers ? settings->workers : cores();
    char *notify = qn_notify_take();
    struct qn_listener listener = {.fd = -1};
    struct qn_pool pool = {
        .config = config,
        .pool = settings,
        .stmts = qn_market_stmts,
        .n_stmts = QN_MARKET_STMTS,
        .max_requests = o.max_requests >= 0 ? o.max_requests : settings->max_requests,
        .listener = &listener,
    };
    pool.routes = qn_prices_routes(&pool.n_routes);
    enum qn_err err = qn_listen_open(settings, o.worker, &listener);
    if (err != QN_OK) {
        code = exit_code_of(err);
        goto out;
    }
    pool.board = qn_board_new((size_t)workers);
    if (!pool.board) {
        qn_log_error("start-failed", QN_F_ERRNO(errno));
        qn_listen_unlink(&listener);
        code = QN_EXIT_INTERNAL;
        goto out;
    }
    if (master) /* several of a web server's own would fight over one control socket */
        code = qn_master_run(&pool, "prices", o.worker ? NULL : settings->control_socket, notify);
    else
        code = qn_worker_run(&pool, 0, 1, -1);
out:
    qn_listen_close(&listener);
    qn_board_free(pool.board);
    qn_config_free(config);
    free(notify);
    return code;
}
