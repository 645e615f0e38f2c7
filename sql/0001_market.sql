-- SPDX-License-Identifier: BSD-2-Clause
-- Copyright (c) the quoin authors
--
-- Trades, candles and what the horizon is decided from (contract-prices, section 8).

CREATE TABLE sources (
    id int2 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE CHECK (name ~ '^[a-z0-9._-]{1,32}$')
);

CREATE TABLE assets (
    id int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    canonical text COLLATE "C" NOT NULL UNIQUE
);

-- A market in stored direction: the bytewise smaller canonical string is the base.
-- held_until: set by the aggregator when the last of the pair's followed sources died; the horizon stays there until one
-- of them has caught up.
CREATE TABLE pairs (
    id int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    base int4 NOT NULL REFERENCES assets,
    quote int4 NOT NULL REFERENCES assets,
    held_until timestamptz,
    UNIQUE (base, quote)
);
CREATE INDEX pairs_quote ON pairs (quote);

-- The identity of every trade ever stored; written first, in the transaction that stores the trade. No foreign key: its
-- check would cost each trade more than all else does, and a source is never deleted.
CREATE TABLE trade_ids (
    source_id int2 NOT NULL,
    trade_id text COLLATE "C" NOT NULL,
    ts timestamptz NOT NULL,
    PRIMARY KEY (source_id, trade_id)
);

-- flags: 1 unpriced (an amount is zero or negative: price_n and price_d are null), 2 dust, 4 the quoted n/d contradicted
-- the amounts, 8 the price is the source's own n/d. ord: the id, its runs of digits ordered as numbers, bytewise.
CREATE TABLE trades (
    source_id int2 NOT NULL,
    trade_id text COLLATE "C" NOT NULL,
    ord bytea NOT NULL,
    ts timestamptz NOT NULL,
    pair_id int4 NOT NULL,
    base_amount numeric NOT NULL,
    quote_amount numeric NOT NULL,
    price_n numeric,
    price_d numeric,
    flags int2 NOT NULL,
    ledger int8,
    extra jsonb
) PARTITION BY RANGE (ts);
CREATE INDEX trades_pair_ts ON trades (pair_id, ts);

-- Makes the partition of the month that p_ts is in, once; safe to call from several sessions.
CREATE FUNCTION trades_partition(p_ts timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_start timestamptz := date_trunc('month', p_ts, 'UTC');
    v_name text := 'trades_' || to_char(v_start AT TIME ZONE 'UTC', 'YYYY_MM');
BEGIN
    IF to_regclass(v_name) IS NULL THEN
        -- One maker at a time. An advisory lock would not do: only a table's lock makes a session see that another has
        -- made the partition meanwhile.
        LOCK TABLE trades IN SHARE UPDATE EXCLUSIVE MODE;
        IF to_regclass(v_name) IS NULL THEN
            -- Made apart and attached: unlike CREATE … PARTITION OF, that waits for no reader or writer of trades and
            -- makes none wait.
            EXECUTE format('CREATE TABLE %I (LIKE trades INCLUDING DEFAULTS INCLUDING INDEXES)', v_name);
            EXECUTE format('ALTER TABLE trades ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', v_name, v_start,
                date_trunc('month', v_start + interval '1 month', 'UTC'));
        END IF;
    END IF;
END $$;

-- Minutes whose candles must be made again. Append-only: the aggregator deletes exactly the rows that it read.
CREATE TABLE dirty (
    id bigserial PRIMARY KEY,
    pair_id int4 NOT NULL,
    minute timestamptz NOT NULL
);
CREATE INDEX dirty_pair_minute ON dirty (pair_id, minute);

-- One row a followed source, and row 0, the clock's. watermark, seen_at: the indexer's. closed_until, alive: decided and
-- committed by the aggregator alone, with the candles.
CREATE TABLE progress (
    source_id int2 PRIMARY KEY,
    watermark timestamptz,
    seen_at timestamptz,
    closed_until timestamptz NOT NULL DEFAULT '-infinity',
    alive boolean NOT NULL DEFAULT true
);
INSERT INTO progress (source_id) VALUES (0);

-- The followed sources that bound a pair's horizon. A source that traded the pair within a day comes in when it has read
-- as far as the pair's horizon, so that no horizon ever goes backwards (pair_sources alone would put it back: a source
-- that is new to a pair is behind its horizon). Written by the aggregator alone.
CREATE TABLE pair_followed (
    pair_id int4 NOT NULL REFERENCES pairs,
    source_id int2 NOT NULL REFERENCES progress ON DELETE CASCADE,
    PRIMARY KEY (pair_id, source_id)
);
CREATE INDEX pair_followed_source ON pair_followed (source_id);

