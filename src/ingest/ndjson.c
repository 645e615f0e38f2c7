/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Two readers of one language. The quick one takes what nearly all lines are: one flat object of known members, plain
 * ASCII strings without escapes, numbers. It never says that a line is bad: whatever it does not take goes to the
 * strict one (base/json.h), which knows the rest of JSON and the reasons.
 */
#include "base/base.h"

#include "ingest/ndjson.h"

#include <stdlib.h>

#include "base/when.h"

enum member {
    M_ID, M_TS, M_SOURCE, M_BASE, M_QUOTE, M_BASE_AMOUNT, M_QUOTE_AMOUNT, M_PRICE_N, M_PRICE_D, M_WATERMARK, MEMBERS
};

static const struct {
    struct qn_str name;
    const char *missing;
    const char *type;
} members[MEMBERS] = {
    [M_ID] = {QN_STR("id"), "no id", "id is not a string"},
    [M_TS] = {QN_STR("ts"), "no ts", "ts is not a string"},
    [M_SOURCE] = {QN_STR("source"), "no source", "source is not a string"},
    [M_BASE] = {QN_STR("base"), "no base", "base is not a string"},
    [M_QUOTE] = {QN_STR("quote"), "no quote", "quote is not a string"},
    [M_BASE_AMOUNT] = {QN_STR("base_amount"), "no base_amount", "base_amount is not a string or number"},
    [M_QUOTE_AMOUNT] = {QN_STR("quote_amount"), "no quote_amount", "quote_amount is not a string or number"},
    [M_PRICE_N] = {QN_STR("price_n"), NULL, "price_n is not a string or number"},
    [M_PRICE_D] = {QN_STR("price_d"), NULL, "price_d is not a string or number"},
    [M_WATERMARK] = {QN_STR("watermark"), NULL, "watermark is not a string"},
};

struct value {
    enum { V_ABSENT, V_STRING, V_NUMBER, V_OTHER } kind;
    struct qn_str text;
};

struct qn_ndjson_reader {
    struct qn_json_reader *json;
    struct json_object *object;   /* what the last line's text is borrowed from, if the strict reader read it */
    struct value values[MEMBERS];
};

struct qn_ndjson_reader *qn_ndjson_reader_new(void)
{
    struct qn_ndjson_reader *r = qn_xcalloc(1, sizeof *r);
    r->json = qn_json_reader_new();
    return r;
}

