/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "market/statements.h"

/* One row an ask, group and window. A group is a pool of markets that are summed; the groups of one hset share the
 * smaller horizon (the two legs of a hop). Groups none of whose markets exist have no row.
 *
 *  0 ask  1 group  2 window (position, from 1)  3 H  4 a followed source is silent
 *  5 end of the newest minute with a trade  6 it is in the window  7 it is in the lookback
 *  8-10 the window's base, quote, trades   11-13 the day's   14, 15 the reference's base, quote (null: none)
 *  16, 17 the newest close's n, d   18 names of the sources of what is priced
 */
static const char PRICE[] =
    "WITH legs AS MATERIALIZED ("
    " SELECT l.ask, l.hset, l.grp, l.flip, l.pos, p.id, horizon(p.id) AS h, redundancy_reduced(p.id) AS reduced"
    " FROM unnest($1::int4[], $2::int4[], $3::int4[], $4::text[], $5::text[], $6::boolean[])"
    "   WITH ORDINALITY AS l(ask, hset, grp, base, quote, flip, pos)"
    " JOIN assets b ON b.canonical = l.base JOIN assets q ON q.canonical = l.quote"
    " JOIN pairs p ON p.base = b.id AND p.quote = q.id"
    "), hsets AS (SELECT ask, hset, min(h) AS h FROM legs GROUP BY ask, hset"
    "), pools AS MATERIALIZED ("
    " SELECT g.ask, g.grp, s.h, g.reduced, g.pairs, g.flips, pool_last_minute(g.pairs, s.h) AS last,"
    "  s.h - interval '24 hours' AS day, pool_last_minute(g.pairs, s.h - interval '24 hours') AS day_last"
    " FROM (SELECT ask, hset, grp, array_agg(id ORDER BY pos) AS pairs, array_agg(flip ORDER BY pos) AS flips,"
    "   bool_or(reduced) AS reduced FROM legs GROUP BY ask, hset, grp) g"
    " JOIN hsets s USING (ask, hset) WHERE s.h IS NOT NULL"
    ")"
    " SELECT p.ask, p.grp, w.pos, epoch_ms(p.h), p.reduced, epoch_ms(p.last), p.last > p.h - w.span,"
    "  p.last > p.h - $8::int4 * interval '1 second',"
    "  s.base, s.quote, s.trades, d.base, d.quote, d.trades,"
    "  CASE WHEN x.till IS NOT NULL THEN r.base END, CASE WHEN x.till IS NOT NULL THEN r.quote END, c.n, c.d,"
    "  array_to_string(pool_sources(p.pairs, coalesce(e.till - w.span, p.last - interval '1 minute'),"
    "   coalesce(e.till, p.last)), ',')"
    " FROM pools p"
    " CROSS JOIN LATERAL (SELECT u.seconds * interval '1 second' AS span, u.pos"
    "  FROM unnest($7::int4[]) WITH ORDINALITY AS u(seconds, pos)) w"
    " CROSS JOIN LATERAL (SELECT CASE WHEN p.last > p.h - w.span THEN p.h"
    "  WHEN p.last > p.h - $8::int4 * interval '1 second' THEN p.last END AS till) e"
    " CROSS JOIN LATERAL (SELECT CASE WHEN p.day_last > p.day - w.span THEN p.day"
    "  WHEN p.day_last >= p.day - interval '8640 seconds' THEN p.day_last END AS till) x"
    " CROSS JOIN LATERAL pool_sums(p.pairs, p.flips, e.till - w.span, e.till) s"
    " CROSS JOIN LATERAL pool_sums(p.pairs, p.flips, p.day, p.h) d"
    " CROSS JOIN LATERAL pool_sums(p.pairs, p.flips, x.till - w.span, x.till) r"
    " CROSS JOIN LATERAL pool_close(p.pairs, p.flips, p.last) c"
    " WHERE p.last IS NOT NULL ORDER BY p.ask, w.pos, p.grp";

/* What a range of one market needs besides its rows, over m (the market, if it is known), k (H and the range) and v (what
 * was ingested: a file's trades widened to UTC days, a followed source's until H). $1, $2 the stored base and quote.
 * Columns: H, a followed source is silent, from, to, coverage from and to (not clipped), trades of the range (or a little
 * behind it) wait to be aggregated. One row at least comes back: the range's own columns are null where it is empty. */
#define RANGE_HEAD(from, to, default_from) \
    "WITH m AS MATERIALIZED (SELECT p.id, horizon(p.id) AS h FROM pairs p" \
    " JOIN assets b ON b.id = p.base JOIN assets q ON q.id = p.quote WHERE b.canonical = $1 AND q.canonical = $2" \
    "), h AS MATERIALIZED (SELECT coalesce((SELECT h FROM m)," \
    "  (SELECT nullif(closed_until, '-infinity') FROM progress WHERE source_id = 0)) AS h" \
    "), k AS MATERIALIZED (SELECT h.h, coalesce((SELECT redundancy_reduced(id) FROM m), false) AS reduced," \
    "  coalesce(to_timestamp_ms(" from "::int8), " default_from ") AS since, e.till" \
    "  FROM h CROSS JOIN LATERAL (SELECT coalesce(to_timestamp_ms(" to "::int8), h.h) AS till) e" \
    "), v AS (SELECT min(CASE WHEN f.source_id IS NULL THEN date_trunc('day', ps.first_ts, 'UTC') ELSE ps.first_ts END)" \
    "   AS since," \
    "  max(CASE WHEN f.source_id IS NULL THEN date_trunc('day', ps.last_ts, 'UTC') + interval '1 day'" \
    "   ELSE GREATEST(m.h, ps.first_ts) END) AS till" \
    " FROM m JOIN pair_sources ps ON ps.pair_id = m.id LEFT JOIN progress f ON f.source_id = ps.source_id" \
    "), head AS MATERIALIZED (SELECT epoch_ms(k.h), k.reduced, epoch_ms(k.since), epoch_ms(k.till), epoch_ms(v.since)," \
    "  epoch_ms(v.till), EXISTS (SELECT FROM m JOIN dirty d ON d.pair_id = m.id WHERE d.minute >= k.since" \
    "   AND d.minute < k.till + interval '1 month') FROM k CROSS JOIN v)"

