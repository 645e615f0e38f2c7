/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "base/config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/toml.h"

enum { MAX_FILE = 1 << 20, MAX_SECRET = 4096, MAX_KEYS = 96 };
enum { SOCKET_PATH_MAX = sizeof((struct sockaddr_un *)0)->sun_path - 1 };

struct problem {
    unsigned line; /* 0: of no line */
    size_t order;
    struct qn_str text;
};

/* One reading of a file. */
struct load {
    struct qn_config *config;
    struct qn_arena *arena; /* the problems, and whatever else dies with the reading */
    struct problem *problems;
    size_t n_problems, cap_problems;
    unsigned lines[MAX_KEYS]; /* of each key of the table where the file has it, else 0 */
    const struct qn_toml_node *defaults;
};

struct key {
    const char *section;
    const char *name;
    /* Stores node's value at `offset` in the configuration; false after a problem() (then nothing is stored). */
    bool (*set)(struct load *l, const struct key *key, const struct qn_toml_node *node);
    size_t offset;
    int64_t min, max; /* of a number; of a string its length */
    const char *value; /* the default in TOML */
};

/* ---- problems */

/* In quotes, as in JSON and TOML. */
static const char *quote(struct load *l, struct qn_str s)
{
    struct qn_buf b = {.arena = l->arena};
    qn_buf_json(&b, s);
    return b.p;
}

static bool is_bare(struct qn_str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", s.p[i]) || s.p[i] == '\0')
            return false;
    return s.n > 0;
}

/* A key's path and a member of it. */
static const char *member_path(struct load *l, const char *path, struct qn_str name)
{
    const char *shown = is_bare(name) ? qn_arena_copy(l->arena, name).p : quote(l, name);
    return path[0] ? qn_arena_printf(l->arena, "%s.%s", path, shown).p : shown;
}

static const char *key_path(struct load *l, const struct key *key)
{
    return member_path(l, key->section, qn_str_of(key->name));
}

/* Always false, for setters. path may be "": of the whole file. */
QN_PRINTF(4, 5) static bool problem(struct load *l, unsigned line, const char *path, const char *fmt, ...)
{
    struct qn_buf b = {.arena = l->arena};
    if (path[0])
        qn_buf_printf(&b, "%s: ", path);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    qn_buf_reserve(&b, n < 0 ? 0 : (size_t)n);
    va_start(ap, fmt);
    vsnprintf(b.p + b.n, b.cap - b.n, fmt, ap);
    va_end(ap);
    b.n += n < 0 ? 0 : (size_t)n;
    if (l->n_problems == l->cap_problems) {
        l->cap_problems = l->cap_problems ? l->cap_problems * 2 : 16;
        l->problems = qn_xrealloc(l->problems, l->cap_problems * sizeof *l->problems);
    }
    l->problems[l->n_problems] = (struct problem){line, l->n_problems, qn_buf_view(&b)};
    l->n_problems++;
    return false;
}

static const char *const type_names[] = {"a table", "an array", "a string", "an integer", "a boolean", "another type"};

static bool has_type(struct load *l, const char *path, const struct qn_toml_node *node, enum qn_toml_type type)
{
    return node->type == type ||
           problem(l, node->line, path, "must be %s, not %s", type_names[type], type_names[node->type]);
}

/* ---- setters */

static void *target(struct load *l, const struct key *key)
{
    return (char *)l->config + key->offset;
}

static bool number(struct load *l, const struct key *key, const struct qn_toml_node *node, int64_t *out)
{
    const char *path = key_path(l, key);
    if (!has_type(l, path, node, QN_TOML_INT))
        return false;
    if (node->num < key->min || node->num > key->max)
        return problem(l, node->line, path, "%lld is not between %lld and %lld", (long long)node->num,
                       (long long)key->min, (long long)key->max);
    *out = node->num;
    return true;
}

static bool set_int(struct load *l, const struct key *key, const struct qn_toml_node *node)
{
    int64_t v;
    if (!number(l, key, node, &v))
        return false;
    *(int *)target(l, key) = (int)v;
    return true;
}

static bool set_int64(struct load *l, const struct key *key, const struct qn_toml_node *node)
{
    return number(l, key, node, target(l, key));
}

/* Seconds in the file, milliseconds in an int64_t. */
static bool set_seconds(struct load *l, const struct key *key, const struct qn_toml_node *node)
{
    int64_t v;
    if (!number(l, key, node, &v))
        return false;
    *(int64_t *)target(l, key) = v * 1000;
    return true;
}

/* Seconds in the file, milliseconds in an int. */
static bool set_seconds_int(struct load *l, const struct key *key, const struct qn_toml_node *node)
{
    int64_t v;
    if (!number(l, key, node, &v))
        return false;
    *(int *)target(l, key) = (int)(v * 1000);
    return true;
}

static bool set_bool(struct load *l, const struct key *key, const struct qn_toml_node *node)
{
    if (!has_type(l, key_path(l, key), node, QN_TOML_BOOL))
        return false;
    *(bool *)target(l, key) = node->num != 0;
    return true;
}

/* A string without control bytes (a NUL would cut it, a line break would end a header). */
static bool text(struct load *l, const struct key *key, const struct qn_toml_node *node, struct qn_str *out)
{
    const char *path = key_path(l, key);
    if (!has_type(l, path, node, QN_TOML_STR))
        return false;
    for (size_t i = 0; i < node->str.n; i++)
        if ((unsigned char)node->str.p[i] < 0x20 || node->str.p[i] == 0x7f)
            return problem(l, node->line, path, "holds a control byte");
    if ((int64_t)node->str.n < key->min)
        return problem(l, node->line, path, node->str.n ? "is too short" : "is empty");
    if ((int64_t)node->str.n > key->max)
        return problem(l, node->line, path, "is longer than %lld bytes", (long long)key->max);
    *out = node->str;
    return true;
}

