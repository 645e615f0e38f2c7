/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "base/asset.h"

#include <stdlib.h>

#include "base/config.h"
#include "base/strkey.h"

enum { STRKEY = 56, CODE_MAX = 12 };

static bool set(struct qn_asset *out, enum qn_asset_kind kind, struct qn_str head, const char *joint,
                struct qn_str tail)
{
    size_t joint_n = strlen(joint);
    struct qn_asset a = {.kind = kind, .len = (uint8_t)(head.n + joint_n + tail.n)};
    memcpy(a.text, head.p, head.n);
    memcpy(a.text + head.n, joint, joint_n);
    if (tail.n)
        memcpy(a.text + head.n + joint_n, tail.p, tail.n);
    *out = a;
    return true;
}

static struct qn_str slice(struct qn_str s, size_t from, size_t to)
{
    return (struct qn_str){s.p + from, to - from};
}

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* `CODE` and a separator at the front of s: its length, or 0. */
static size_t code_length(struct qn_str s)
{
    size_t n = 0;
    while (n < s.n && is_alnum(s.p[n]))
        n++;
    return n >= 1 && n <= CODE_MAX && n < s.n && (s.p[n] == '-' || s.p[n] == ':') ? n : 0;
}

/* `CODE-G…`, `CODE:G…`, `CODE-G…-1`, `CODE-G…-2`. */
static bool read_classic(struct qn_str s, struct qn_asset *out)
{
    size_t code = code_length(s);
    if (code == 0 || s.n < code + 1 + STRKEY)
        return false;
    struct qn_str rest = slice(s, code + 1 + STRKEY, s.n);
    bool typed = s.p[code] == '-' && (qn_str_eq(rest, QN_STR("-1")) || qn_str_eq(rest, QN_STR("-2")));
    struct qn_str issuer = slice(s, code + 1, code + 1 + STRKEY);
    if ((rest.n != 0 && !typed) || !qn_strkey_valid(QN_STRKEY_ACCOUNT, issuer))
        return false;
    return set(out, QN_ASSET_CLASSIC, slice(s, 0, code), "-", issuer);
}

static int compare(const void *a, const void *b)
{
    return qn_str_cmp(*(const struct qn_str *)a, *(const struct qn_str *)b);
}

static bool listed(const struct qn_str *list, size_t n, struct qn_str name)
{
    return n && bsearch(&name, list, n, sizeof *list, compare);
}

/* The ticker behind `prefix`, if it is in the list. */
static bool read_listed(struct qn_str s, struct qn_str prefix, const struct qn_str *list, size_t n,
                        struct qn_str *ticker)
{
    if (!qn_str_starts(s, prefix))
        return false;
    *ticker = slice(s, prefix.n, s.n);
    return listed(list, n, *ticker);
}

static bool is_xlm(struct qn_str s)
{
    return s.n == 3 && (s.p[0] | 0x20) == 'x' && (s.p[1] | 0x20) == 'l' && (s.p[2] | 0x20) == 'm';
}

static bool read_any(const struct qn_config *config, struct qn_str s, struct qn_asset *out)
{
    static const struct qn_str stellar = {"stellar:", 8};
    struct qn_str ticker;
    if (qn_str_eq(s, QN_STR("native")) || qn_str_eq(s, QN_STR("stellar:native")) || is_xlm(s))
        return set(out, QN_ASSET_NATIVE, QN_STR("native"), "", QN_STR_NULL);
    if (qn_strkey_valid(QN_STRKEY_CONTRACT, s))
        return set(out, QN_ASSET_CONTRACT, s, "", QN_STR_NULL);
    /* Before the schemes: `fiat:G…` is an asset with the code "fiat", and no ticker looks like an issuer. */
    if (read_classic(s, out))
        return true;
    if (read_listed(s, QN_STR("fiat:"), config->fiat, config->n_fiat, &ticker) ||
        read_listed(s, QN_STR("iso4217:"), config->fiat, config->n_fiat, &ticker))
        return set(out, QN_ASSET_FIAT, QN_STR("fiat"), ":", ticker);
    if (read_listed(s, QN_STR("crypto:"), config->crypto, config->n_crypto, &ticker))
        return set(out, QN_ASSET_CRYPTO, QN_STR("crypto"), ":", ticker);
    if (!qn_str_starts(s, stellar))
        return false;
    struct qn_str rest = slice(s, stellar.n, s.n);
    size_t code = code_length(rest);
    return code && rest.p[code] == ':' && rest.n == code + 1 + STRKEY && read_classic(rest, out);
}

