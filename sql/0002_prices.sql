-- SPDX-License-Identifier: BSD-2-Clause
-- Copyright (c) the quoin authors
--
-- The sums that a price is made of (contract-prices, sections 1 and 2). One definition for the cold path of the workers
-- and for the hot values of the aggregator, so that both give the same bytes. Sums and n/d pairs only: the one division
-- of the product is in C. plpgsql because a session keeps its plans.

CREATE FUNCTION epoch_ms(p timestamptz) RETURNS int8 LANGUAGE sql IMMUTABLE AS $$
    SELECT (extract(epoch FROM p) * 1000)::int8
$$;

-- Exact, unlike to_timestamp, which takes a double.
CREATE FUNCTION to_timestamp_ms(p int8) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
    SELECT timestamptz '1970-01-01 00:00:00+00' + p * interval '1 millisecond'
$$;

-- The end of the newest minute before p_before in which one of the markets traded; null when none did.
CREATE FUNCTION pool_last_minute(p_pairs int4[], p_before timestamptz) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT max(l.t) + interval '1 minute' FROM unnest(p_pairs) AS u(id) CROSS JOIN LATERAL (
        SELECT c.t FROM candles c WHERE c.pair_id = u.id AND c.grain = 60 AND c.t < p_before ORDER BY c.t DESC LIMIT 1) l);
END $$;

-- Sums of the 1m candles of several markets in [p_from, p_to), each turned into the direction asked for.
CREATE FUNCTION pool_sums(p_pairs int4[], p_flips boolean[], p_from timestamptz, p_to timestamptz,
    OUT base numeric, OUT quote numeric, OUT trades int8) LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT coalesce(sum(CASE WHEN u.flip THEN c.quote_volume ELSE c.base_volume END), 0),
           coalesce(sum(CASE WHEN u.flip THEN c.base_volume ELSE c.quote_volume END), 0),
           coalesce(sum(c.trades), 0)::int8
    INTO base, quote, trades
    FROM unnest(p_pairs, p_flips) AS u(id, flip)
    JOIN candles c ON c.pair_id = u.id AND c.grain = 60 AND c.t >= p_from AND c.t < p_to;
END $$;

-- The names of the sources that traded the markets in [p_from, p_to), in bytewise order.
CREATE FUNCTION pool_sources(p_pairs int4[], p_from timestamptz, p_to timestamptz) RETURNS text[]
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT array_agg(s.name ORDER BY s.name) FROM sources s WHERE s.id IN (
        SELECT unnest(c.sources) FROM unnest(p_pairs) AS u(id)
        JOIN candles c ON c.pair_id = u.id AND c.grain = 60 AND c.t >= p_from AND c.t < p_to));
END $$;

-- The close of the minute that ends at p_end, in the direction asked for: dust only if there is nothing else, then the
-- first market in the order given.
CREATE FUNCTION pool_close(p_pairs int4[], p_flips boolean[], p_end timestamptz, OUT n numeric, OUT d numeric)
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT CASE WHEN u.flip THEN c.close_d ELSE c.close_n END, CASE WHEN u.flip THEN c.close_n ELSE c.close_d END
    INTO n, d
    FROM unnest(p_pairs, p_flips) WITH ORDINALITY AS u(id, flip, pos)
    JOIN candles c ON c.pair_id = u.id AND c.grain = 60 AND c.t = p_end - interval '1 minute'
    ORDER BY c.dust, u.pos LIMIT 1;
END $$;
