/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "base/when.h"

enum { DAY_S = 86400 };
#define DAY_MS INT64_C(86400000)

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* What floor_div leaves: 0 to b - 1. */
static int64_t floor_rest(int64_t a, int64_t b)
{
    return a % b + (a % b < 0 ? b : 0);
}

/* Days since 1970-01-01 in the proleptic Gregorian calendar. The year is taken to start in March, so that the leap day
 * is its last; 719468 days lie between 0000-03-01 and the epoch. */
static int64_t days_of(int64_t year, int month, int day)
{
    year -= month <= 2;
    int64_t era = floor_div(year, 400);
    int64_t year_of_era = year - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

struct civil {
    int64_t year;
    int month;
    int day;
};

/* The inverse of days_of. */
static struct civil civil_of(int64_t days)
{
    days += 719468;
    int64_t era = floor_div(days, 146097);
    int64_t day_of_era = days - era * 146097;
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t shifted = (5 * day_of_year + 2) / 153;
    int month = (int)(shifted < 10 ? shifted + 3 : shifted - 9);
    int day = (int)(day_of_year - (153 * shifted + 2) / 5 + 1);
    return (struct civil){year_of_era + era * 400 + (month <= 2), month, day};
}

static int days_in(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Takes `count` digits off the front of s. */
static bool take_number(struct qn_str *s, size_t count, int *out)
{
    if (s->n < count)
        return false;
    *out = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_digit(s->p[i]))
            return false;
        *out = *out * 10 + (s->p[i] - '0');
    }
    s->p += count;
    s->n -= count;
    return true;
}

static bool take_one_of(struct qn_str *s, const char *set)
{
    if (s->n == 0 || s->p[0] == '\0' || !strchr(set, s->p[0]))
        return false;
    s->p++;
    s->n--;
    return true;
}

/* `.` and at least one digit, if there: milliseconds, the rest dropped. */
static bool take_fraction(struct qn_str *s, int *ms)
{
    *ms = 0;
    if (!take_one_of(s, "."))
        return true;
    size_t count = 0;
    for (int unit = 100; s->n && is_digit(s->p[0]); s->p++, s->n--, count++, unit /= 10)
        *ms += unit * (s->p[0] - '0');
    return count > 0;
}

static bool take_offset(struct qn_str *s, int *seconds)
{
    *seconds = 0;
    if (take_one_of(s, "Zz"))
        return true;
    bool west = s->n && s->p[0] == '-';
    int hours, minutes;
    if (!take_one_of(s, "+-") || !take_number(s, 2, &hours) || !take_one_of(s, ":") || !take_number(s, 2, &minutes) ||
        hours > 23 || minutes > 59)
        return false;
    *seconds = (hours * 3600 + minutes * 60) * (west ? -1 : 1);
    return true;
}

enum qn_err qn_when_parse(struct qn_str s, int64_t *ms)
{
    int year, month, day, hour, minute, second, fraction, offset;
    if (!take_number(&s, 4, &year) || !take_one_of(&s, "-") || !take_number(&s, 2, &month) || !take_one_of(&s, "-") ||
        !take_number(&s, 2, &day) || !take_one_of(&s, "Tt ") || !take_number(&s, 2, &hour) || !take_one_of(&s, ":") ||
        !take_number(&s, 2, &minute) || !take_one_of(&s, ":") || !take_number(&s, 2, &second) ||
        !take_fraction(&s, &fraction) || !take_offset(&s, &offset) || s.n != 0)
        return QN_EINVAL;
    if (year < 1 || month < 1 || month > 12 || day < 1 || day > days_in(year, month) || hour > 23 || minute > 59 ||
        second > 60)
        return QN_EINVAL;
    int64_t t = days_of(year, month, day) * DAY_S + hour * 3600 + minute * 60 + second - offset;
    /* A leap second is the 61st of a UTC day's last minute and nowhere else: now it counts as the next day's first. */
    if (second == 60 && t % DAY_S != 0)
        return QN_EINVAL;
    /* The offset or the leap second may have led out of the years that we can print. */
    if (t < days_of(1, 1, 1) * DAY_S || t >= days_of(10000, 1, 1) * DAY_S)
        return QN_EINVAL;
    *ms = t * 1000 + fraction;
    return QN_OK;
}

enum qn_err qn_when_parse_param(struct qn_str text, int64_t *ms)
{
    if (text.n < 1 || text.n > 10)
        return qn_when_parse(text, ms);
    int64_t seconds = 0;
    for (size_t i = 0; i < text.n; i++) {
        if (!is_digit(text.p[i]))
            return QN_EINVAL; /* RFC 3339 takes 20 bytes at least */
        seconds = seconds * 10 + (text.p[i] - '0');
    }
    *ms = seconds * 1000;
    return QN_OK;
}

