# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) the quoin authors
"""What prices and candles must be, by exact fractions and from the trades alone: written apart from the product."""
import calendar
import re
from fractions import Fraction
from time import gmtime, strftime

SECONDS = {"1m": 60, "5m": 300, "15m": 900, "30m": 1800, "1h": 3600, "4h": 14400, "1d": 86400}
DUST = {"sdex": 100}  # sources with a scale of 7 digits: fewer units than this on a side is dust


def quotient(f):
    """Truncated toward zero to 18 significant digits, plain notation."""
    n, d = f.numerator, f.denominator
    shift = 0
    while n // d >= 10 ** 18:
        d *= 10
        shift -= 1
    while n // d < 10 ** 17:
        n *= 10
        shift += 1
    digits = str(n // d)
    return plain(int(digits), shift)


def plain(m, scale):
    """m / 10^scale without an exponent or trailing zeros."""
    if scale <= 0:
        return str(m * 10 ** -scale)
    text = str(m).rjust(scale + 1, "0")
    return (text[:-scale] + "." + text[-scale:]).rstrip("0").rstrip(".")


def decimal(f):
    scale = 0
    while (f * 10 ** scale).denominator != 1:
        scale += 1
    return plain((f * 10 ** scale).numerator, scale)


def millis(ts):
    day, clock, fraction, zone = re.fullmatch(r"(\d+-\d+-\d+)T(\d+:\d+:\d+)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)", ts).groups()
    seconds = calendar.timegm(tuple(map(int, day.split("-") + clock.split(":"))))
    if zone != "Z":
        seconds -= int(zone[0] + "1") * (int(zone[1:3]) * 3600 + int(zone[4:]) * 60)
    return seconds * 1000 + int(((fraction or "") + "000")[:3])


def iso(ms):
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(ms // 1000)) + f".{ms % 1000:03d}Z"


class Trade:
    """One trade in its market's stored direction. price is None where an amount isn't positive."""

    def __init__(self, t):
        sides = [(t["base"], t["base_amount"]), (t["quote"], t["quote_amount"])]
        ratio = (t.get("price_n"), t.get("price_d"))
        if sides[0][0].encode() > sides[1][0].encode():
            sides, ratio = sides[::-1], ratio[::-1]
        (self.base, b), (self.quote, q) = sides
        self.ms, self.source, self.id = millis(t["ts"]), t["source"], t["id"]
        self.b, self.q = Fraction(b), Fraction(q)
        self.price, self.dust = None, False
        if self.b > 0 and self.q > 0:
            self.price = self.q / self.b
            if ratio[0] and ratio[1]:
                given = Fraction(int(ratio[0]), int(ratio[1]))
                slack = step(q) + given * step(b)
                if abs(given * self.b - self.q) <= slack:
                    self.price = given
            small = min(self.b, self.q) * 10 ** 7 < DUST.get(self.source, 0)
            self.dust = small and self.price == self.q / self.b

    def order(self):
        runs = [(0, int(run), "") if run.isdigit() else (1, 0, run) for run in re.findall(r"\d+|\D+", self.id)]
        return self.ms, self.source, runs, self.id


def step(text):
    return Fraction(1, 10 ** len(text.partition(".")[2]))


def markets(trades):
    """{(base, quote): [Trade in total order]}, a repeated identity once."""
    found, seen = {}, set()
    for t in trades:
        if (t["source"], t["id"]) not in seen:
            seen.add((t["source"], t["id"]))
            trade = Trade(t)
            found.setdefault((trade.base, trade.quote), []).append(trade)
    for rows in found.values():
        rows.sort(key=Trade.order)
    return found


def bucket(ms, grain):
    seconds = ms // 1000
    if grain == "1w":
        days = seconds // 86400
        return (days - (days - 4) % 7) * 86400  # 1970-01-05 was a Monday
    if grain == "1mo":
        day = gmtime(seconds)
        return calendar.timegm((day.tm_year, day.tm_mon, 1, 0, 0, 0))
    return seconds // SECONDS[grain] * SECONDS[grain]


def candles(rows, grain, flip=False):
    """One market's candles as /v1/ohlc prints them."""
    groups = {}
    for t in rows:
        if t.price is not None:
            groups.setdefault(bucket(t.ms, grain), []).append(t)
    out = []
    for start, group in sorted(groups.items()):
        solid = [t for t in group if not t.dust] or group
        prices = [1 / t.price if flip else t.price for t in solid]
        b, q = sum(t.b for t in group), sum(t.q for t in group)
        b, q = (q, b) if flip else (b, q)
        out.append({"t": strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(start)), "open": quotient(prices[0]),
                    "high": quotient(max(prices)), "low": quotient(min(prices)), "close": quotient(prices[-1]),
                    "vwap": quotient(q / b), "base_volume": decimal(b), "quote_volume": decimal(q),
                    "trades": len(group), "closed": True})
    return out


def change(now, then):
    """Percent with a sign and two decimals, truncated toward zero."""
    if then is None:
        return None
    hundredths = abs(now / then - 1) * 10000
    text = f"{hundredths.numerator // hundredths.denominator:03d}"
    sign = "-" if now < then and text != "000" else "+"
    return f"{sign}{text[:-2]}.{text[-2:]}"


def window_sums(rows, h, window, reach):
    """(base, quote, trades, observed) of the window ending at h, or at the newest minute's end within reach; or None."""
    past = [t for t in rows if t.price is not None and t.ms < h * 1000]
    if not past:
        return None
    newest = past[-1].ms // 60000 * 60 + 60
    end = h if newest > h - window else newest
    if end <= h - reach and end != h:
        return None
    inside = [t for t in past if (end - window) * 1000 <= t.ms < end * 1000]
    return sum(t.b for t in inside), sum(t.q for t in inside), len(inside), newest


def price(rows, h, window, flip=False, lookback=86400):
    """A direct market's `data` at horizon h (seconds) but for asset and quote; None without a trade in the lookback."""
    sums = window_sums(rows, h, window, lookback)
    if not sums:
        return None
    b, q, n, observed = sums
    day = [t for t in rows if t.price is not None and (h - 86400) * 1000 <= t.ms < h * 1000]
    then = window_sums(rows, h - 86400, window, 8641)
    value, before = q / b, then and then[1] / then[0]
    day_quote = sum(t.q for t in day)
    if flip:
        b, q, value, before = q, b, 1 / value, before and 1 / before
        day_quote = sum(t.b for t in day)
    return {"price": quotient(value), "price_type": "vwap", "window_seconds": window, "observed_at": iso(observed * 1000),
            "age_seconds": h - observed, "base_volume": decimal(b), "quote_volume": decimal(q), "trades": n,
            "quote_volume_24h": decimal(Fraction(day_quote)), "trades_24h": len(day),
            "change_24h_pct": change(value, before)}