-- grain: the bucket's length in seconds (1w 604800, 1mo 2592000). Prices are exact: numerator and denominator of each.
-- dust: open, high, low and close are of dust trades, because the bucket has no others.
-- sources: ids, ascending. version goes up with each rewrite.
CREATE TABLE candles (
    pair_id int4 NOT NULL,
    grain int4 NOT NULL,
    t timestamptz NOT NULL,
    open_n numeric NOT NULL,
    open_d numeric NOT NULL,
    high_n numeric NOT NULL,
    high_d numeric NOT NULL,
    low_n numeric NOT NULL,
    low_d numeric NOT NULL,
    close_n numeric NOT NULL,
    close_d numeric NOT NULL,
    base_volume numeric NOT NULL,
    quote_volume numeric NOT NULL,
    trades int8 NOT NULL,
    sources int2[] NOT NULL,
    dust boolean NOT NULL,
    version int8 NOT NULL DEFAULT 1,
    PRIMARY KEY (pair_id, grain, t)
);

-- What each source has of each pair: the newest trade in the total order, and the span of what was ingested.
CREATE TABLE pair_sources (
    pair_id int4 NOT NULL REFERENCES pairs,
    source_id int2 NOT NULL REFERENCES sources,
    first_ts timestamptz NOT NULL,
    last_ts timestamptz NOT NULL,
    last_ord bytea NOT NULL,
    last_id text COLLATE "C" NOT NULL,
    last_base_amount numeric NOT NULL,
    last_quote_amount numeric NOT NULL,
    last_n numeric,
    last_d numeric,
    PRIMARY KEY (pair_id, source_id)
);
CREATE INDEX pair_sources_source ON pair_sources (source_id);

-- Where a source that is followed by cursor stands.
CREATE TABLE cursors (
    source_id int2 PRIMARY KEY REFERENCES sources,
    cursor text NOT NULL,
    updated_at timestamptz NOT NULL
);

CREATE TABLE api_keys (
    hash text COLLATE "C" PRIMARY KEY,
    record jsonb NOT NULL,
    version int8 NOT NULL,
    updated_at timestamptz NOT NULL
);

CREATE TABLE usage_daily (
    subject text COLLATE "C" NOT NULL,
    day date NOT NULL,
    ok int8 NOT NULL DEFAULT 0,
    client_errors int8 NOT NULL DEFAULT 0,
    throttled int8 NOT NULL DEFAULT 0,
    server_errors int8 NOT NULL DEFAULT 0,
    PRIMARY KEY (subject, day)
);

-- The horizon of a pair: the end of its newest closed minute (design, section 6). Null before the first aggregation.
CREATE FUNCTION horizon(p_pair int4) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT nullif(LEAST(p.held_until, c.closed_until, (
        SELECT min(f.closed_until) FROM pair_followed x JOIN progress f ON f.source_id = x.source_id
        WHERE x.pair_id = p.id)), '-infinity')
    FROM pairs p, progress c
    WHERE p.id = p_pair AND c.source_id = 0
$$;

-- Whether a followed source that traded the pair within a day is silent.
CREATE FUNCTION redundancy_reduced(p_pair int4) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM pair_sources ps JOIN progress f ON f.source_id = ps.source_id, progress c
        WHERE ps.pair_id = p_pair AND NOT f.alive AND c.source_id = 0
          AND ps.last_ts >= c.closed_until - interval '24 hours')
$$;
