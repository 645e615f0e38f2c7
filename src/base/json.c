/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "base/json.h"

#include <stdlib.h>

enum { MAX_DEPTH = 16, MAX_DIGITS = 18, MAX_EXPONENT = 290 };

struct qn_json_reader {
    struct json_tokener *tokener;
};

struct qn_json_reader *qn_json_reader_new(void)
{
    struct qn_json_reader *r = qn_xmalloc(sizeof *r);
    /* json-c counts the value inside the deepest container as a level too, and one is kept in reserve: our own scan is
     * what limits depth. */
    r->tokener = json_tokener_new_ex(MAX_DEPTH + 2);
    if (!r->tokener)
        abort(); /* out of memory, at start */
    json_tokener_set_flags(r->tokener, JSON_TOKENER_STRICT);
    return r;
}

void qn_json_reader_free(struct qn_json_reader *r)
{
    if (!r)
        return;
    json_tokener_free(r->tokener);
    free(r);
}

/* ---- the scan: RFC 8259 and our limits, in one pass, before json-c sees the text. json-c then only builds the tree:
 * what it would let pass (process-model, section 5.4) never gets there. */

struct scan {
    const char *p, *end;
    const char *why;    /* static; set when the scan fails */
    size_t members;     /* of all objects together */
    size_t containers;
    unsigned depth;
    bool is_object[MAX_DEPTH];
};

static bool fail(struct scan *s, const char *why)
{
    s->why = why;
    return false;
}

static void skip_blanks(struct scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\r' || *s->p == '\t'))
        s->p++;
}

/* The four digits of `\uXXXX` at p, or -1. */
static int hex4(const char *p, const char *end)
{
    if (end - p < 4)
        return -1;
    int v = 0;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        char lower = (char)(c | 0x20);
        int digit = c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
        if (digit < 0)
            return -1;
        v = v << 4 | digit;
    }
    return v;
}

/* p at the backslash. */
static bool scan_escape(struct scan *s, bool is_name)
{
    if (s->end - s->p < 2)
        return fail(s, "unterminated string");
    char c = s->p[1];
    s->p += 2;
    if (c != 'u')
        return (c != '\0' && strchr("\"\\/bfnrt", c)) || fail(s, "unknown escape");
    int unit = hex4(s->p, s->end);
    if (unit < 0)
        return fail(s, "bad \\u escape");
    s->p += 4;
    if (unit == 0 && is_name)
        return fail(s, "NUL in a member's name"); /* json-c ends names there: two names could be one */
    if (unit < 0xd800 || unit > 0xdfff)
        return true;
    if (unit >= 0xdc00 || s->end - s->p < 2 || s->p[0] != '\\' || s->p[1] != 'u')
        return fail(s, "lone surrogate");
    int low = hex4(s->p + 2, s->end);
    if (low < 0xdc00 || low > 0xdfff)
        return fail(s, "lone surrogate");
    s->p += 6;
    return true;
}

/* p at the opening quote. */
static bool scan_string(struct scan *s, bool is_name)
{
    s->p++;
    while (s->p < s->end) {
        unsigned char c = (unsigned char)*s->p;
        if (c == '"') {
            s->p++;
            return true;
        }
        if (c == '\\') {
            if (!scan_escape(s, is_name))
                return false;
        } else if (c < 0x20) {
            return fail(s, "control byte in a string");
        } else if (c < 0x80) {
            s->p++;
        } else {
            size_t len;
            if (!qn_utf8_step(s->p, (size_t)(s->end - s->p), &len))
                return fail(s, "not UTF-8");
            s->p += len;
        }
    }
    return fail(s, "unterminated string");
}

static size_t scan_digits(struct scan *s)
{
    const char *from = s->p;
    while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
        s->p++;
    return (size_t)(s->p - from);
}

static bool scan_exponent(struct scan *s)
{
    if (s->p == s->end || (*s->p | 0x20) != 'e')
        return true;
    s->p++;
    if (s->p < s->end && (*s->p == '+' || *s->p == '-'))
        s->p++;
    const char *from = s->p;
    if (scan_digits(s) == 0)
        return fail(s, "malformed number");
    int exponent = 0;
    for (const char *p = from; p < s->p && exponent <= MAX_EXPONENT; p++)
        exponent = exponent * 10 + (*p - '0');
    return exponent <= MAX_EXPONENT || fail(s, "number out of range"); /* with 18 digits it could be infinite */
}

static bool scan_number(struct scan *s)
{
    s->p += *s->p == '-';
    const char *from = s->p;
    size_t digits = scan_digits(s);
    if (digits == 0 || (digits > 1 && *from == '0'))
        return fail(s, "malformed number");
    if (s->p < s->end && *s->p == '.') {
        s->p++;
        size_t fraction = scan_digits(s);
        if (fraction == 0)
            return fail(s, "malformed number");
        digits += fraction;
    }
    if (digits > MAX_DIGITS)
        return fail(s, "number of more than 18 digits");
    return scan_exponent(s);
}

static bool scan_word(struct scan *s)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < QN_LEN(words); i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(s->end - s->p) >= n && memcmp(s->p, words[i], n) == 0) {
            s->p += n;
            return true;
        }
    }
    return fail(s, "unexpected byte");
}