static bool store_text(struct load *l, const struct key *key, struct qn_str s)
{
    char **at = target(l, key);
    free(*at);
    *at = qn_xstrndup(s.p, s.n);
    return true;
}

static bool set_text(struct load *l, const struct key *key, const struct qn_toml_node *node)
{
    struct qn_str s;
    return text(l, key, node, &s) && store_text(l, key, s);
}

/* What goes into a response header. */
static bool set_header(struct load *l, const struct key *key, const struct qn_toml_node *node)
{
    struct qn_str s;
    if (!text(l, key, node, &s))
        return false;
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] >= 0x80)
            return problem(l, node->line, key_path(l, key), "must be ASCII");
    return store_text(l, key, s);
}

static bool set_path(struct load *l, const struct key *key, const struct qn_toml_node *node)
{
    struct qn_str s;
    if (!text(l, key, node, &s))
        return false;
    if (s.p[0] != '/')
        return problem(l, node->line, key_path(l, key), "%s is not an absolute path", quote(l, s));
    return store_text(l, key, s);
}

static bool is_ip(struct load *l, struct qn_str s, bool *v6)
{
    unsigned char address[16];
    const char *z = qn_arena_copy(l->arena, s).p;
    *v6 = inet_pton(AF_INET6, z, address) == 1;
    return *v6 || inet_pton(AF_INET, z, address) == 1;
}

static bool set_ip(struct load *l, const struct key *key, const struct qn_toml_node *node)
{
    struct qn_str s;
    bool v6;
    if (!text(l, key, node, &s))
        return false;
    if (!is_ip(l, s, &v6))
        return problem(l, node->line, key_path(l, key), "%s is not an IP address (names are not looked up)",
                       quote(l, s));
    return store_text(l, key, s);
}

/* "IP:PORT" or "[IP6]:PORT". */
static bool is_listen(struct load *l, struct qn_str s)
{
    const char *colon = memrchr(s.p, ':', s.n);
    if (!colon)
        return false;
    struct qn_str host = {s.p, (size_t)(colon - s.p)}, port = {colon + 1, s.n - host.n - 1};
    bool brackets = host.n > 2 && host.p[0] == '[' && host.p[host.n - 1] == ']', v6;
    if (brackets)
        host = (struct qn_str){host.p + 1, host.n - 2};
    uint64_t number;
    return is_ip(l, host, &v6) && v6 == brackets && qn_str_u64(port, 65535, &number) == QN_OK && number > 0;
}

static bool set_listen(struct load *l, const struct key *key, const struct qn_toml_node *node)
{
    struct qn_str s;
    if (!text(l, key, node, &s))
        return false;
    if (!is_listen(l, s))
        return problem(l, node->line, key_path(l, key), "%s is not \"IP:PORT\" or \"[IP6]:PORT\"", quote(l, s));
    return store_text(l, key, s);
}

/* Octal in a string, as chmod(1) takes it. */
static bool set_mode(struct load *l, const struct key *key, const struct qn_toml_node *node)
{
    struct qn_str s;
    if (!text(l, key, node, &s))
        return false;
    unsigned mode = 0;
    bool octal = true;
    for (size_t i = 0; i < s.n; i++) {
        octal = octal && s.p[i] >= '0' && s.p[i] <= '7';
        mode = mode << 3 | (unsigned)(s.p[i] & 7);
    }
    if (!octal || mode > 0777)
        return problem(l, node->line, key_path(l, key), "%s is not an octal mode up to 0777", quote(l, s));
    if (mode & 0002)
        return problem(l, node->line, key_path(l, key), "%s lets everybody connect", quote(l, s));
    *(unsigned *)target(l, key) = mode;
    return true;
}

static bool set_level(struct load *l, const struct key *key, const struct qn_toml_node *node)
{
    struct qn_str s;
    if (!text(l, key, node, &s))
        return false;
    return qn_log_level_parse(s, target(l, key)) == QN_OK ||
           problem(l, node->line, key_path(l, key), "%s is not debug, info, warn or error", quote(l, s));
}

static size_t count(const struct qn_toml_node *node)
{
    size_t n = 0;
    for (const struct qn_toml_node *c = node->child; c; c = c->next)
        n++;
    return n;
}

static bool set_peers(struct load *l, const struct key *key, const struct qn_toml_node *node)
{
    const char *path = key_path(l, key);
    if (!has_type(l, path, node, QN_TOML_ARRAY))
        return false;
    size_t before = l->n_problems, n = 0;
    bool v6;
    for (const struct qn_toml_node *c = node->child; c; c = c->next)
        if (has_type(l, path, c, QN_TOML_STR) && (memchr(c->str.p, '\0', c->str.n) || !is_ip(l, c->str, &v6)))
            problem(l, c->line, path, "%s is not an IP address", quote(l, c->str));
    if (l->n_problems > before)
        return false;
    struct qn_config_pool *pool = &l->config->prices_pool;
    pool->allow_peers = qn_xcalloc(count(node), sizeof *pool->allow_peers);
    for (const struct qn_toml_node *c = node->child; c; c = c->next)
        pool->allow_peers[n++] = qn_xstrndup(c->str.p, c->str.n);
    pool->n_allow_peers = n;
    return true;
}

static int compare_str(const void *a, const void *b)
{
    return qn_str_cmp(*(const struct qn_str *)a, *(const struct qn_str *)b);
}

