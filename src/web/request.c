/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <sodium.h>

#include "base/buf.h"
#include "web/request.h"

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Percent-decodes once. keep_slash leaves %2F as it is; plus makes `+` a blank. False: a broken escape, a NUL or bytes
 * that are not UTF-8. */
static bool decode(struct qn_arena *arena, struct qn_str in, bool keep_slash, bool plus, struct qn_str *out)
{
    char *p = qn_arena_alloc(arena, in.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < in.n; i++) {
        char c = in.p[i];
        if (c == '%') {
            int hi = i + 2 < in.n ? hex_value(in.p[i + 1]) : -1;
            int lo = i + 2 < in.n ? hex_value(in.p[i + 2]) : -1;
            if (hi < 0 || lo < 0)
                return false;
            c = (char)(hi << 4 | lo);
            if (keep_slash && c == '/') {
                memcpy(p + n, "%2F", 3);
                n += 3;
                i += 2;
                continue;
            }
            i += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        if (c == '\0')
            return false;
        p[n++] = c;
    }
    p[n] = '\0';
    *out = (struct qn_str){p, n};
    return qn_str_utf8(*out);
}

static enum qn_method method_of(struct qn_str s)
{
    static const struct {
        const char *name;
        enum qn_method method;
    } METHODS[] = {{"GET", QN_GET}, {"HEAD", QN_HEAD}, {"POST", QN_POST}, {"PUT", QN_PUT}, {"DELETE", QN_DELETE},
                   {"OPTIONS", QN_OPTIONS}};
    for (size_t i = 0; i < QN_LEN(METHODS); i++)
        if (qn_str_eq(s, qn_str_of(METHODS[i].name)))
            return METHODS[i].method;
    return QN_METHOD_OTHER;
}

static void parse_query(struct qn_arena *arena, struct qn_str query, struct qn_request *out)
{
    size_t max = 1;
    for (size_t i = 0; i < query.n; i++)
        max += query.p[i] == '&';
    struct qn_param *params = qn_arena_array(arena, max, sizeof *params);
    out->params = params;
    while (query.n > 0) {
        const char *amp = memchr(query.p, '&', query.n);
        struct qn_str piece = {query.p, amp ? (size_t)(amp - query.p) : query.n};
        query.p += piece.n + (amp != NULL);
        query.n -= piece.n + (amp != NULL);
        if (piece.n == 0)
            continue;
        const char *eq = memchr(piece.p, '=', piece.n);
        struct qn_str name = {piece.p, eq ? (size_t)(eq - piece.p) : piece.n};
        struct qn_str value = eq ? (struct qn_str){eq + 1, piece.n - name.n - 1} : QN_STR("");
        struct qn_param *p = &params[out->n_params];
        if (!decode(arena, name, false, true, &p->name)) {
            out->query_bad = true;
            return;
        }
        if (!decode(arena, value, false, true, &p->value)) {
            out->query_bad = true;
            out->bad_param = p->name;
            return;
        }
        out->n_params++;
    }
}

static bool good_id(struct qn_str id)
{
    if (id.n < 1 || id.n > 64)
        return false;
    for (size_t i = 0; i < id.n; i++) {
        char c = id.p[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' ||
              c == '-'))
            return false;
    }
    return true;
}

static void choose_id(struct qn_request *out, struct qn_str given)
{
    if (given.p && good_id(given)) {
        memcpy(out->id, given.p, given.n);
        out->id[given.n] = '\0';
        return;
    }
    unsigned char random[16];
    randombytes_buf(random, sizeof random);
    sodium_bin2hex(out->id, sizeof out->id, random, sizeof random);
}

void qn_request_make(struct qn_arena *arena, const struct qn_param *vars, size_t n_vars, struct qn_str body,
                     bool body_too_large, struct qn_request *out)
{
    memset(out, 0, sizeof *out);
    struct qn_str method = QN_STR_NULL, uri = QN_STR_NULL, script = QN_STR_NULL, document = QN_STR_NULL;
    struct qn_str query = QN_STR_NULL, id = QN_STR_NULL;
    const struct {
        const char *name;
        struct qn_str *to;
    } WANTED[] = {
        {"REQUEST_METHOD", &method},
        {"REQUEST_URI", &uri},
        {"SCRIPT_NAME", &script},
        {"DOCUMENT_URI", &document},
        {"QUERY_STRING", &query},
        {"HTTP_X_REQUEST_ID", &id},
        {"REMOTE_ADDR", &out->remote_addr},
        {"HTTP_IF_NONE_MATCH", &out->if_none_match},
        {"HTTP_ORIGIN", &out->origin},
        {"HTTP_AUTHORIZATION", &out->authorization},
        {"HTTP_X_API_KEY", &out->api_key},
        {"CONTENT_TYPE", &out->content_type},
        {"HTTP_X_FORWARDED_FOR", &out->forwarded_for},
    };
    for (size_t v = 0; v < n_vars; v++)
        for (size_t w = 0; w < QN_LEN(WANTED); w++)
            if (!WANTED[w].to->p && qn_str_eq(vars[v].name, qn_str_of(WANTED[w].name)))
                *WANTED[w].to = qn_arena_copy(arena, vars[v].value);
    out->method = method_of(method);
    choose_id(out, id);
    if (uri.p) { /* as the client sent it; the server's own variables are decoded already */
        const char *mark = memchr(uri.p, '?', uri.n);
        uri.n = mark ? (size_t)(mark - uri.p) : uri.n;
        if (!decode(arena, uri, true, false, &out->path)) {
            out->path_bad = true;
            out->path = QN_STR("");
        }
    } else {
        out->path = document.p ? document : script.p ? script : QN_STR("");
        out->path_bad = !qn_str_utf8(out->path);
    }
    if (query.p)
        parse_query(arena, query, out);
    out->body = body.p ? qn_arena_copy(arena, body) : QN_STR("");
    out->body_too_large = body_too_large;
}

struct qn_str qn_request_param(const struct qn_request *rq, const char *name)
{
    struct qn_str s = qn_str_of(name);
    for (size_t i = 0; i < rq->n_params; i++)
        if (qn_str_eq(rq->params[i].name, s))
            return rq->params[i].value;
    return QN_STR_NULL;
}

/* A tag without its weakness: what weak comparison compares. */
static struct qn_str opaque(struct qn_str tag)
{
    return qn_str_starts(tag, QN_STR("W/")) ? (struct qn_str){tag.p + 2, tag.n - 2} : tag;
}

bool qn_request_matches(const struct qn_request *rq, struct qn_str etag)
{
    struct qn_str rest = rq->if_none_match;
    if (!rest.p || !etag.p)
        return false;
    for (size_t i = 0; i < rest.n;) {
        if (rest.p[i] == ' ' || rest.p[i] == '\t' || rest.p[i] == ',') {
            i++;
            continue;
        }
        if (rest.p[i] == '*')
            return true;
        size_t start = i;
        if (i + 1 < rest.n && rest.p[i] == 'W' && rest.p[i + 1] == '/')
            i += 2;
        if (i >= rest.n || rest.p[i] != '"') { /* not a tag: skip to the next member */
            while (i < rest.n && rest.p[i] != ',')
                i++;
            continue;
        }
        const char *close = memchr(rest.p + i + 1, '"', rest.n - i - 1);
        if (!close)
            return false;
        i = (size_t)(close - rest.p) + 1;
        if (qn_str_eq(opaque((struct qn_str){rest.p + start, i - start}), opaque(etag)))
            return true;
    }
    return false;
}