enum qn_err qn_asset_parse(const struct qn_config *config, struct qn_str text, struct qn_asset *out)
{
    return text.n && read_any(config, text, out) ? QN_OK : QN_EINVAL;
}

enum qn_err qn_asset_parse_canonical(const struct qn_config *config, struct qn_str text, struct qn_asset *out)
{
    struct qn_asset a;
    if (qn_asset_parse(config, text, &a) != QN_OK || !qn_str_eq(qn_asset_str(&a), text))
        return QN_EINVAL;
    *out = a;
    return QN_OK;
}

bool qn_asset_eq(const struct qn_asset *a, const struct qn_asset *b)
{
    return qn_str_eq(qn_asset_str(a), qn_asset_str(b));
}

static bool is_lumen(const struct qn_config *config, const struct qn_asset *a)
{
    return a->kind == QN_ASSET_NATIVE || qn_str_eq(qn_asset_str(a), QN_STR("crypto:XLM")) ||
           (a->kind == QN_ASSET_CONTRACT && qn_asset_eq(a, &config->native_contract));
}

static bool in_group(const struct qn_config_assets *group, const struct qn_asset *a)
{
    if (qn_asset_eq(&group->key, a))
        return true;
    for (size_t i = 0; i < group->n; i++)
        if (qn_asset_eq(&group->items[i], a))
            return true;
    return false;
}

/* The configured aliases that a is one of, or NULL. The configuration sees to it that there are not two. */
static const struct qn_config_assets *group_of(const struct qn_config *config, const struct qn_asset *a)
{
    for (size_t i = 0; i < config->prices.n_aliases; i++)
        if (in_group(&config->prices.aliases[i], a))
            return &config->prices.aliases[i];
    return NULL;
}

bool qn_asset_same_family(const struct qn_config *config, const struct qn_asset *a, const struct qn_asset *b)
{
    if (qn_asset_eq(a, b) || (is_lumen(config, a) && is_lumen(config, b)))
        return true;
    const struct qn_config_assets *group = group_of(config, a);
    return group && in_group(group, b);
}

size_t qn_asset_family(const struct qn_config *config, const struct qn_asset *a, struct qn_asset *out, size_t max)
{
    struct qn_asset lumens[3];
    const struct qn_config_assets *group = group_of(config, a);
    const struct qn_asset *others = group ? group->items : NULL;
    size_t n_others = group ? group->n : 0, n = 0;
    if (is_lumen(config, a)) {
        set(&lumens[0], QN_ASSET_NATIVE, QN_STR("native"), "", QN_STR_NULL);
        set(&lumens[1], QN_ASSET_CRYPTO, QN_STR("crypto:XLM"), "", QN_STR_NULL);
        lumens[2] = config->native_contract; /* last: a pool of the contract's must not stand for native */
        others = lumens;
        n_others = QN_LEN(lumens);
    }
    if (n < max)
        out[n++] = *a;
    if (group && n < max && !qn_asset_eq(a, &group->key))
        out[n++] = group->key;
    for (size_t i = 0; i < n_others && n < max; i++)
        if (!qn_asset_eq(a, &others[i]))
            out[n++] = others[i];
    return n;
}

bool qn_asset_stored(const struct qn_asset *a, const struct qn_asset *b, struct qn_asset *base, struct qn_asset *quote)
{
    bool inverse = qn_str_cmp(qn_asset_str(a), qn_asset_str(b)) > 0;
    *base = inverse ? *b : *a;
    *quote = inverse ? *a : *b;
    return inverse;
}