/* A list of tickers, min-max bytes each, sorted and without repetitions. */
static bool set_tickers(struct load *l, const struct key *key, const struct qn_toml_node *node)
{
    const char *path = key_path(l, key);
    if (!has_type(l, path, node, QN_TOML_ARRAY))
        return false;
    size_t before = l->n_problems;
    for (const struct qn_toml_node *c = node->child; c; c = c->next) {
        if (!has_type(l, path, c, QN_TOML_STR))
            continue;
        bool good = (int64_t)c->str.n >= key->min && (int64_t)c->str.n <= key->max;
        for (size_t i = 0; i < c->str.n; i++) /* currencies are three letters; only longer tickers may hold digits */
            good = good && ((c->str.p[i] >= 'A' && c->str.p[i] <= 'Z') ||
                            (key->max > 3 && c->str.p[i] >= '0' && c->str.p[i] <= '9'));
        if (!good)
            problem(l, c->line, path, "%s is not an upper-case %s", quote(l, c->str),
                    key->max > 3 ? "ticker" : "ISO 4217 code");
    }
    if (l->n_problems > before)
        return false;
    bool fiat = key->max == 3;
    struct qn_str *list = qn_xcalloc(count(node), sizeof *list);
    size_t n = 0, kept = 0;
    for (const struct qn_toml_node *c = node->child; c; c = c->next)
        list[n++] = c->str;
    qsort(list, n, sizeof *list, compare_str);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || !qn_str_eq(list[i], list[kept - 1]))
            list[kept++] = list[i];
    for (size_t i = 0; i < kept; i++)
        list[i].p = qn_xstrndup(list[i].p, list[i].n);
    *(fiat ? &l->config->fiat : &l->config->crypto) = list;
    *(fiat ? &l->config->n_fiat : &l->config->n_crypto) = kept;
    return true;
}

static bool parse_asset(struct load *l, unsigned line, const char *path, struct qn_str s, struct qn_asset *out)
{
    return qn_asset_parse(l->config, s, out) == QN_OK || problem(l, line, path, "%s is not an asset", quote(l, s));
}

static bool set_asset(struct load *l, const struct key *key, const struct qn_toml_node *node)
{
    struct qn_str s;
    return text(l, key, node, &s) && parse_asset(l, node->line, key_path(l, key), s, target(l, key));
}

static bool set_contract(struct load *l, const struct key *key, const struct qn_toml_node *node)
{
    struct qn_str s;
    struct qn_asset a;
    const char *path = key_path(l, key);
    if (!text(l, key, node, &s) || !parse_asset(l, node->line, path, s, &a))
        return false;
    if (a.kind != QN_ASSET_CONTRACT)
        return problem(l, node->line, path, "%s is not a contract", quote(l, s));
    *(struct qn_asset *)target(l, key) = a;
    return true;
}

static bool set_windows(struct load *l, const struct key *key, const struct qn_toml_node *node)
{
    const char *path = key_path(l, key);
    struct qn_config_prices *prices = &l->config->prices;
    if (!has_type(l, path, node, QN_TOML_ARRAY))
        return false;
    size_t before = l->n_problems, n = 0;
    int64_t last = 0;
    int windows[QN_CONFIG_MAX_WINDOWS];
    if (count(node) > QN_CONFIG_MAX_WINDOWS)
        return problem(l, node->line, path, "has more than %d windows", QN_CONFIG_MAX_WINDOWS);
    for (const struct qn_toml_node *c = node->child; c; c = c->next) {
        if (!has_type(l, path, c, QN_TOML_INT))
            continue;
        if (c->num < key->min || c->num > key->max || c->num % 60 != 0)
            problem(l, c->line, path, "%lld is not a multiple of 60 between %lld and %lld", (long long)c->num,
                    (long long)key->min, (long long)key->max);
        else if (c->num <= last)
            problem(l, c->line, path, "%lld is out of order: windows ascend", (long long)c->num);
        else
            windows[n++] = (int)(last = c->num);
    }
    if (l->n_problems > before)
        return false;
    if (n == 0 || windows[0] != 60)
        return problem(l, node->line, path, "60 is missing: it is the default window of a price");
    memcpy(prices->windows, windows, n * sizeof *windows);
    prices->n_windows = n;
    return true;
}

static void free_assets(struct qn_config_assets *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(list[i].items);
    free(list);
}

/* One line `asset = [assets]`. */
static void read_assets(struct load *l, const char *path, const struct qn_toml_node *node, struct qn_config_assets *out)
{
    *out = (struct qn_config_assets){0};
    if (!parse_asset(l, node->line, path, node->key, &out->key) || !has_type(l, path, node, QN_TOML_ARRAY))
        return;
    if (!node->child)
        problem(l, node->line, path, "is empty");
    out->items = qn_xcalloc(count(node), sizeof *out->items);
    for (const struct qn_toml_node *c = node->child; c; c = c->next) {
        struct qn_asset a;
        if (!has_type(l, path, c, QN_TOML_STR) || !parse_asset(l, c->line, path, c->str, &a))
            continue;
        if (qn_asset_same_family(l->config, &a, &out->key))
            problem(l, c->line, path, "%s is the asset itself", quote(l, c->str));
        out->items[out->n++] = a;
    }
}

static bool has_member(const struct qn_config_assets *group, const struct qn_asset *a)
{
    bool found = qn_asset_eq(&group->key, a);
    for (size_t i = 0; i < group->n; i++)
        found = found || qn_asset_eq(&group->items[i], a);
    return found;
}

/* [prices.proxies]: no asset twice on the left, nor twice in one list. */
static void check_proxies(struct load *l, const char *path, const struct qn_toml_node *node,
                          const struct qn_config_assets *list, size_t i)
{
    for (size_t other = 0; other < i; other++)
        if (qn_asset_eq(&list[other].key, &list[i].key))
            problem(l, node->line, path, "is the same asset as another one here");
    for (size_t a = 0; a < list[i].n; a++)
        for (size_t b = 0; b < a; b++)
            if (qn_asset_eq(&list[i].items[a], &list[i].items[b]))
                problem(l, node->line, path, "names %s twice", list[i].items[a].text);
}