#define RANGE_COLUMNS " SELECT head.*,"

/* $3 grain, $4 from, $5 to (ms, null: not given), $6 rows (a page and one), $7 open buckets too, $8 buckets before this
 * start only (ms, a cursor's; null: none), $9 the bucket's length, $10 the default range's length, counted back from the
 * start of the bucket that the end is in (intervals; 1970-01-05 was a Monday). Newest first. A bucket belongs to the range
 * when from <= t < to; it is closed when its end is at or before H. The names of the page's sources are in every row.
 * LATERAL and its LIMIT make it one walk down the index, however long the range. */
static const char OHLC[] = RANGE_HEAD("$4", "$5", "CASE WHEN $3::int4 = 2592000 THEN date_trunc('month', e.till, 'UTC')"
    "  ELSE date_bin($9::interval, e.till, timestamptz '1970-01-05 00:00:00+00') END - $10::interval")
    ", c AS MATERIALIZED (SELECT c.* FROM m CROSS JOIN k CROSS JOIN LATERAL (SELECT c.* FROM candles c"
    "  WHERE c.pair_id = m.id AND c.grain = $3::int4 AND c.t >= k.since"
    "  AND c.t < CASE WHEN $7::boolean AND $5::int8 IS NULL THEN 'infinity' ELSE k.till END"
    "  AND c.t < coalesce(to_timestamp_ms($8::int8), 'infinity')"
    "  AND c.t <= CASE WHEN $7::boolean THEN 'infinity' ELSE k.h - $9::interval END"
    "  ORDER BY c.t DESC LIMIT $6::int4) c"
    "), n AS (SELECT string_agg(s.name, ',' ORDER BY s.name) AS names FROM sources s WHERE s.id IN"
    "  (SELECT unnest(p.sources) FROM (SELECT c.sources FROM c LIMIT $6::int4 - 1) p))"
    RANGE_COLUMNS
    " epoch_ms(c.t), c.open_n, c.open_d, c.high_n, c.high_d, c.low_n, c.low_d, c.close_n, c.close_d,"
    " c.base_volume, c.quote_volume, c.trades, n.names, c.t + $9::interval <= k.h"
    " FROM head CROSS JOIN k CROSS JOIN n LEFT JOIN c ON true ORDER BY c.t DESC";

/* $3 from, $4 to (ms, null: not given), $5 rows (a page and one), $6-$9 the cursor's ts (ms), source, ord (hex), id; null:
 * none. What is left of the cursor's own moment, and then whole moments until there are enough rows: each is one walk
 * along the index, however long the range, and only those few rows are put in total order. */
#define HISTORY(order, compare) RANGE_HEAD("$3", "$4", "e.till - interval '1 hour'") \
    ", t AS MATERIALIZED (SELECT t.*, s.name FROM m CROSS JOIN k CROSS JOIN LATERAL (" \
    "  (SELECT t.* FROM trades t WHERE t.pair_id = m.id AND t.ts = to_timestamp_ms($6::int8)" \
    "   AND t.ts >= k.since AND t.ts < LEAST(k.till, k.h)" \
    "   AND ((SELECT s.name FROM sources s WHERE s.id = t.source_id), t.ord, t.trade_id) " compare \
    "    ($7::text COLLATE \"C\", decode($8::text, 'hex'), $9::text COLLATE \"C\"))" \
    "  UNION ALL (SELECT t.* FROM trades t WHERE t.pair_id = m.id AND t.ts >= k.since AND t.ts < LEAST(k.till, k.h)" \
    "   AND t.ts " compare " coalesce(to_timestamp_ms($6::int8), " EDGE_##order ")" \
    "   ORDER BY t.ts " #order " FETCH FIRST ($5::int4) ROWS WITH TIES)) t JOIN sources s ON s.id = t.source_id" \
    "  ORDER BY t.ts " #order ", s.name " #order ", t.ord " #order ", t.trade_id " #order " LIMIT $5::int4)" \
    RANGE_COLUMNS \
    " t.trade_id, t.name, epoch_ms(t.ts), t.base_amount, t.quote_amount, t.price_n, t.price_d, encode(t.ord, 'hex')" \
    " FROM head LEFT JOIN t ON true" \
    " ORDER BY t.ts " #order ", t.name " #order ", t.ord " #order ", t.trade_id " #order
#define EDGE_ASC "'-infinity'"
#define EDGE_DESC "'infinity'"

const struct qn_stmt qn_market_stmts[QN_MARKET_STMTS] = {
    [QN_STMT_PRICE] = {"price", PRICE, 8},
    [QN_STMT_OHLC] = {"ohlc", OHLC, 10},
    [QN_STMT_HISTORY_ASC] = {"history_asc", HISTORY(ASC, ">"), 9},
    [QN_STMT_HISTORY_DESC] = {"history_desc", HISTORY(DESC, "<"), 9},
    [QN_STMT_SCHEMA] = {"schema", "SELECT max(version) FROM schema_version", 0},
};
