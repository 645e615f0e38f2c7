/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "ingest/indexer.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "ingest/ids.h"
#include "ingest/input.h"
#include "ingest/lane.h"
#include "ingest/ndjson.h"
#include "ingest/report.h"
#include "ingest/sources.h"
#include "link/loop.h"

enum {
    EXIT_NO_INPUT = 66,       /* sysexits(3): EX_NOINPUT */
    MAX_LANES = 64,
    CONNECT_MS = 10 * 1000,
    RETRY_MS = 100,           /* between attempts to connect */
    FLUSH_MS = 30 * 1000,
    LOCK_MS = 10 * 1000,
    STANDBY_MS = 500,         /* between attempts to get a source's lock */
    TURN_LINES = 256,         /* lines between turns of the loop, so that the lanes don't starve */
    QUIET_MS = 200,           /* a followed input that is silent for this long: store what is there */
    OLDEST_MS = 1000,         /* and nothing waits longer than this */
    GROW_MS = 100,            /* between looks at a file that may grow */
    ARENA_SIZE = 16 * 1024,
};

/* A lane and its two batches: one is filled while the lane stores the other. */
struct slot {
    struct qn_lane *lane;
    struct qn_batch *batches[2];
    int filling;
};

struct indexer {
    const struct qn_config *config;
    const struct qn_indexer_options *options;
    struct event_base *base;
    struct event *on_term, *on_int;
    bool stop;
    int status;                /* once something has gone wrong: the exit status */
    struct qn_input *input;
    struct qn_report report;
    struct qn_pgconn *control; /* numbers and partitions */
    struct qn_arena *arena;
    struct slot slots[MAX_LANES];
    size_t n_slots;
    struct qn_ndjson_reader *reader;
    struct qn_trade trade;
    struct qn_sources *sources;
    struct qn_ids *ids;
    struct qn_redis *redis;    /* for health, when following */
    int64_t quiet_at, oldest_at;  /* when a followed input is stored; 0: nothing waits */
};

/* ---- things that end a run */

static void fail(struct indexer *ix, int status, const char *what, const char *why)
{
    if (ix->status == QN_EXIT_OK) {
        qn_report_clear(&ix->report);
        fprintf(stderr, "quoin-indexer: %s: %s\n", what, why);
        if (status == QN_EXIT_TEMPFAIL)
            fprintf(stderr, "quoin-indexer: %s: %" PRIu64 " trades of it are stored by now; run again\n",
                    ix->options->path, ix->report.counts.stored);
    }
    ix->status = status;
}

/* A statement on a connection of its own went wrong. */
static void fail_query(struct indexer *ix, struct qn_pgconn *pg, enum qn_err err, const char *what)
{
    fail(ix, qn_pg_gone(err, qn_pgconn_sqlstate(pg)) ? QN_EXIT_TEMPFAIL : QN_EXIT_INTERNAL, what,
         err == QN_EPEER ? qn_pgconn_message(pg) : qn_err_name(err));
}

static bool going(const struct indexer *ix)
{
    return !ix->stop && ix->status == QN_EXIT_OK;
}

static void on_signal(evutil_socket_t number, short what, void *arg)
{
    (void)number;
    (void)what;
    struct indexer *ix = arg;
    ix->stop = true;
}

static void on_refused(void *arg, uint64_t line)
{
    struct indexer *ix = arg;
    qn_report_line(&ix->report, line, "refused: this source and id are stored with other content");
}

static void on_stored(void *arg, struct qn_batch *batch)
{
    struct indexer *ix = arg;
    struct qn_batch_counts counts = qn_batch_count(batch);
    qn_report_add(&ix->report, &counts);
    qn_batch_refused(batch, on_refused, ix);
    qn_batch_reset(batch);
}

/* ---- the lanes */

/* Looks at the lanes after the loop was turned. */
static void check_lanes(struct indexer *ix)
{
    for (size_t i = 0; i < ix->n_slots; i++) {
        struct qn_lane *lane = ix->slots[i].lane;
        switch (qn_lane_state(lane)) {
        case QN_LANE_IDLE:
        case QN_LANE_BUSY:
            break;
        case QN_LANE_GONE:
            fail(ix, QN_EXIT_TEMPFAIL, "the store is gone", qn_lane_why(lane));
            break;
        case QN_LANE_BROKEN:
            fail(ix, QN_EXIT_INTERNAL, "the store refuses", qn_lane_why(lane));
            break;
        }
    }
}