/* [prices.aliases]: an asset is of one family only. */
static void check_aliases(struct load *l, const char *path, const struct qn_toml_node *node,
                          const struct qn_config_assets *list, size_t i)
{
    static const struct qn_asset native = {.kind = QN_ASSET_NATIVE, .len = 6, .text = "native"};
    for (size_t m = 0; m <= list[i].n; m++) {
        const struct qn_asset *a = m == 0 ? &list[i].key : &list[i].items[m - 1];
        if (qn_asset_same_family(l->config, a, &native))
            problem(l, node->line, path, "%s is of native's family already", a->text);
        for (size_t other = 0; other < i; other++)
            if (has_member(&list[other], a))
                problem(l, node->line, path, "%s is of another family already", a->text);
        for (size_t b = 1; b < m; b++)
            if (qn_asset_eq(a, &list[i].items[b - 1]))
                problem(l, node->line, path, "names %s twice", a->text);
    }
}

static bool set_assets(struct load *l, const struct key *key, const struct qn_toml_node *node)
{
    const char *path = key_path(l, key);
    struct qn_config_prices *prices = &l->config->prices;
    bool aliases = key->offset == offsetof(struct qn_config, prices.aliases);
    if (!has_type(l, path, node, QN_TOML_TABLE))
        return false;
    size_t before = l->n_problems, n = 0;
    struct qn_config_assets *list = qn_xcalloc(count(node), sizeof *list);
    for (const struct qn_toml_node *c = node->child; c; c = c->next, n++) {
        const char *member = member_path(l, path, c->key);
        size_t ahead = l->n_problems;
        read_assets(l, member, c, &list[n]);
        if (l->n_problems == ahead)
            (aliases ? check_aliases : check_proxies)(l, member, c, list, n);
    }
    if (l->n_problems > before) {
        free_assets(list, n);
        return false;
    }
    *(aliases ? &prices->aliases : &prices->proxies) = list;
    *(aliases ? &prices->n_aliases : &prices->n_proxies) = n;
    return true;
}

static bool is_source_name(struct qn_str s)
{
    bool good = s.n >= 1 && s.n <= 32;
    for (size_t i = 0; i < s.n && good; i++)
        good = s.p[i] != '\0' && strchr("abcdefghijklmnopqrstuvwxyz0123456789._-", s.p[i]);
    return good;
}

static void add_source(struct load *l, const char *path, const struct qn_toml_node *node)
{
    struct qn_config *c = l->config;
    int scale = -1;
    if (!is_source_name(node->key))
        problem(l, node->line, path, "is not a source's name (1-32 of a-z 0-9 . _ -)");
    if (!has_type(l, path, node, QN_TOML_TABLE))
        return;
    for (const struct qn_toml_node *m = node->child; m; m = m->next) {
        const char *member = member_path(l, path, m->key);
        if (!qn_str_eq(m->key, QN_STR("scale")))
            problem(l, m->line, member, "unknown key");
        else if (has_type(l, member, m, QN_TOML_INT)) {
            if (m->num < 0 || m->num > 18)
                problem(l, m->line, member, "%lld is not between 0 and 18", (long long)m->num);
            else
                scale = (int)m->num;
        }
    }
    c->sources = qn_xrealloc(c->sources, (c->n_sources + 1) * sizeof *c->sources);
    c->sources[c->n_sources++] = (struct qn_config_source){qn_xstrndup(node->key.p, node->key.n), scale};
}

/* The file's sources come on top of the ones that we know: leaving sdex out does not make its dust prices. */
static bool set_sources(struct load *l, const struct key *key, const struct qn_toml_node *node)
{
    if (!has_type(l, key->name, node, QN_TOML_TABLE))
        return false;
    for (const struct qn_toml_node *c = node->child; c; c = c->next)
        if (node != l->defaults || !qn_config_source(l->config, c->key))
            add_source(l, member_path(l, key->name, c->key), c);
    return true;
}

/* Reads a file's first MAX_SECRET bytes without the line break at its end. */
static bool read_secret(struct load *l, unsigned line, const char *path, const char *file, struct qn_str *out)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); /* a fifo must not hold the start up */
    struct stat st;
    if (fd < 0)
        return problem(l, line, path, "%s: %s", file, strerror(errno));
    bool good = false;
    char *bytes = qn_arena_alloc(l->arena, MAX_SECRET + 1);
    ssize_t n;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        problem(l, line, path, "%s: not a regular file", file);
    else if (st.st_mode & S_IRWXO)
        problem(l, line, path, "%s: others may read or write it (mode %04o); chmod o= it", file,
                (unsigned)(st.st_mode & 07777));
    else if ((n = read(fd, bytes, MAX_SECRET + 1)) < 0)
        problem(l, line, path, "%s: %s", file, strerror(errno));
    else if (n > MAX_SECRET)
        problem(l, line, path, "%s: longer than %d bytes", file, MAX_SECRET);
    else {
        if (n > 0 && bytes[n - 1] == '\n')
            n--;
        if (n > 0 && bytes[n - 1] == '\r')
            n--;
        good = n > 0;
        for (ssize_t i = 0; i < n; i++)
            good = good && (unsigned char)bytes[i] >= 0x20;
        *out = (struct qn_str){bytes, (size_t)n};
        if (!good)
            problem(l, line, path, "%s: %s", file, n ? "holds a control byte" : "is empty");
    }
    close(fd);
    return good;
}

