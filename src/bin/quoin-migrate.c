/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * quoin migrate: runs the files of sql/ that the database has not seen, each in one transaction with its row in
 * schema_version. A session advisory lock makes a second migrate wait and then find nothing to do.
 */
#include "base/base.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "bin/commands.h"
#include "bin/migrations.h"
#include "link/pgconn.h"

enum {
    CONNECT_MS = 10 * 1000,
    LOCK_MS = 10 * 60 * 1000,  /* another migrate may be building an index */
    QUERY_MS = 10 * 1000,
    APPLY_MS = 60 * 60 * 1000,
};

struct migrate {
    struct event_base *base;
    struct qn_pgconn *pg;
    struct qn_arena *arena;
};

static const char create_table[] =
    "CREATE TABLE IF NOT EXISTS schema_version ("
    "version int PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL)";

static void usage(FILE *out)
{
    fputs("usage: quoin migrate [OPTION]...\n"
          "Creates the database schema or brings it up to date; does nothing when it is.\n\n"
          "  -c, --config FILE  the configuration (default: $QUOIN_CONFIG or " QN_SYSCONFDIR "/quoin/quoin.toml)\n"
          "      --check        change nothing: print the state, exit 0 when up to date, 1 when not\n"
          "  -h, --help         this text\n"
          "  -V, --version      the version\n\n"
          "exit status: 0 done, 65 the schema is newer than this program, 70 a migration failed,\n"
          "75 the database can't be reached, 78 the configuration is wrong\n", out);
}

/* Says what went wrong and returns the exit status for it. */
static int failed(const struct migrate *m, enum qn_err err, const char *what)
{
    if (err == QN_EPEER) {
        fprintf(stderr, "quoin migrate: %s: %s (SQLSTATE %s)\n", what, qn_pgconn_message(m->pg),
                qn_pgconn_sqlstate(m->pg));
        return QN_EXIT_INTERNAL;
    }
    fprintf(stderr, "quoin migrate: %s: %s\n", what, qn_err_name(err));
    return QN_EXIT_TEMPFAIL;
}

static enum qn_err ask(struct migrate *m, const char *sql, int nparams, const struct qn_str *params, int64_t wait_ms,
                       struct qn_rows *rows)
{
    return qn_pgconn_run(m->pg, sql, nparams, params, qn_clock_mono_ms() + wait_ms, m->arena, rows);
}

/* The newest version applied, 0 when there is none or no table yet. */
static enum qn_err current(struct migrate *m, int *version)
{
    struct qn_rows rows;
    enum qn_err err = ask(m, "SELECT to_regclass('schema_version') IS NOT NULL", 0, NULL, QUERY_MS, &rows);
    if (err)
        return err;
    *version = 0;
    if (rows.nrows != 1 || !qn_str_eq(qn_rows_cell(&rows, 0, 0), QN_STR("t")))
        return QN_OK;
    err = ask(m, "SELECT coalesce(max(version), 0) FROM schema_version", 0, NULL, QUERY_MS, &rows);
    if (err)
        return err;
    uint64_t v;
    if (rows.nrows != 1 || qn_str_u64(qn_rows_cell(&rows, 0, 0), INT32_MAX, &v))
        return QN_ECORRUPT;
    *version = (int)v;
    return QN_OK;
}

static int apply(struct migrate *m, const struct qn_migration *step)
{
    char what[128];
    snprintf(what, sizeof what, "%04d_%s", step->version, step->name);
    enum qn_err err = qn_pgconn_run_script(m->pg, "BEGIN", qn_clock_mono_ms() + QUERY_MS);
    if (!err)
        err = qn_pgconn_run_script(m->pg, step->sql, qn_clock_mono_ms() + APPLY_MS);
    if (!err) {
        struct qn_str params[] = {qn_arena_printf(m->arena, "%d", step->version),
                                  qn_arena_copy(m->arena, qn_str_of(step->name))};
        err = ask(m, "INSERT INTO schema_version (version, name, applied_at) VALUES ($1::int, $2, now())",
                  QN_LEN(params), params, QUERY_MS, NULL);
    }
    if (!err)
        err = qn_pgconn_run_script(m->pg, "COMMIT", qn_clock_mono_ms() + QUERY_MS);
    if (err)
        return failed(m, err, what); /* the connection is closed by the caller: that rolls back */
    printf("%s: applied\n", what);
    return QN_EXIT_OK;
}