/* A name and its colon. */
static bool scan_name(struct scan *s)
{
    if (s->p == s->end || *s->p != '"')
        return fail(s, s->p == s->end ? "incomplete" : "a member's name expected");
    if (!scan_string(s, true))
        return false;
    skip_blanks(s);
    if (s->p == s->end || *s->p != ':')
        return fail(s, s->p == s->end ? "incomplete" : "colon expected");
    s->p++;
    s->members++;
    return true;
}

/* Goes into the container at p; *empty when it was closed at once. */
static bool open_container(struct scan *s, bool *empty)
{
    if (s->depth == MAX_DEPTH)
        return fail(s, "nested too deep");
    bool is_object = *s->p == '{';
    s->is_object[s->depth++] = is_object;
    s->containers++;
    s->p++;
    skip_blanks(s);
    *empty = s->p < s->end && *s->p == (is_object ? '}' : ']');
    if (*empty) {
        s->p++;
        s->depth--;
        return true;
    }
    return !is_object || scan_name(s);
}

/* One value from p on; of a container only its opening, then *open is true and p is before its first value. */
static bool scan_value(struct scan *s, bool *open)
{
    *open = false;
    skip_blanks(s);
    if (s->p == s->end)
        return fail(s, "incomplete");
    char c = *s->p;
    if (c == '"')
        return scan_string(s, false);
    if (c == '-' || (c >= '0' && c <= '9'))
        return scan_number(s);
    if (c != '{' && c != '[')
        return scan_word(s);
    bool empty;
    if (!open_container(s, &empty))
        return false;
    *open = !empty;
    return true;
}

/* What follows a value: closes containers and stands before the next value, or at the end with depth 0. */
static bool scan_after(struct scan *s)
{
    for (;;) {
        skip_blanks(s);
        if (s->depth == 0)
            return s->p == s->end || fail(s, "something after the value");
        bool is_object = s->is_object[s->depth - 1];
        if (s->p == s->end)
            return fail(s, "incomplete");
        char c = *s->p++;
        if (c == ',') {
            skip_blanks(s);
            return !is_object || scan_name(s);
        }
        if (c != (is_object ? '}' : ']'))
            return fail(s, "comma or end expected");
        s->depth--;
    }
}

static bool scan_text(struct scan *s)
{
    do {
        bool open;
        if (!scan_value(s, &open) || (!open && !scan_after(s)))
            return false;
    } while (s->depth > 0);
    return true;
}

/* ---- the tree */

/* Members of all objects in the tree. No deeper than the scan allowed. */
static size_t count_members(struct json_object *o)
{
    size_t n = 0;
    if (json_object_is_type(o, json_type_object)) {
        json_object_object_foreach(o, name, value)
        {
            (void)name;
            n += 1 + count_members(value);
        }
    } else if (json_object_is_type(o, json_type_array)) {
        for (size_t i = 0, len = json_object_array_length(o); i < len; i++)
            n += count_members(json_object_array_get_idx(o, i));
    }
    return n;
}

static bool has_duplicates(struct json_object *o, const struct scan *s)
{
    if (s->members == 0)
        return false;
    /* A second member of one name took the place of the first in the tree: so the tree has fewer than the text. */
    size_t kept = s->containers == 1 ? (size_t)json_object_object_length(o) : count_members(o);
    return kept != s->members;
}

enum qn_err qn_json_read(struct qn_json_reader *r, struct qn_str text, struct json_object **out, const char **why)
{
    struct scan s = {.p = text.p, .end = text.p + text.n};
    if (text.n > INT32_MAX) {
        *why = "too long";
        return QN_EINVAL;
    }
    if (text.n == 0 || !scan_text(&s)) {
        *why = text.n == 0 ? "incomplete" : s.why;
        return QN_EINVAL;
    }
    json_tokener_reset(r->tokener);
    struct json_object *o = json_tokener_parse_ex(r->tokener, text.p, (int)text.n);
    /* A number at the very end could go on, for json-c. */
    if (json_tokener_get_error(r->tokener) == json_tokener_continue)
        o = json_tokener_parse_ex(r->tokener, " ", 1);
    if (json_tokener_get_error(r->tokener) != json_tokener_success) {
        *why = json_tokener_error_desc(json_tokener_get_error(r->tokener));
        return QN_EINVAL;
    }
    if (has_duplicates(o, &s)) {
        json_object_put(o);
        *why = "duplicate member";
        return QN_EINVAL;
    }
    *out = o;
    return QN_OK;
}

/* ---- members */

static enum qn_err get(struct json_object *o, const char *name, enum json_type type, struct json_object **out)
{
    struct json_object *value;
    if (!json_object_object_get_ex(o, name, &value) || !value)
        return QN_MISS;
    if (!json_object_is_type(value, type))
        return QN_EINVAL;
    *out = value;
    return QN_OK;
}

enum qn_err qn_json_get_str(struct json_object *o, const char *name, struct qn_str *out)
{
    struct json_object *value;
    enum qn_err err = get(o, name, json_type_string, &value);
    if (err == QN_OK)
        *out = (struct qn_str){json_object_get_string(value), (size_t)json_object_get_string_len(value)};
    return err;
}

enum qn_err qn_json_get_int(struct json_object *o, const char *name, int64_t *out)
{
    static const int64_t limit = INT64_C(1000000000000000000);
    struct json_object *value;
    enum qn_err err = get(o, name, json_type_int, &value);
    if (err != QN_OK)
        return err;
    int64_t v = json_object_get_int64(value);
    if (v <= -limit || v >= limit)
        return QN_ERANGE;
    *out = v;
    return QN_OK;
}