/* offset is that of what the file's contents are for. */
static bool set_from_file(struct load *l, const struct key *key, const struct qn_toml_node *node)
{
    struct qn_str s, secret = QN_STR_NULL;
    if (!text(l, key, node, &s))
        return false;
    return read_secret(l, node->line, key_path(l, key), qn_arena_copy(l->arena, s).p, &secret) &&
           store_text(l, key, secret);
}

/* ---- the table: the one place that knows which keys there are */

#define AT(member) offsetof(struct qn_config, member)
#define FIAT_LIST \
    "[\"AED\", \"ARS\", \"AUD\", \"BGN\", \"BRL\", \"CAD\", \"CHF\", \"CLP\", \"CNY\", \"COP\", \"CZK\", " \
    "\"DKK\", \"EGP\", \"EUR\", \"GBP\", \"GEL\", \"GHS\", \"HKD\", \"HUF\", \"IDR\", \"ILS\", \"INR\", " \
    "\"ISK\", \"JPY\", \"KES\", \"KRW\", \"MAD\", \"MXN\", \"MYR\", \"NGN\", \"NOK\", \"NZD\", \"PEN\", " \
    "\"PHP\", \"PKR\", \"PLN\", \"QAR\", \"RON\", \"RSD\", \"SAR\", \"SEK\", \"SGD\", \"THB\", \"TRY\", " \
    "\"TWD\", \"UAH\", \"UGX\", \"USD\", \"UYU\", \"VND\", \"XAF\", \"XOF\", \"ZAR\"]"
#define CRYPTO_LIST \
    "[\"AAVE\", \"ADA\", \"ALGO\", \"APT\", \"ARB\", \"ATOM\", \"AVAX\", \"BCH\", \"BNB\", \"BTC\", \"BUSD\", " \
    "\"DAI\", \"DOGE\", \"DOT\", \"EOS\", \"ETC\", \"ETH\", \"EURC\", \"EURS\", \"EURT\", \"FIL\", \"HBAR\", " \
    "\"ICP\", \"LINK\", \"LTC\", \"MATIC\", \"MKR\", \"NEAR\", \"OP\", \"PAXG\", \"POL\", \"PYUSD\", \"SHIB\", " \
    "\"SOL\", \"SUI\", \"TON\", \"TRX\", \"TUSD\", \"UNI\", \"USDC\", \"USDP\", \"USDT\", \"VET\", \"WBTC\", " \
    "\"XAUT\", \"XLM\", \"XMR\", \"XRP\", \"XTZ\", \"ZEC\"]"
#define PUBLIC_NATIVE_CONTRACT "\"CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMA\""
#define PUBLIC_USDC "USDC-GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN"
enum { MINUTE = 60, DAY = 86400, MONTH = 31 * DAY };

/* Order matters where a value is read with the help of another: lists of tickers before assets, native's contract
 * before families, a secret before its file. */