static void turn(struct indexer *ix, int flags)
{
    event_base_loop(ix->base, flags);
    check_lanes(ix);
    qn_report_progress(&ix->report, qn_lines_bytes(qn_input_lines(ix->input)));
}

/* False: something went wrong, or a signal came. */
static bool wait_idle(struct indexer *ix, struct slot *slot)
{
    while (going(ix) && qn_lane_state(slot->lane) == QN_LANE_BUSY)
        turn(ix, EVLOOP_ONCE);
    return going(ix);
}

/* Hands the batch that was filled to the lane. */
static bool store(struct indexer *ix, struct slot *slot)
{
    if (!wait_idle(ix, slot))
        return false;
    struct qn_lane_mark marks[QN_LANE_MAX_MARKS];
    size_t n_marks = 0;
    if (ix->options->follow) {
        qn_sources_health(ix->sources, ix->redis, qn_clock_wall_ms());
        n_marks = qn_sources_marks(ix->sources, marks);
        ix->quiet_at = ix->oldest_at = 0;
    }
    struct qn_batch *batch = slot->batches[slot->filling];
    if (qn_batch_lines(batch) == 0 && n_marks == 0)
        return true;
    slot->filling = !slot->filling;
    qn_lane_store(slot->lane, batch, marks, n_marks);
    return true;
}

static bool store_all(struct indexer *ix)
{
    for (size_t i = 0; i < ix->n_slots; i++) {
        if (!store(ix, &ix->slots[i]))
            return false;
    }
    for (size_t i = 0; i < ix->n_slots; i++) {
        if (!wait_idle(ix, &ix->slots[i]))
            return false;
    }
    return true;
}

/* ---- lines */

static void bad_line(struct indexer *ix, const char *why)
{
    ix->report.bad++;
    qn_report_line(&ix->report, qn_lines_number(qn_input_lines(ix->input)), why);
}

/* Gives the source its number and, when it is followed, takes its lock: a second follower waits here for the first to
 * end, and its input with it. */
static bool ready_source(struct indexer *ix, struct qn_source *source)
{
    if (source->id == 0) {
        enum qn_err err = qn_ids_source(ix->ids, qn_str_of(source->name), &source->id);
        if (err) {
            fail_query(ix, ix->control, err, "numbering a source");
            return false;
        }
    }
    bool told = false;
    struct slot *slot = &ix->slots[0];
    while (ix->options->follow && !source->locked) {
        /* On the connection that stores: when it is lost, so is the lock. */
        if (!wait_idle(ix, slot))
            return false;
        qn_arena_reset(ix->arena);
        struct qn_str params[] = {qn_arena_printf(ix->arena, "%d", source->id)};
        struct qn_rows rows;
        struct qn_pgconn *pg = qn_lane_conn(slot->lane);
        enum qn_err err = qn_pgconn_run(pg, "SELECT pg_try_advisory_lock(hashtext('quoin.follow'), $1::int)", 1, params,
                                        qn_clock_mono_ms() + LOCK_MS, ix->arena, &rows);
        if (err) {
            fail_query(ix, pg, err, "locking a source");
            return false;
        }
        source->locked = rows.nrows == 1 && qn_str_eq(qn_rows_cell(&rows, 0, 0), QN_STR("t"));
        if (source->locked)
            break;
        if (!told)
            fprintf(stderr, "quoin-indexer: another process follows %s: standing by\n", source->name);
        told = true;
        qn_input_pause(ix->input, STANDBY_MS);
        check_lanes(ix);
        if (!going(ix))
            return false;
    }
    if (told)
        fprintf(stderr, "quoin-indexer: following %s\n", source->name);
    return true;
}

