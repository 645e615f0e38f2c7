/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * quoin.toml: read once, validated as a whole, const from then on. Every key is described in quoin.toml.example.
 */
#ifndef QN_BASE_CONFIG_H
#define QN_BASE_CONFIG_H

#include "base/asset.h"
#include "base/log.h"

enum { QN_CONFIG_MAX_WINDOWS = 16 };

/* [redis] */
struct qn_config_redis {
    char *socket;          /* unix socket path, NULL by default; or */
    char *host;            /* an IP address (no DNS: it would block), 127.0.0.1; NULL when socket is set */
    int port;              /* 6379 */
    int db;                /* 0 */
    char *user;            /* ACL user or NULL */
    char *password;        /* password, password_file, or QUOIN_REDIS_PASSWORD; NULL: none */
    int connect_ms;        /* 100 */
    int command_ms;        /* 100 */
    int max_pending;       /* commands queued at most, 10000: over it a call is QN_EUNAVAIL at once */
};

/* [postgres] */
struct qn_config_postgres {
    char *dsn;             /* libpq keyword/value or URI; dsn, dsn_file or QUOIN_POSTGRES_DSN; "dbname=quoin" */
    char *direct_dsn;      /* for daemons that hold locks and for migrate; default: dsn */
    int connect_ms;        /* 500 */
    int statement_ms;      /* 500 */
    int connections;       /* per worker, 1 on the libfcgi engine whatever this says; 4 */
    bool prepare;          /* false behind a transaction-pooling PgBouncer; true */
};

/* [pool.prices] */
struct qn_config_pool {
    char *socket;          /* unix socket, "/run/quoin/prices.sock"; NULL when listen is set; or */
    char *listen;          /* "IP:PORT" or "[IP6]:PORT"; needs allow_peers; NULL by default */
    char **allow_peers;    /* addresses that may connect over TCP */
    size_t n_allow_peers;
    unsigned socket_mode;  /* 0660 */
    char *socket_group;    /* or NULL */
    int workers;           /* 0 = one a core */
    int backlog;           /* 511 */
    int max_requests;      /* 10000, +-10 %; 0 = never */
    int request_ms;        /* budget of one request, 2000 */
    int terminate_ms;      /* the master kills past it, 10000 */
    int receive_ms;        /* per read and write of a FastCGI connection, 300 */
    int drain_ms;          /* 30000 */
    int start_limit;       /* failed starts before the first READY, 10 */
    int max_body;          /* bytes of a request body, 1048576 */
    char *control_socket;  /* the master's, for `quoin status`; default: <socket>.ctl */
};

/* One line of [prices.proxies] or [prices.aliases]: a name and what stands in for it or is the same as it. */
struct qn_config_assets {
    struct qn_asset key;
    struct qn_asset *items;
    size_t n;
};

/* [sources.NAME] */
struct qn_config_source {
    char *name;
    int scale;             /* digits after the point of its amounts; -1: none, its trades are never dust */
};

/* [prices] */
struct qn_config_prices {
    struct qn_asset reference;    /* fiat:USD */
    struct qn_config_assets *proxies;
    size_t n_proxies;
    struct qn_config_assets *aliases;
    size_t n_aliases;
    int windows[QN_CONFIG_MAX_WINDOWS]; /* seconds, multiples of 60, ascending: 60 300 900 3600 86400 */
    size_t n_windows;
    int64_t lookback_ms;          /* 24 h */
    int64_t max_hot_lag_ms;       /* 90 s */
    int64_t max_lag_ms;           /* 120 s */
    int64_t stale_after_ms;       /* 15 min */
    int64_t settle_ms;            /* 24 h */
    int64_t grace_ms;             /* 5 s */
    int64_t source_timeout_ms;    /* 60 s */
    int64_t dust_units;           /* 100 */
    char *cache_control;          /* price: "public, max-age=5, s-maxage=15, stale-while-revalidate=30" */
    char *allow_origin;           /* "*" */
    char *error_base;             /* problem type base, "/errors/" */
};

/* [aggregator] */
struct qn_config_aggregator {
    int period_ms;                /* 5000 */
    int rewrite_ms;               /* 30000: every hot key at least this often */
    int batch;                    /* dirty rows a transaction, 20000 */
};

/* [indexer] */
struct qn_config_indexer {
    int connections;              /* 0 = one a core */
    int batch;                    /* trades a transaction a connection, 10000 */
};

struct qn_config {
    char *path;                   /* the file, as opened */
    struct qn_config_redis redis;
    struct qn_config_postgres postgres;
    struct qn_config_pool prices_pool;
    struct qn_config_prices prices;
    struct qn_config_aggregator aggregator;
    struct qn_config_indexer indexer;
    struct qn_config_source *sources;
    size_t n_sources;
    struct qn_str *fiat;          /* sorted, for bsearch by qn_str_cmp */
    size_t n_fiat;
    struct qn_str *crypto;        /* sorted */
    size_t n_crypto;
    struct qn_asset native_contract; /* [prices] native_contract, default: the public network's */
    enum qn_log_level log_level;
    bool test_clock;              /* [test] allow_clock_offset */
};

/* Reads and validates. Unknown keys, wrong types and bad values are reported one a line to `report` (called with
 * "FILE:LINE: KEY: what is wrong"), all of them before QN_EINVAL is returned; a file that can't be read: QN_EIO,
 * reported too. *out belongs to the caller (qn_config_free). */
QN_MUST enum qn_err qn_config_load(const char *path, void (*report)(void *arg, const char *line), void *arg,
                                   struct qn_config **out);
void qn_config_free(struct qn_config *config);

/* The file to read: `option` (from --config) if not NULL, else QUOIN_CONFIG, else the built-in
 * SYSCONFDIR/quoin/quoin.toml. */
const char *qn_config_path(const char *option);

/* What every program does first: loads the file, reports to stderr, sets log and clock up; exits 78 when it is bad.
 * With check true it prints "FILE: ok" and exits 0 instead of returning. */
struct qn_config *qn_config_start(const char *program, const char *option, bool check);

/* All defaults, no file, for tests. */
struct qn_config *qn_config_defaults(void);

/* One key that the file may have. */
struct qn_config_key {
    const char *section;   /* "pool.prices"; "" for the root */
    const char *name;
    const char *value;     /* its default as TOML, or NULL: unset */
};
/* The i-th key of the table that reading, defaults and documentation share; false past the last one. */
bool qn_config_key_at(size_t i, struct qn_config_key *out);

/* The source's [sources.NAME] or NULL. */
const struct qn_config_source *qn_config_source(const struct qn_config *config, struct qn_str name);

#endif