static const struct key keys[] = {
    {"log", "level", set_level, AT(log_level), 0, 16, "\"info\""},
    {"assets", "fiat", set_tickers, AT(fiat), 3, 3, FIAT_LIST},
    {"assets", "crypto", set_tickers, AT(crypto), 1, 12, CRYPTO_LIST},
    {"redis", "socket", set_path, AT(redis.socket), 1, SOCKET_PATH_MAX, NULL},
    {"redis", "host", set_ip, AT(redis.host), 1, 64, "\"127.0.0.1\""},
    {"redis", "port", set_int, AT(redis.port), 1, 65535, "6379"},
    {"redis", "db", set_int, AT(redis.db), 0, 65535, "0"},
    {"redis", "user", set_text, AT(redis.user), 1, 128, NULL},
    {"redis", "password", set_text, AT(redis.password), 1, MAX_SECRET, NULL},
    {"redis", "password_file", set_from_file, AT(redis.password), 1, PATH_MAX, NULL},
    {"redis", "connect_ms", set_int, AT(redis.connect_ms), 1, 60000, "100"},
    {"redis", "command_ms", set_int, AT(redis.command_ms), 1, 60000, "100"},
    {"redis", "max_pending", set_int, AT(redis.max_pending), 1, 1000000, "10000"},
    {"postgres", "dsn", set_text, AT(postgres.dsn), 1, MAX_SECRET, "\"dbname=quoin\""},
    {"postgres", "dsn_file", set_from_file, AT(postgres.dsn), 1, PATH_MAX, NULL},
    {"postgres", "direct_dsn", set_text, AT(postgres.direct_dsn), 1, MAX_SECRET, NULL},
    {"postgres", "connect_ms", set_int, AT(postgres.connect_ms), 1, 60000, "500"},
    {"postgres", "statement_ms", set_int, AT(postgres.statement_ms), 1, 600000, "500"},
    {"postgres", "connections", set_int, AT(postgres.connections), 1, 100, "4"},
    {"postgres", "prepare", set_bool, AT(postgres.prepare), 0, 0, "true"},
    {"pool.prices", "socket", set_path, AT(prices_pool.socket), 1, SOCKET_PATH_MAX, "\"/run/quoin/prices.sock\""},
    {"pool.prices", "listen", set_listen, AT(prices_pool.listen), 1, 64, NULL},
    {"pool.prices", "allow_peers", set_peers, AT(prices_pool.allow_peers), 0, 0, "[]"},
    {"pool.prices", "socket_mode", set_mode, AT(prices_pool.socket_mode), 3, 4, "\"0660\""},
    {"pool.prices", "socket_group", set_text, AT(prices_pool.socket_group), 1, 64, NULL},
    {"pool.prices", "workers", set_int, AT(prices_pool.workers), 0, 1024, "0"},
    {"pool.prices", "backlog", set_int, AT(prices_pool.backlog), 1, 65535, "511"},
    {"pool.prices", "max_requests", set_int, AT(prices_pool.max_requests), 0, INT_MAX / 2, "10000"},
    {"pool.prices", "request_ms", set_int, AT(prices_pool.request_ms), 10, 600000, "2000"},
    {"pool.prices", "terminate_ms", set_int, AT(prices_pool.terminate_ms), 10, 3600000, "10000"},
    {"pool.prices", "receive_ms", set_int, AT(prices_pool.receive_ms), 10, 60000, "300"},
    {"pool.prices", "drain_ms", set_int, AT(prices_pool.drain_ms), 1, 3600000, "30000"},
    {"pool.prices", "start_limit", set_int, AT(prices_pool.start_limit), 1, 1000, "10"},
    {"pool.prices", "max_body", set_int, AT(prices_pool.max_body), 0, 64 << 20, "1048576"},
    {"pool.prices", "control_socket", set_path, AT(prices_pool.control_socket), 1, SOCKET_PATH_MAX, NULL},
    {"prices", "reference", set_asset, AT(prices.reference), 1, 128, "\"fiat:USD\""},
    {"prices", "windows", set_windows, AT(prices.windows), 60, MONTH, "[60, 300, 900, 3600, 86400]"},
    {"prices", "lookback_s", set_seconds, AT(prices.lookback_ms), MINUTE, MONTH, "86400"},
    {"prices", "max_hot_lag_s", set_seconds, AT(prices.max_hot_lag_ms), MINUTE, DAY, "90"},
    {"prices", "max_lag_s", set_seconds, AT(prices.max_lag_ms), MINUTE, DAY, "120"},
    {"prices", "stale_after_s", set_seconds, AT(prices.stale_after_ms), MINUTE, MONTH, "900"},
    {"prices", "settle_s", set_seconds, AT(prices.settle_ms), 0, 10 * MONTH, "86400"},
    {"prices", "grace_s", set_seconds, AT(prices.grace_ms), 0, 3600, "5"},
    {"prices", "source_timeout_s", set_seconds, AT(prices.source_timeout_ms), 1, DAY, "60"},
    {"prices", "dust_units", set_int64, AT(prices.dust_units), 0, 1000000000, "100"},
    {"prices", "cache_control", set_header, AT(prices.cache_control), 1, 256,
     "\"public, max-age=5, s-maxage=15, stale-while-revalidate=30\""},
    {"prices", "allow_origin", set_header, AT(prices.allow_origin), 1, 256, "\"*\""},
    {"prices", "error_base", set_header, AT(prices.error_base), 1, 256, "\"/errors/\""},
    {"prices", "native_contract", set_contract, AT(native_contract), 1, 128, PUBLIC_NATIVE_CONTRACT},
    {"prices", "proxies", set_assets, AT(prices.proxies), 0, 0, "{ \"fiat:USD\" = [\"" PUBLIC_USDC "\"] }"},
    {"prices", "aliases", set_assets, AT(prices.aliases), 0, 0, "{}"},
    {"", "sources", set_sources, AT(sources), 0, 0, "{ sdex = { scale = 7 } }"},
    {"aggregator", "period_s", set_seconds_int, AT(aggregator.period_ms), 1, 3600, "5"},
    {"aggregator", "rewrite_s", set_seconds_int, AT(aggregator.rewrite_ms), 1, 55, "30"},
    {"aggregator", "batch", set_int, AT(aggregator.batch), 1, 1000000, "20000"},
    {"indexer", "connections", set_int, AT(indexer.connections), 0, 64, "0"},
    {"indexer", "batch", set_int, AT(indexer.batch), 1, 1000000, "10000"},
    {"test", "allow_clock_offset", set_bool, AT(test_clock), 0, 0, "false"},
};
_Static_assert(QN_LEN(keys) <= MAX_KEYS, "struct load has a line for every key");

bool qn_config_key_at(size_t i, struct qn_config_key *out)
{
    if (i >= QN_LEN(keys))
        return false;
    *out = (struct qn_config_key){keys[i].section, keys[i].name, keys[i].value};
    return true;
}

/* ---- reading */

static const struct qn_toml_node *member(const struct qn_toml_node *table, struct qn_str name)
{
    const struct qn_toml_node *c = table->type == QN_TOML_TABLE ? table->child : NULL;
    while (c && !qn_str_eq(c->key, name))
        c = c->next;
    return c;
}

static const struct qn_toml_node *find(const struct qn_toml_node *root, const struct key *key)
{
    struct qn_str section = qn_str_of(key->section);
    const struct qn_toml_node *at = root;
    while (at && section.n) {
        const char *dot = memchr(section.p, '.', section.n);
        size_t n = dot ? (size_t)(dot - section.p) : section.n;
        at = member(at, (struct qn_str){section.p, n});
        section.p += dot ? n + 1 : n;
        section.n -= dot ? n + 1 : n;
    }
    return at ? member(at, qn_str_of(key->name)) : NULL;
}

/* Whether `path` is a section of the table, or leads to one. */
static bool is_section(const char *path)
{
    size_t n = strlen(path);
    for (size_t i = 0; i < QN_LEN(keys); i++)
        if (strncmp(keys[i].section, path, n) == 0 && (keys[i].section[n] == '\0' || keys[i].section[n] == '.'))
            return true;
    return false;
}

static bool is_key(const char *section, struct qn_str name)
{
    for (size_t i = 0; i < QN_LEN(keys); i++)
        if (strcmp(keys[i].section, section) == 0 && qn_str_eq(qn_str_of(keys[i].name), name))
            return true;
    return false;
}

/* Sections lie at most two deep, and an unknown one is not entered: so is the recursion. */
static void report_unknown(struct load *l, const struct qn_toml_node *table, const char *section)
{
    for (const struct qn_toml_node *c = table->child; c; c = c->next) {
        if (is_key(section, c->key))
            continue;
        const char *path = member_path(l, section, c->key);
        if (!is_section(path))
            problem(l, c->line, path, c->type == QN_TOML_TABLE ? "unknown section" : "unknown key");
        else if (has_type(l, path, c, QN_TOML_TABLE))
            report_unknown(l, c, path);
    }
}