static void add_trade(struct indexer *ix, struct qn_source *source, int32_t pair_id)
{
    uint64_t hash = qn_batch_hash(source->id, ix->trade.id);
    struct slot *slot = &ix->slots[(hash >> 40) % ix->n_slots]; /* other bits than the batch's table uses */
    uint64_t number = qn_lines_number(qn_input_lines(ix->input));
    for (;;) {
        struct qn_batch *batch = slot->batches[slot->filling];
        enum qn_batch_added added = qn_batch_add(batch, &ix->trade, hash, source->id, pair_id, number);
        if (added != QN_BATCH_ADDED) {
            if (!store(ix, slot))
                return;
            continue;
        }
        if (qn_batch_lines(batch) == (size_t)ix->config->indexer.batch)
            (void)store(ix, slot); /* what went wrong ends the run by itself */
        return;
    }
}

static void take_trade(struct indexer *ix, const struct qn_ndjson_line *line, int64_t now_ms)
{
    const char *why = NULL;
    struct qn_ids_market market;
    if (!qn_trade_source_valid(line->trade.source)) {
        bad_line(ix, "source is not 1 to 32 of a-z 0-9 . _ -");
        return;
    }
    struct qn_source *source = qn_sources_get(ix->sources, line->trade.source);
    if (!source) {
        bad_line(ix, "more than 256 sources in one input");
        return;
    }
    if (qn_ids_find(ix->ids, line->base, line->quote, &market, &why) ||
        qn_trade_read(&ix->trade, &line->trade, market.flip, source->scale, ix->config->prices.dust_units, now_ms,
                      &why)) {
        bad_line(ix, why);
        return;
    }
    if (!ready_source(ix, source))
        return;
    enum qn_err err = qn_ids_number(ix->ids, &market);
    if (!err)
        err = qn_ids_partition(ix->ids, ix->trade.ts_ms);
    if (err) {
        fail_query(ix, ix->control, err, "numbering a market or making a partition");
        return;
    }
    qn_sources_trade(source, ix->trade.ts_ms, now_ms);
    add_trade(ix, source, market.pair_id);
}

static void take_watermark(struct indexer *ix, const struct qn_ndjson_line *line, int64_t now_ms)
{
    if (!qn_trade_ts_valid(line->trade.ts_ms, now_ms)) {
        bad_line(ix, "watermark is before 2009 or more than 5 minutes ahead of the clock");
        return;
    }
    struct qn_source *source = NULL;
    if (line->trade.source.p) {
        source = qn_sources_get(ix->sources, line->trade.source);
        if (!source) {
            bad_line(ix, "more than 256 sources in one input");
            return;
        }
        if (ix->options->follow && !ready_source(ix, source))
            return;
    }
    ix->report.watermarks++;
    qn_sources_watermark(ix->sources, source, line->trade.ts_ms, now_ms);
}

static void take_line(struct indexer *ix, struct qn_str text)
{
    if (qn_ndjson_blank(text))
        return;
    ix->report.lines++;
    struct qn_ndjson_line line;
    const char *why = NULL;
    if (qn_ndjson_read(ix->reader, text, &line, &why)) {
        bad_line(ix, why);
        return;
    }
    int64_t now_ms = qn_clock_wall_ms();
    if (line.kind == QN_NDJSON_TRADE)
        take_trade(ix, &line, now_ms);
    else
        take_watermark(ix, &line, now_ms);
    int64_t mono = qn_clock_mono_ms();
    ix->quiet_at = mono + QUIET_MS;
    if (ix->oldest_at == 0)
        ix->oldest_at = mono + OLDEST_MS;
}

static void take_got(struct indexer *ix, enum qn_lines_got got, struct qn_str text)
{
    if (got == QN_LINES_LINE) {
        take_line(ix, text);
    } else if (got == QN_LINES_TOO_LONG) {
        ix->report.lines++;
        bad_line(ix, "longer than 65536 bytes");
    }
}

/* ---- input */

/* Milliseconds until a followed input must be stored; -1: nothing waits. */
static int64_t due_ms(const struct indexer *ix)
{
    if (!ix->options->follow || ix->oldest_at == 0)
        return -1;
    int64_t at = ix->quiet_at < ix->oldest_at ? ix->quiet_at : ix->oldest_at;
    int64_t left = at - qn_clock_mono_ms();
    return left > 0 ? left : 0;
}