static int migrate(struct migrate *m)
{
    struct qn_rows rows;
    enum qn_err err = ask(m, "SELECT pg_advisory_lock(hashtext('quoin'), hashtext('migrate'))", 0, NULL, LOCK_MS,
                          &rows);
    if (err)
        return failed(m, err, "waiting for another migrate");
    err = qn_pgconn_run_script(m->pg, create_table, qn_clock_mono_ms() + QUERY_MS);
    int version;
    if (!err)
        err = current(m, &version);
    if (err)
        return failed(m, err, "reading schema_version");
    int known = qn_migrations[qn_migrations_n - 1].version;
    if (version > known) {
        fprintf(stderr, "quoin migrate: the schema is version %d, newer than the %d that this program knows; "
                "nothing was changed\n", version, known);
        return QN_EXIT_DATA;
    }
    for (size_t i = 0; i < qn_migrations_n; i++) {
        if (qn_migrations[i].version <= version)
            continue;
        int status = apply(m, &qn_migrations[i]);
        if (status)
            return status;
    }
    printf("schema version %d\n", known);
    return QN_EXIT_OK;
}

static int check(struct migrate *m)
{
    int version;
    enum qn_err err = current(m, &version);
    if (err)
        return failed(m, err, "reading schema_version");
    int known = qn_migrations[qn_migrations_n - 1].version;
    if (version == known) {
        printf("schema version %d, up to date\n", version);
        return QN_EXIT_OK;
    }
    printf("schema version %d, this program's is %d: %s\n", version, known,
           version < known ? "run quoin migrate" : "the program is too old");
    return QN_EXIT_FAIL;
}

int qn_command_migrate(int argc, char **argv)
{
    enum { OPT_CHECK = 256 };
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'},
        {"check", no_argument, NULL, OPT_CHECK},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    const char *path = NULL;
    bool only_check = false;
    int opt;
    while ((opt = getopt_long(argc, argv, "c:hV", options, NULL)) != -1) {
        switch (opt) {
        case 'c':
            path = optarg;
            break;
        case OPT_CHECK:
            only_check = true;
            break;
        case 'h':
            usage(stdout);
            return QN_EXIT_OK;
        case 'V':
            puts("quoin " PACKAGE_VERSION);
            return QN_EXIT_OK;
        default:
            usage(stderr);
            return QN_EXIT_USAGE;
        }
    }
    if (optind != argc) {
        usage(stderr);
        return QN_EXIT_USAGE;
    }
    struct qn_config *config = qn_config_start("quoin", path, false);
    struct migrate m = {.base = event_base_new()};
    if (!m.base) {
        fputs("quoin migrate: no event loop\n", stderr);
        qn_config_free(config);
        return QN_EXIT_INTERNAL;
    }
    m.arena = qn_arena_new(4096);
    m.pg = qn_pgconn_new(m.base, config->postgres.direct_dsn, "quoin-migrate", 0);
    enum qn_err err = qn_pgconn_run_connect(m.pg, NULL, 0, qn_clock_mono_ms() + CONNECT_MS);
    int status;
    if (err) {
        const char *why = qn_pgconn_message(m.pg);
        fprintf(stderr, "quoin migrate: can't connect to Postgres: %s\n", *why ? why : qn_err_name(err));
        status = QN_EXIT_TEMPFAIL;
    } else {
        status = only_check ? check(&m) : migrate(&m);
    }
    qn_pgconn_free(m.pg);
    qn_arena_free(m.arena);
    event_base_free(m.base);
    qn_config_free(config);
    return status;
}