/* Where the file has the key, or 0. */
static unsigned line_of(const struct load *l, const char *section, const char *name)
{
    for (size_t i = 0; i < QN_LEN(keys); i++)
        if (strcmp(keys[i].section, section) == 0 && strcmp(keys[i].name, name) == 0)
            return l->lines[i];
    return 0;
}

/* The table's defaults as the text of a file. */
static struct qn_str default_text(struct qn_arena *arena)
{
    struct qn_buf b = {.arena = arena};
    for (size_t i = 0; i < QN_LEN(keys); i++) /* dotted, so that the root's keys need not come first */
        if (keys[i].value)
            qn_buf_printf(&b, "%s%s%s = %s\n", keys[i].section, keys[i].section[0] ? "." : "", keys[i].name,
                          keys[i].value);
    return qn_buf_view(&b);
}

/* Both of a pair may not be given; the one that is turns off the other's default. */
static void either(struct load *l, const char *section, const char *a, char **a_at, const char *b, char **b_at)
{
    unsigned a_line = line_of(l, section, a), b_line = line_of(l, section, b);
    if (a_line && b_line)
        problem(l, a_line > b_line ? a_line : b_line, section, "%s and %s: only one of them", a, b);
    char **off = a_line && b_at ? b_at : b_line && a_at ? a_at : NULL;
    if (off) {
        free(*off);
        *off = NULL;
    }
}

static void check_whole(struct load *l)
{
    struct qn_config *c = l->config;
    struct qn_config_pool *pool = &c->prices_pool;
    either(l, "redis", "socket", &c->redis.socket, "host", &c->redis.host);
    either(l, "redis", "password", NULL, "password_file", NULL);
    either(l, "postgres", "dsn", NULL, "dsn_file", NULL);
    either(l, "pool.prices", "socket", &pool->socket, "listen", &pool->listen);
    if (line_of(l, "pool.prices", "listen") && pool->n_allow_peers == 0)
        problem(l, line_of(l, "pool.prices", "listen"), "pool.prices.listen",
                "needs allow_peers: whoever reaches the port could speak FastCGI");
    if (pool->terminate_ms <= pool->request_ms)
        problem(l, line_of(l, "pool.prices", "terminate_ms"), "pool.prices.terminate_ms",
                "%d is not above request_ms (%d)", pool->terminate_ms, pool->request_ms);
    int64_t least = 60000 + c->prices.grace_ms + c->aggregator.period_ms;
    if (c->prices.max_hot_lag_ms < least)
        problem(l, line_of(l, "prices", "max_hot_lag_s"), "prices.max_hot_lag_s",
                "%lld is below %lld (60 + grace_s + aggregator.period_s): every hot value would be a miss",
                (long long)c->prices.max_hot_lag_ms / 1000, (long long)least / 1000);
}

/* Everything but the environment. file: the root of a read file, or NULL. */
static void fill(struct load *l, const struct qn_toml_node *file, const struct qn_toml_node *defaults)
{
    if (file)
        report_unknown(l, file, "");
    for (size_t i = 0; i < QN_LEN(keys); i++) {
        const struct key *key = &keys[i];
        const struct qn_toml_node *given = file ? find(file, key) : NULL;
        l->defaults = keys[i].value ? find(defaults, key) : NULL;
        l->lines[i] = given ? given->line : 0;
        bool stored = given && key->set(l, key, given);
        /* After a bad value too: the checks of the whole must not fail for what was reported already. */
        if (l->defaults && (!stored || key->set == set_sources)) {
            size_t before = l->n_problems;
            key->set(l, key, l->defaults);
            for (size_t p = before; p < l->n_problems; p++)
                l->problems[p].line = 0; /* a default that does not fit the file (a currency that its list lacks) */
        }
    }
    check_whole(l);
    struct qn_config_pool *pool = &l->config->prices_pool;
    if (!pool->control_socket) {
        const char *base = pool->socket ? pool->socket : "/run/quoin/prices.sock";
        struct qn_str path = qn_arena_printf(l->arena, "%s.ctl", base);
        if (path.n > SOCKET_PATH_MAX)
            problem(l, line_of(l, "pool.prices", "socket"), "pool.prices.control_socket",
                    "%s is longer than %d bytes: give it a shorter path", path.p, (int)SOCKET_PATH_MAX);
        pool->control_socket = qn_xstrndup(path.p, path.n);
    }
}

static void set_from_environment(const char *name, char **at)
{
    const char *value = getenv(name);
    if (!value || !value[0])
        return;
    free(*at);
    *at = qn_xstrndup(value, strlen(value));
}

static enum qn_err parse_defaults(struct qn_arena *arena, struct qn_toml **out)
{
    struct qn_toml_error error;
    return qn_toml_parse(default_text(arena), out, &error);
}

static int compare_problems(const void *a, const void *b)
{
    const struct problem *x = a, *y = b;
    if (x->line != y->line)
        return x->line < y->line ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static void tell(struct load *l, const char *path, void (*report)(void *arg, const char *line), void *arg)
{
    if (l->n_problems)
        qsort(l->problems, l->n_problems, sizeof *l->problems, compare_problems);
    for (size_t i = 0; i < l->n_problems; i++) {
        const struct problem *p = &l->problems[i];
        report(arg, p->line ? qn_arena_printf(l->arena, "%s:%u: %.*s", path, p->line, QN_FMT(p->text)).p
                            : qn_arena_printf(l->arena, "%s: %.*s", path, QN_FMT(p->text)).p);
    }
}

/* The whole file into b, or errno. */
static int read_file(const char *path, struct qn_buf *b)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return errno;
    int error = 0;
    while (b->n <= MAX_FILE) { /* one byte over it: the parser refuses it by its length */
        qn_buf_reserve(b, 65536);
        ssize_t n = read(fd, b->p + b->n, 65536);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            error = errno;
        if (n <= 0)
            break;
        b->n += (size_t)n;
        b->p[b->n] = '\0';
    }
    close(fd);
    return error;
}