void qn_ndjson_reader_free(struct qn_ndjson_reader *r)
{
    if (!r)
        return;
    json_object_put(r->object);
    qn_json_reader_free(r->json);
    free(r);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool qn_ndjson_blank(struct qn_str line)
{
    for (size_t i = 0; i < line.n; i++) {
        if (!is_blank(line.p[i]))
            return false;
    }
    return true;
}

/* ---- the quick reader: each step returns where it stopped, or NULL: not for this reader */

static const char *skip_blanks(const char *p, const char *end)
{
    while (p < end && is_blank(*p))
        p++;
    return p;
}

static const char *quick_string(const char *p, const char *end, struct qn_str *out)
{
    if (p == end || *p != '"')
        return NULL;
    const char *start = ++p;
    while (p < end && *p >= 0x20 && *p <= 0x7e && *p != '"' && *p != '\\')
        p++;
    if (p == end || *p != '"')
        return NULL;
    *out = (struct qn_str){start, (size_t)(p - start)};
    return p + 1;
}

static const char *quick_number(const char *p, const char *end, struct qn_str *out)
{
    const char *start = p;
    p += p < end && *p == '-';
    const char *whole = p;
    while (p < end && is_digit(*p))
        p++;
    if (p == whole || (*whole == '0' && p - whole > 1))
        return NULL;
    if (p < end && *p == '.') {
        const char *fraction = ++p;
        while (p < end && is_digit(*p))
            p++;
        if (p == fraction)
            return NULL;
    }
    *out = (struct qn_str){start, (size_t)(p - start)};
    return p; /* an exponent follows no number here, so it ends the quick reading */
}

static enum member member_of(struct qn_str name)
{
    for (int m = 0; m < MEMBERS; m++) {
        if (qn_str_eq(name, members[m].name))
            return (enum member)m;
    }
    return MEMBERS;
}

static bool read_quick(struct qn_str line, struct value values[MEMBERS])
{
    const char *end = line.p + line.n;
    const char *p = skip_blanks(line.p, end);
    if (p == end || *p++ != '{')
        return false;
    for (;;) {
        struct qn_str name;
        p = quick_string(skip_blanks(p, end), end, &name);
        if (!p)
            return false;
        enum member m = member_of(name);
        p = skip_blanks(p, end);
        if (m == MEMBERS || values[m].kind != V_ABSENT || p == end || *p++ != ':')
            return false;
        p = skip_blanks(p, end);
        values[m].kind = p < end && *p == '"' ? V_STRING : V_NUMBER;
        p = values[m].kind == V_STRING ? quick_string(p, end, &values[m].text) : quick_number(p, end, &values[m].text);
        if (!p)
            return false;
        p = skip_blanks(p, end);
        if (p == end)
            return false;
        if (*p == '}')
            return skip_blanks(p + 1, end) == end;
        if (*p++ != ',')
            return false;
    }
}

/* ---- the strict reader */

static enum qn_err read_strict(struct qn_ndjson_reader *r, struct qn_str line, const char **why)
{
    if (qn_json_read(r->json, line, &r->object, why))
        return QN_EINVAL;
    if (!json_object_is_type(r->object, json_type_object)) {
        *why = "not a JSON object";
        return QN_EINVAL;
    }
    for (int m = 0; m < MEMBERS; m++) {
        struct json_object *o;
        struct value *v = &r->values[m];
        if (!json_object_object_get_ex(r->object, members[m].name.p, &o) || !o)
            continue;
        switch (json_object_get_type(o)) {
        case json_type_string:
            v->kind = V_STRING;
            v->text = (struct qn_str){json_object_get_string(o), (size_t)json_object_get_string_len(o)};
            break;
        case json_type_int:
        case json_type_double:
            /* json-c keeps the text of what it read as a double; an integer beyond its range is not kept, but what it
             * becomes has more than 18 digits too. */
            v->kind = V_NUMBER;
            v->text.p = json_object_to_json_string_length(o, JSON_C_TO_STRING_PLAIN, &v->text.n);
            break;
        default:
            v->kind = V_OTHER;
        }
    }
    return QN_OK;
}

/* ---- from members to a line */

static enum qn_err fault(const char **why, const char *text)
{
    *why = text;
    return QN_EINVAL;
}

static enum qn_err take_string(const struct value *values, enum member m, struct qn_str *out, const char **why)
{
    if (values[m].kind == V_ABSENT)
        return fault(why, members[m].missing);
    if (values[m].kind != V_STRING)
        return fault(why, members[m].type);
    *out = values[m].text;
    return QN_OK;
}

/* A string, or a number of at most 18 digits without an exponent. Absent is left to the caller. */
static enum qn_err take_number(const struct value *values, enum member m, struct qn_str *out, const char **why)
{
    const struct value *v = &values[m];
    if (v->kind == V_OTHER)
        return fault(why, members[m].type);
    if (v->kind == V_NUMBER) {
        size_t digits = 0;
        for (size_t i = 0; i < v->text.n; i++) {
            digits += is_digit(v->text.p[i]);
            if (v->text.p[i] == 'e' || v->text.p[i] == 'E')
                return fault(why, "a number has an exponent");
        }
        if (digits > QN_NUM_SIGNIFICANT)
            return fault(why, "a JSON number has more than 18 digits (write it as a string)");
    }
    *out = v->kind == V_ABSENT ? QN_STR_NULL : v->text;
    return QN_OK;
}

static enum qn_err take_moment(const struct value *values, enum member m, int64_t *ms, const char **why)
{
    struct qn_str text;
    if (take_string(values, m, &text, why))
        return QN_EINVAL;
    if (qn_when_parse(text, ms))
        return fault(why, m == M_TS ? "ts is not an RFC 3339 time" : "watermark is not an RFC 3339 time");
    return QN_OK;
}

static enum qn_err take_watermark(const struct value *values, struct qn_ndjson_line *out, const char **why)
{
    for (int m = 0; m < MEMBERS; m++) {
        if (m != M_WATERMARK && m != M_SOURCE && values[m].kind != V_ABSENT)
            return fault(why, "a watermark line has members of a trade");
    }
    if (values[M_SOURCE].kind != V_ABSENT) {
        if (take_string(values, M_SOURCE, &out->trade.source, why))
            return QN_EINVAL;
        if (!qn_trade_source_valid(out->trade.source))
            return fault(why, "source is not 1 to 32 of a-z 0-9 . _ -");
    }
    out->kind = QN_NDJSON_WATERMARK;
    return take_moment(values, M_WATERMARK, &out->trade.ts_ms, why);
}

static enum qn_err take_trade(const struct value *values, struct qn_ndjson_line *out, const char **why)
{
    struct qn_trade_text *t = &out->trade;
    if (take_string(values, M_ID, &t->id, why) || take_moment(values, M_TS, &t->ts_ms, why) ||
        take_string(values, M_SOURCE, &t->source, why) || take_string(values, M_BASE, &out->base, why) ||
        take_string(values, M_QUOTE, &out->quote, why) ||
        take_number(values, M_BASE_AMOUNT, &t->base_amount, why) ||
        take_number(values, M_QUOTE_AMOUNT, &t->quote_amount, why) ||
        take_number(values, M_PRICE_N, &t->price_n, why) || take_number(values, M_PRICE_D, &t->price_d, why))
        return QN_EINVAL;
    if (!t->base_amount.p)
        return fault(why, members[M_BASE_AMOUNT].missing);
    if (!t->quote_amount.p)
        return fault(why, members[M_QUOTE_AMOUNT].missing);
    out->kind = QN_NDJSON_TRADE;
    return QN_OK;
}

enum qn_err qn_ndjson_read(struct qn_ndjson_reader *r, struct qn_str line, struct qn_ndjson_line *out,
                           const char **why)
{
    json_object_put(r->object);
    r->object = NULL;
    memset(r->values, 0, sizeof r->values);
    if (!read_quick(line, r->values)) {
        memset(r->values, 0, sizeof r->values);
        if (read_strict(r, line, why))
            return QN_EINVAL;
    }
    memset(out, 0, sizeof *out);
    return r->values[M_WATERMARK].kind != V_ABSENT ? take_watermark(r->values, out, why)
                                                   : take_trade(r->values, out, why);
}