/* Gets more input, or waits for it. False: there will be no more. */
static bool more(struct indexer *ix)
{
    enum qn_err err = qn_input_more(ix->input, due_ms(ix));
    check_lanes(ix);
    switch (err) {
    case QN_OK:
    case QN_ETIMEOUT:
        return true;
    case QN_MISS:
        if (!ix->options->follow || qn_input_ends(ix->input))
            return false;
        qn_input_pause(ix->input, GROW_MS);
        return true;
    case QN_ECONFLICT:
        if (!ix->options->follow)
            return false;
        fprintf(stderr, "quoin-indexer: %s was truncated: reading it from its start\n", ix->options->path);
        err = qn_input_rewind(ix->input);
        if (!err)
            return true;
        break;
    default:
        break;
    }
    fail(ix, QN_EXIT_TEMPFAIL, ix->options->path, strerror(errno));
    return false;
}

static void read_all(struct indexer *ix)
{
    struct qn_lines *lines = qn_input_lines(ix->input);
    struct qn_str text = QN_STR_NULL;
    unsigned taken = 0;
    while (going(ix)) {
        enum qn_lines_got got = qn_lines_next(lines, &text);
        if (got == QN_LINES_MORE) {
            if (!more(ix))
                break;
        } else {
            take_got(ix, got, text);
        }
        if (got == QN_LINES_MORE || ++taken % TURN_LINES == 0) {
            turn(ix, EVLOOP_NONBLOCK);
            if (due_ms(ix) == 0 && going(ix))
                (void)store(ix, &ix->slots[0]);
        }
    }
    if (going(ix))
        take_got(ix, qn_lines_last(lines, &text), text);
}

/* ---- a run */

/* Tries until it works or the time is up: a store that is starting refuses at first. */
static enum qn_err connect_within(struct indexer *ix, enum qn_err (*attempt)(void *arg, int64_t deadline), void *arg,
                                  const struct qn_pgconn *pg)
{
    int64_t deadline = qn_clock_mono_ms() + CONNECT_MS;
    for (;;) {
        enum qn_err err = attempt(arg, deadline);
        if (!err || !going(ix) || !qn_pg_gone(err, qn_pgconn_sqlstate(pg)) || qn_clock_mono_ms() + RETRY_MS >= deadline)
            return err;
        qn_input_pause(ix->input, RETRY_MS);
    }
}

static enum qn_err connect_control(void *arg, int64_t deadline)
{
    struct qn_pgconn *pg = arg;
    enum qn_err err = qn_pgconn_run_connect(pg, NULL, 0, deadline);
    /* Names and partitions are made durable with the trades that need them: the log is one. */
    return err ? err : qn_pgconn_run_script(pg, "SET synchronous_commit = off", deadline);
}

static enum qn_err connect_lane(void *arg, int64_t deadline)
{
    return qn_lane_connect(arg, deadline);
}

static bool connect_all(struct indexer *ix)
{
    const char *dsn = ix->config->postgres.direct_dsn;
    ix->control = qn_pgconn_new(ix->base, dsn, "quoin-indexer", 0);
    ix->ids = qn_ids_new(ix->config, ix->control);
    enum qn_err err = connect_within(ix, connect_control, ix->control, ix->control);
    if (err) {
        fail(ix, QN_EXIT_TEMPFAIL, "can't connect to Postgres", qn_pgconn_message(ix->control));
        return false;
    }
    for (size_t i = 0; i < ix->n_slots; i++) {
        struct slot *slot = &ix->slots[i];
        slot->lane = qn_lane_new(ix->base, dsn, ix->options->follow, on_stored, ix);
        for (size_t k = 0; k < QN_LEN(slot->batches); k++)
            slot->batches[k] = qn_batch_new((size_t)ix->config->indexer.batch);
        struct qn_pgconn *pg = qn_lane_conn(slot->lane);
        err = connect_within(ix, connect_lane, slot->lane, pg);
        if (err && strcmp(qn_pgconn_sqlstate(pg), "42P01") == 0) {
            fail(ix, QN_EXIT_INTERNAL, "the database has no schema of quoin's", "run quoin migrate");
            return false;
        }
        if (err) {
            fail(ix, qn_pg_gone(err, qn_pgconn_sqlstate(pg)) ? QN_EXIT_TEMPFAIL : QN_EXIT_INTERNAL,
                 "can't connect to Postgres", qn_pgconn_message(pg));
            return false;
        }
    }
    return true;
}