static enum qn_err load_text(struct load *l, struct qn_str contents)
{
    struct qn_toml *file = NULL, *defaults = NULL;
    struct qn_toml_error error;
    if (parse_defaults(l->arena, &defaults) != QN_OK)
        abort(); /* our own text */
    if (qn_toml_parse(contents, &file, &error) != QN_OK)
        problem(l, error.line, "", "%s", error.text);
    else
        fill(l, qn_toml_root(file), qn_toml_root(defaults));
    qn_toml_free(file);
    qn_toml_free(defaults);
    return l->n_problems ? QN_EINVAL : QN_OK;
}

enum qn_err qn_config_load(const char *path, void (*report)(void *arg, const char *line), void *arg,
                           struct qn_config **out)
{
    struct load l = {.config = qn_xcalloc(1, sizeof *l.config), .arena = qn_arena_new(16384)};
    struct qn_buf contents = {0};
    enum qn_err err = QN_EIO;
    l.config->path = qn_xstrndup(path, strlen(path));
    int error = read_file(path, &contents);
    if (error)
        problem(&l, 0, "", "%s", strerror(error));
    else
        err = load_text(&l, qn_buf_view(&contents));
    tell(&l, path, report, arg);
    if (err == QN_OK) {
        struct qn_config_postgres *pg = &l.config->postgres;
        set_from_environment("QUOIN_REDIS_PASSWORD", &l.config->redis.password);
        set_from_environment("QUOIN_POSTGRES_DSN", &pg->dsn);
        if (!pg->direct_dsn)
            pg->direct_dsn = qn_xstrndup(pg->dsn, strlen(pg->dsn));
        *out = l.config;
        l.config = NULL;
    }
    qn_config_free(l.config);
    qn_buf_free(&contents);
    free(l.problems);
    qn_arena_free(l.arena);
    return err;
}

struct qn_config *qn_config_defaults(void)
{
    struct load l = {.config = qn_xcalloc(1, sizeof *l.config), .arena = qn_arena_new(16384)};
    struct qn_toml *defaults;
    if (parse_defaults(l.arena, &defaults) != QN_OK)
        abort(); /* our own text */
    fill(&l, NULL, qn_toml_root(defaults));
    if (l.n_problems)
        abort();
    qn_toml_free(defaults);
    qn_arena_free(l.arena);
    l.config->path = qn_xstrndup("", 0);
    l.config->postgres.direct_dsn = qn_xstrndup(l.config->postgres.dsn, strlen(l.config->postgres.dsn));
    return l.config;
}

static void free_strs(struct qn_str *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free((char *)(uintptr_t)list[i].p); /* qn_str borrows; here it was xstrndup'ed for the configuration */
    free(list);
}

void qn_config_free(struct qn_config *c)
{
    if (!c)
        return;
    char *texts[] = {c->path, c->redis.socket, c->redis.host, c->redis.user, c->redis.password, c->postgres.dsn,
                     c->postgres.direct_dsn, c->prices_pool.socket, c->prices_pool.listen, c->prices_pool.socket_group,
                     c->prices_pool.control_socket, c->prices.cache_control, c->prices.allow_origin,
                     c->prices.error_base};
    for (size_t i = 0; i < QN_LEN(texts); i++)
        free(texts[i]);
    for (size_t i = 0; i < c->prices_pool.n_allow_peers; i++)
        free(c->prices_pool.allow_peers[i]);
    free(c->prices_pool.allow_peers);
    free_assets(c->prices.proxies, c->prices.n_proxies);
    free_assets(c->prices.aliases, c->prices.n_aliases);
    for (size_t i = 0; i < c->n_sources; i++)
        free(c->sources[i].name);
    free(c->sources);
    free_strs(c->fiat, c->n_fiat);
    free_strs(c->crypto, c->n_crypto);
    free(c);
}

/* ---- for programs */

const char *qn_config_path(const char *option)
{
    const char *from_environment = getenv("QUOIN_CONFIG");
    if (option)
        return option;
    return from_environment && from_environment[0] ? from_environment : QN_SYSCONFDIR "/quoin/quoin.toml";
}

static void print_problem(void *program, const char *line)
{
    fprintf(stderr, "%s: %s\n", (const char *)program, line);
}

struct qn_config *qn_config_start(const char *program, const char *option, bool check)
{
    struct qn_config *config;
    const char *path = qn_config_path(option);
    if (qn_config_load(path, print_problem, (char *)(uintptr_t)program, &config) != QN_OK)
        exit(QN_EXIT_CONFIG);
    if (qn_clock_init(config->test_clock) != QN_OK) {
        print_problem((char *)(uintptr_t)program, "QUOIN_TEST_CLOCK_OFFSET: not a count of seconds");
        exit(QN_EXIT_CONFIG);
    }
    if (check) {
        printf("%s: ok\n", path);
        exit(QN_EXIT_OK);
    }
    qn_log_init(program, config->log_level);
    return config;
}

const struct qn_config_source *qn_config_source(const struct qn_config *config, struct qn_str name)
{
    for (size_t i = 0; i < config->n_sources; i++)
        if (qn_str_eq(qn_str_of(config->sources[i].name), name))
            return &config->sources[i];
    return NULL;
}