/* v in at least `width` digits. */
static char *put_number(char *p, int64_t v, int width)
{
    char digits[20];
    int n = 0;
    for (; v > 0 || n < width; v /= 10)
        digits[n++] = (char)('0' + v % 10);
    while (n > 0)
        *p++ = digits[--n];
    return p;
}

static char *put_date_time(char *p, int64_t ms)
{
    int64_t days = floor_div(ms, DAY_MS);
    int64_t seconds = floor_rest(ms, DAY_MS) / 1000;
    struct civil c = civil_of(days);
    if (c.year < 0) /* can't come from qn_when_parse */
        *p++ = '-';
    p = put_number(p, c.year < 0 ? -c.year : c.year, 4);
    *p++ = '-';
    p = put_number(p, c.month, 2);
    *p++ = '-';
    p = put_number(p, c.day, 2);
    *p++ = 'T';
    p = put_number(p, seconds / 3600, 2);
    *p++ = ':';
    p = put_number(p, seconds / 60 % 60, 2);
    *p++ = ':';
    return put_number(p, seconds % 60, 2);
}

size_t qn_when_text(char out[QN_WHEN_MAX], int64_t ms)
{
    char *p = put_date_time(out, ms);
    *p++ = '.';
    p = put_number(p, floor_rest(ms, 1000), 3);
    *p++ = 'Z';
    *p = '\0';
    return (size_t)(p - out);
}

void qn_when_put(struct qn_buf *out, int64_t ms)
{
    char text[QN_WHEN_MAX];
    qn_buf_put(out, text, qn_when_text(text, ms));
}

void qn_when_put_seconds(struct qn_buf *out, int64_t ms)
{
    char text[QN_WHEN_MAX];
    char *p = put_date_time(text, ms);
    *p++ = 'Z';
    qn_buf_put(out, text, (size_t)(p - text));
}

static const struct {
    const char *name;
    int seconds; /* of months: the id in table candles, not a length */
    enum qn_grain finer;
} grains[QN_GRAINS] = {
    [QN_1M] = {"1m", 60, QN_1M},        [QN_5M] = {"5m", 300, QN_1M},       [QN_15M] = {"15m", 900, QN_5M},
    [QN_30M] = {"30m", 1800, QN_15M},   [QN_1H] = {"1h", 3600, QN_30M},     [QN_4H] = {"4h", 14400, QN_1H},
    [QN_1D] = {"1d", DAY_S, QN_4H},     [QN_1W] = {"1w", 7 * DAY_S, QN_1D}, [QN_1MO] = {"1mo", 30 * DAY_S, QN_1D},
};

enum qn_err qn_grain_parse(struct qn_str text, enum qn_grain *out)
{
    for (int g = 0; g < QN_GRAINS; g++)
        if (qn_str_eq(text, qn_str_of(grains[g].name))) {
            *out = (enum qn_grain)g;
            return QN_OK;
        }
    return QN_EINVAL;
}

const char *qn_grain_name(enum qn_grain grain)
{
    return grains[grain].name;
}

enum qn_grain qn_grain_finer(enum qn_grain grain)
{
    return grains[grain].finer;
}

int qn_grain_id(enum qn_grain grain)
{
    return grains[grain].seconds;
}

/* The start of the month that lies `shift` months from the one that ms is in. */
static int64_t month_start(int64_t ms, int64_t shift)
{
    struct civil c = civil_of(floor_div(ms, DAY_MS));
    int64_t month = c.year * 12 + c.month - 1 + shift;
    int64_t year = floor_div(month, 12);
    return days_of(year, (int)(month - year * 12) + 1, 1) * DAY_MS;
}

int64_t qn_grain_start(enum qn_grain grain, int64_t ms)
{
    if (grain == QN_1MO)
        return month_start(ms, 0);
    int64_t length = grains[grain].seconds * INT64_C(1000);
    int64_t phase = grain == QN_1W ? -3 * DAY_MS : 0; /* 1970-01-01 was a Thursday */
    return floor_div(ms - phase, length) * length + phase;
}

int64_t qn_grain_end(enum qn_grain grain, int64_t ms)
{
    if (grain == QN_1MO)
        return month_start(ms, 1);
    return qn_grain_start(grain, ms) + grains[grain].seconds * INT64_C(1000);
}

int64_t qn_grain_previous(enum qn_grain grain, int64_t ms)
{
    return qn_grain_back(grain, ms, 1);
}

int64_t qn_grain_back(enum qn_grain grain, int64_t ms, unsigned count)
{
    if (grain == QN_1MO)
        return month_start(ms, -(int64_t)count);
    return qn_grain_start(grain, ms) - count * (grains[grain].seconds * INT64_C(1000));
}