/* Commits did not wait for the disk: one that does, and that writes something, makes all before it durable. The end of a
 * file wakes the aggregator, which else would look a few seconds later. */
static void flush(struct indexer *ix)
{
    int64_t deadline = qn_clock_mono_ms() + FLUSH_MS;
    enum qn_err err = qn_pgconn_run_script(ix->control, "SET synchronous_commit = on", deadline);
    if (!err)
        err = qn_pgconn_run_script(ix->control, "SELECT pg_logical_emit_message(true, 'quoin', ''); NOTIFY quoin_import",
                                   deadline);
    if (err)
        fail_query(ix, ix->control, err, "making it durable");
}

static void run(struct indexer *ix)
{
    if (!connect_all(ix))
        return;
    read_all(ix);
    if (going(ix) && store_all(ix))
        flush(ix);
    if (ix->stop)
        fail(ix, QN_EXIT_TEMPFAIL, ix->options->path, "stopped by a signal");
}

static size_t lanes_wanted(const struct qn_config *config, bool follow)
{
    if (follow)
        return 1;
    long n = config->indexer.connections > 0 ? config->indexer.connections : sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > MAX_LANES ? MAX_LANES : (size_t)n;
}

static struct event *signal_event(struct indexer *ix, int number)
{
    struct event *e = qn_loop_event(ix->base, number, EV_SIGNAL | EV_PERSIST, on_signal, ix);
    event_add(e, NULL);
    return e;
}

static void finish(struct indexer *ix)
{
    for (size_t i = 0; i < ix->n_slots; i++) {
        qn_lane_free(ix->slots[i].lane);
        for (size_t k = 0; k < QN_LEN(ix->slots[i].batches); k++)
            qn_batch_free(ix->slots[i].batches[k]);
    }
    qn_pgconn_free(ix->control);
    qn_redis_free(ix->redis);
    qn_ids_free(ix->ids);
    qn_sources_free(ix->sources);
    qn_trade_clear(&ix->trade);
    qn_ndjson_reader_free(ix->reader);
    qn_arena_free(ix->arena);
    qn_input_close(ix->input);
    event_free(ix->on_term);
    event_free(ix->on_int);
    event_base_free(ix->base);
}

int qn_indexer_run(const struct qn_config *config, const struct qn_indexer_options *options)
{
    struct indexer ix = {.config = config, .options = options, .base = event_base_new()};
    if (!ix.base) {
        fputs("quoin-indexer: no event loop\n", stderr);
        return QN_EXIT_INTERNAL;
    }
    /* The input is opened before signals are caught: a fifo without a writer can then be given up by one. */
    if (qn_input_open(ix.base, options->path, QN_NDJSON_MAX_LINE, &ix.input)) {
        fprintf(stderr, "quoin-indexer: %s: %s\n", options->path, strerror(errno));
        event_base_free(ix.base);
        return EXIT_NO_INPUT;
    }
    ix.on_term = signal_event(&ix, SIGTERM);
    ix.on_int = signal_event(&ix, SIGINT);
    qn_report_init(&ix.report, options->path, options->follow ? 0 : qn_input_size(ix.input), !options->quiet);
    ix.arena = qn_arena_new(ARENA_SIZE);
    ix.reader = qn_ndjson_reader_new();
    qn_trade_init(&ix.trade);
    ix.sources = qn_sources_new(config);
    ix.n_slots = lanes_wanted(config, options->follow);
    if (options->follow)
        ix.redis = qn_redis_new(ix.base, &config->redis);

    run(&ix);

    if (ix.status == QN_EXIT_OK && (ix.report.bad || ix.report.counts.refused))
        ix.status = QN_EXIT_DATA;
    bool complete = ix.status == QN_EXIT_OK || ix.status == QN_EXIT_DATA;
    qn_report_clear(&ix.report);
    if (!options->quiet || options->json)
        qn_report_summary(&ix.report, stdout, options->json, complete);
    finish(&ix);
    return ix.status;
}
