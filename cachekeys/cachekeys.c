/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "cachekeys/cachekeys.h"

#define LIT(text) {QN_KEY_LITERAL, (text)}
#define TEXT(name) {QN_KEY_TEXT, (name)}
#define TENANT {QN_KEY_TENANT, "tenant"}
#define HEX16(name) {QN_KEY_HEX16, (name)}
#define HEX64(name) {QN_KEY_HEX64, (name)}
#define COUNT(name) {QN_KEY_COUNT, (name)}
#define NUMBER(name) {QN_KEY_NUMBER, (name)}
#define SCHEMA {QN_KEY_VERSION, "N"}
#define WINDOW {QN_KEY_WINDOW, "window"}

enum { MINUTE = 60, HOUR = 3600, DAY = 86400 };

static const struct qn_key_info table[QN_KEY_FORMS] = {
    [QN_KEY_PRICE] = {
        .name = "price",
        .pattern = "price:<asset>[:<window>]",
        .fields = {LIT("price"), TEXT("asset"), WINDOW},
        .value = "hot value in the reference quote; window 60 is left out",
        .rule = QN_KEY_TTL_FIXED, .seconds = 60,
        .class = QN_KEY_CLASS_CACHE, .home = QN_KEY_HOME_CACHING,
        .writer = "aggregator; readers if absent or older",
        .loss = "a query",
    },
    [QN_KEY_VWAP] = {
        .name = "vwap",
        .pattern = "vwap:<base>:<quote>:<window>",
        .fields = {LIT("vwap"), TEXT("base"), TEXT("quote"), COUNT("window")},
        .value = "hot value of a direct market, stored direction",
        .rule = QN_KEY_TTL_WINDOW,
        .class = QN_KEY_CLASS_CACHE, .home = QN_KEY_HOME_CACHING,
        .writer = "aggregator; readers if absent or older",
        .loss = "a query",
    },
    [QN_KEY_OHLC] = {
        .name = "ohlc",
        .pattern = "ohlc:<base>:<quote>:<granularity>:<unix start>",
        .fields = {LIT("ohlc"), TEXT("base"), TEXT("quote"), TEXT("granularity"), NUMBER("unix start")},
        .value = "versioned candle, or `-`",
        .rule = QN_KEY_TTL_CASES,
        .cases = {{QN_KEY_OHLC_OPEN, HOUR, "open"},
                  {QN_KEY_OHLC_CLOSED, 0, "closed, inside the hot window, by the aggregator"},
                  {QN_KEY_OHLC_REFILL, HOUR, "refills and `-`"}},
        .class = QN_KEY_CLASS_CACHE, .home = QN_KEY_HOME_CACHING, .may_lack_ttl = true,
        .writer = "aggregator; readers by version",
        .loss = "a query",
    },
    [QN_KEY_RL] = {
        .name = "rl",
        .pattern = "rl:<key_id, ip or bad/ip>:<unix minute>",
        .fields = {LIT("rl"), TEXT("key_id, ip or bad/ip"), NUMBER("unix minute")},
        .value = "integer",
        .rule = QN_KEY_TTL_FIXED, .seconds = 120,
        .class = QN_KEY_CLASS_LIMIT, .home = QN_KEY_HOME_CACHING,
        .writer = "admission script",
        .loss = "a fresh minute",
    },
    [QN_KEY_TOML] = {
        .name = "toml",
        .pattern = "toml:<domain>",
        .fields = {LIT("toml"), TEXT("domain")},
        .value = "JSON",
        .rule = QN_KEY_TTL_CASES,
        .cases = {{QN_KEY_TOML_FOUND, 15 * MINUTE, "found"}, {QN_KEY_TOML_FAILED, 60, "failures"}},
        .class = QN_KEY_CLASS_CACHE, .home = QN_KEY_HOME_CACHING,
        .writer = "api",
        .loss = "a fetch",
    },
    [QN_KEY_META] = {
        .name = "meta",
        .pattern = "meta:<asset>",
        .fields = {LIT("meta"), TEXT("asset")},
        .value = "JSON",
        .rule = QN_KEY_TTL_FIXED, .seconds = 5 * MINUTE,
        .class = QN_KEY_CLASS_CACHE, .home = QN_KEY_HOME_CACHING,
        .writer = "api; indexer deletes",
        .loss = "a query",
    },
    [QN_KEY_SUB] = {
        .name = "sub",
        .pattern = "sub:<channel>:<subscriber_id>",
        .fields = {LIT("sub"), TEXT("channel"), TEXT("subscriber_id")},
        .value = "`1`",
        .rule = QN_KEY_TTL_FIXED, .seconds = 60, .ttl_note = "renewed while connected",
        .class = QN_KEY_CLASS_EPHEMERAL, .home = QN_KEY_HOME_CACHING,
        .writer = "stream",
        .loss = "a heartbeat",
    },
    [QN_KEY_DIV] = {
        .name = "div",
        .pattern = "div:<asset>",
        .fields = {LIT("div"), TEXT("asset")},
        .value = "JSON",
        .rule = QN_KEY_TTL_FIXED, .seconds = 5 * MINUTE,
        .class = QN_KEY_CLASS_CACHE, .home = QN_KEY_HOME_CACHING,
        .writer = "divergence",
        .loss = "unchecked",
    },
    [QN_KEY_HEALTH] = {
        .name = "health",
        .pattern = "health:<source>",
        .fields = {LIT("health"), TEXT("source")},
        .value = "JSON",
        .rule = QN_KEY_TTL_FIXED, .seconds = 60,
        .class = QN_KEY_CLASS_EPHEMERAL, .home = QN_KEY_HOME_CACHING,
        .writer = "indexer",
        .loss = "source counts as dead",
    },
    [QN_KEY_EVENTS] = {
        .name = "events",
        .pattern = "events:<channel>",
        .fields = {LIT("events"), TEXT("channel")},
        .value = "stream, about the newest 1024 entries",
        .rule = QN_KEY_TTL_FIXED, .seconds = HOUR,
        .class = QN_KEY_CLASS_EPHEMERAL, .home = QN_KEY_HOME_CACHING,
        .writer = "publish script",
        .loss = "no replay",
    },
    [QN_KEY_EVENTS_SEQ] = {
        .name = "events:seq",
        .pattern = "events:seq",
        .fields = {LIT("events"), LIT("seq")},
        .value = "integer, the last event id of all channels",
        .rule = QN_KEY_TTL_FIXED, .seconds = HOUR,
        .class = QN_KEY_CLASS_EPHEMERAL, .home = QN_KEY_HOME_CACHING,
        .writer = "publish script",
        .loss = "goes on from the clock",
    },
    [QN_KEY_USAGE] = {
        .name = "usage",
        .pattern = "usage:<subject>:<day>",
        .fields = {LIT("usage"), TEXT("subject"), {QN_KEY_DAY, "day"}},
        .value = "hash: ok, 4xx, 429, 5xx",
        .rule = QN_KEY_TTL_FIXED, .seconds = 35 * DAY,
        .class = QN_KEY_CLASS_LIMIT, .home = QN_KEY_HOME_CACHING,
        .writer = "metering",
        .loss = "the rollup's figure",
    },
    [QN_KEY_QUOTA] = {
        .name = "quota",
        .pattern = "quota:<subject>:<month>",
        .fields = {LIT("quota"), TEXT("subject"), {QN_KEY_MONTH, "month"}},
        .value = "Postgres side of the month's sum",
        .rule = QN_KEY_TTL_FIXED, .seconds = 60,
        .class = QN_KEY_CLASS_CACHE, .home = QN_KEY_HOME_CACHING,
        .writer = "api",
        .loss = "a query",
    },
    [QN_KEY_LOCK_FILL] = {
        .name = "lock:fill",
        .pattern = "lock:fill:<key>",
        .fields = {LIT("lock"), LIT("fill"), TEXT("key")},
        .value = "token",
        .rule = QN_KEY_TTL_FIXED, .seconds = 2,
        .class = QN_KEY_CLASS_LOCK, .home = QN_KEY_HOME_CACHING,
        .writer = "api",
        .loss = "duplicate work",
    },
    [QN_KEY_LOCK_TOML] = {
        .name = "lock:toml",
        .pattern = "lock:toml:<domain>",
        .fields = {LIT("lock"), LIT("toml"), TEXT("domain")},
        .value = "token",
        .rule = QN_KEY_TTL_FIXED, .seconds = 5,
        .class = QN_KEY_CLASS_LOCK, .home = QN_KEY_HOME_CACHING,
        .writer = "api",
        .loss = "duplicate work",
    },
    [QN_KEY_TICKET] = {
        .name = "ticket",
        .pattern = "ticket:<hash>",
        .fields = {LIT("ticket"), HEX64("hash")},
        .value = "stream ticket",
        .rule = QN_KEY_TTL_FIXED, .seconds = 60,
        .class = QN_KEY_CLASS_EPHEMERAL, .home = QN_KEY_HOME_CACHING,
        .writer = "api",
        .loss = "ask again",
    },
    [QN_KEY_APIKEY] = {
        .name = "apikey",
        .pattern = "apikey:<hash>",
        .fields = {LIT("apikey"), HEX64("hash")},
        .value = "record JSON",
        .rule = QN_KEY_TTL_NONE,
        .class = QN_KEY_CLASS_RECORD, .home = QN_KEY_HOME_CACHING, .may_lack_ttl = true,
        .writer = "key script",
        .loss = "refill from the shadow",
    },
    [QN_KEY_APIKEY_INDEX] = {
        .name = "apikey-index",
        .pattern = "apikey-index:<subject>",
        .fields = {LIT("apikey-index"), TEXT("subject")},
        .value = "hash: key_id to hash",
        .rule = QN_KEY_TTL_NONE,
        .class = QN_KEY_CLASS_RECORD, .home = QN_KEY_HOME_CACHING, .may_lack_ttl = true,
        .writer = "key script",
        .loss = "rebuilt",
    },
    [QN_KEY_CACHE] = {
        .name = "cache",
        .pattern = "cache:v<N>:{<tenant>}:<model>:<fingerprint>:<sha256>",
        .fields = {LIT("cache"), SCHEMA, TENANT, TEXT("model"), HEX16("fingerprint"), HEX64("sha256")},
        .value = "exact envelope",
        .rule = QN_KEY_TTL_GIVEN, .ttl_note = "the route's TTL + jitter",
        .class = QN_KEY_CLASS_CACHE, .home = QN_KEY_HOME_CACHING,
        .writer = "answers",
        .loss = "a generation",
    },
    [QN_KEY_SEMCACHE] = {
        .name = "semcache",
        .pattern = "semcache:v<N>:{<tenant>}:<scope>:<id>",
        .fields = {LIT("semcache"), SCHEMA, TENANT, TEXT("scope"), TEXT("id")},
        .value = "semantic entry: vector, prompt, pointer to the envelope",
        .rule = QN_KEY_TTL_GIVEN, .ttl_note = "as its envelope",
        .class = QN_KEY_CLASS_CACHE, .home = QN_KEY_HOME_CACHING,
        .writer = "answers",
        .loss = "no semantic hit",
    },
    [QN_KEY_SEMVER] = {
        .name = "semver",
        .pattern = "semver:{<tenant>}:<scope>",
        .fields = {LIT("semver"), TENANT, TEXT("scope")},
        .value = "version of the scope's vectors",
        .rule = QN_KEY_TTL_GIVEN, .ttl_note = "as its newest envelope",
        .class = QN_KEY_CLASS_CACHE, .home = QN_KEY_HOME_CACHING,
        .writer = "answers",
        .loss = "copies of the scope are read again",
    },
    [QN_KEY_EMB] = {
        .name = "emb",
        .pattern = "emb:v<N>:{<tenant>}:<model>:<dims>:<sha256>",
        .fields = {LIT("emb"), SCHEMA, TENANT, TEXT("model"), COUNT("dims"), HEX64("sha256")},
        .value = "float32 vector",
        .rule = QN_KEY_TTL_FIXED, .seconds = 10 * MINUTE,
        .class = QN_KEY_CLASS_CACHE, .home = QN_KEY_HOME_CACHING,
        .writer = "answers",
        .loss = "an embedding call",
    },
    [QN_KEY_RAG] = {
        .name = "rag",
        .pattern = "rag:v<N>:{<tenant>}:<corpus>:<corpus_ver>:<sha256>",
        .fields = {LIT("rag"), SCHEMA, TENANT, TEXT("corpus"), TEXT("corpus_ver"), HEX64("sha256")},
        .value = "chunk ids",
        .rule = QN_KEY_TTL_FIXED, .seconds = 10 * MINUTE,
        .class = QN_KEY_CLASS_CACHE, .home = QN_KEY_HOME_CACHING,
        .writer = "answers",
        .loss = "a search",
    },
    [QN_KEY_LOCK_CACHE] = {
        .name = "lock:cache",
        .pattern = "lock:cache:{<tenant>}:<sha256>",
        .fields = {LIT("lock"), LIT("cache"), TENANT, HEX64("sha256")},
        .value = "fencing token",
        .rule = QN_KEY_TTL_FIXED, .seconds = 30, .ttl_note = "extended while its owner generates",
        .class = QN_KEY_CLASS_LOCK, .home = QN_KEY_HOME_LIMITS,
        .writer = "answers",
        .loss = "a second generation",
    },
    [QN_KEY_LOCK_AGENT] = {
        .name = "lock:agent",
        .pattern = "lock:agent:{<tenant>}:<run>",
        .fields = {LIT("lock"), LIT("agent"), TENANT, HEX64("run")},
        .value = "fencing token",
        .rule = QN_KEY_TTL_FIXED, .seconds = 120, .ttl_note = "renewed by its owner",
        .class = QN_KEY_CLASS_LOCK, .home = QN_KEY_HOME_LIMITS,
        .writer = "answers",
        .loss = "the run may be taken over",
    },
    [QN_KEY_RATELIMIT_TPM] = {
        .name = "ratelimit:tpm",
        .pattern = "ratelimit:{<tenant>}:tpm:<minute>",
        .fields = {LIT("ratelimit"), TENANT, LIT("tpm"), {QN_KEY_MINUTE, "minute"}},
        .value = "tokens reserved and used",
        .rule = QN_KEY_TTL_FIXED, .seconds = 120,
        .class = QN_KEY_CLASS_LIMIT, .home = QN_KEY_HOME_LIMITS,
        .writer = "token scripts",
        .loss = "a fresh minute",
    },
    [QN_KEY_RATELIMIT_BUDGET] = {
        .name = "ratelimit:budget",
        .pattern = "ratelimit:{<tenant>}:budget:<month>",
        .fields = {LIT("ratelimit"), TENANT, LIT("budget"), {QN_KEY_MONTH, "month"}},
        .value = "tokens and money reserved and used",
        .rule = QN_KEY_TTL_FIXED, .seconds = 35 * DAY,
        .class = QN_KEY_CLASS_LIMIT, .home = QN_KEY_HOME_LIMITS,
        .writer = "token scripts",
        .loss = "the ledger's figure",
    },
    [QN_KEY_SESSION] = {
        .name = "session",
        .pattern = "session:{<tenant>}:<id>:turns",
        .fields = {LIT("session"), TENANT, HEX64("id"), LIT("turns")},
        .value = "list of turns",
        .rule = QN_KEY_TTL_FIXED, .seconds = DAY, .ttl_note = "from its last use",
        .class = QN_KEY_CLASS_EPHEMERAL, .home = QN_KEY_HOME_LIMITS,
        .writer = "session script",
        .loss = "an empty window, unless the route persists its sessions",
    },
    [QN_KEY_AGENT_SCRATCH] = {
        .name = "agent:scratch",
        .pattern = "agent:{<tenant>}:<run>:scratch",
        .fields = {LIT("agent"), TENANT, HEX64("run"), LIT("scratch")},
        .value = "hash: entry by tool id",
        .rule = QN_KEY_TTL_FIXED, .seconds = HOUR,
        .class = QN_KEY_CLASS_EPHEMERAL, .home = QN_KEY_HOME_LIMITS,
        .writer = "agent script",
        .loss = "the run's tools are called again",
    },
    [QN_KEY_AGENT_PENDING] = {
        .name = "agent:pending",
        .pattern = "agent:{<tenant>}:<run>:pending",
        .fields = {LIT("agent"), TENANT, HEX64("run"), LIT("pending")},
        .value = "hash: pending entry by tool id",
        .rule = QN_KEY_TTL_FIXED, .seconds = HOUR,
        .class = QN_KEY_CLASS_EPHEMERAL, .home = QN_KEY_HOME_LIMITS,
        .writer = "agent script",
        .loss = "nothing to recover",
    },
    [QN_KEY_IDEMP] = {
        .name = "idemp",
        .pattern = "idemp:{<tenant>}:<key>",
        .fields = {LIT("idemp"), TENANT, TEXT("key")},
        .value = "state and response, a copy of Postgres",
        .rule = QN_KEY_TTL_FIXED, .seconds = DAY,
        .class = QN_KEY_CLASS_CACHE, .home = QN_KEY_HOME_LIMITS,
        .writer = "answers",
        .loss = "a query",
    },
    [QN_KEY_JOBS] = {
        .name = "jobs",
        .pattern = "jobs:<queue>",
        .fields = {LIT("jobs"), TEXT("queue")},
        .value = "stream of wake-ups (the record is in Postgres)",
        .rule = QN_KEY_TTL_FIXED, .seconds = 7 * DAY, .ttl_note = "renewed",
        .class = QN_KEY_CLASS_EPHEMERAL, .home = QN_KEY_HOME_LIMITS,
        .writer = "answers; worker",
        .loss = "refilled from Postgres",
    },
    [QN_KEY_CHANNEL_PRICE] = {
        .name = "price",
        .pattern = "price:<asset>:<quote>",
        .fields = {LIT("price"), TEXT("asset"), TEXT("quote")},
        .value = "price and correction events, window 60",
        .class = QN_KEY_CLASS_CHANNEL, .home = QN_KEY_HOME_CACHING,
        .writer = "publish script",
        .loss = "subscribers poll",
    },
    [QN_KEY_CHANNEL_TIP] = {
        .name = "tip",
        .pattern = "tip:<asset>:<quote>:<window>",
        .fields = {LIT("tip"), TEXT("asset"), TEXT("quote"), COUNT("window")},
        .value = "tip events",
        .class = QN_KEY_CLASS_CHANNEL, .home = QN_KEY_HOME_CACHING,
        .writer = "publish script",
        .loss = "subscribers poll",
    },
    [QN_KEY_CHANNEL_TRADES] = {
        .name = "trades",
        .pattern = "trades:<base>:<quote>",
        .fields = {LIT("trades"), TEXT("base"), TEXT("quote")},
        .value = "trade events",
        .class = QN_KEY_CLASS_CHANNEL, .home = QN_KEY_HOME_CACHING,
        .writer = "publish script",
        .loss = "subscribers poll",
    },
};

const struct qn_key_info *qn_key_info(enum qn_key_family family)
{
    return &table[family];
}

const char *qn_key_class_name(enum qn_key_class class)
{
    static const char *const names[] = {
        [QN_KEY_CLASS_CACHE] = "cache",   [QN_KEY_CLASS_LIMIT] = "limit",   [QN_KEY_CLASS_EPHEMERAL] = "ephemeral",
        [QN_KEY_CLASS_LOCK] = "lock",     [QN_KEY_CLASS_RECORD] = "record", [QN_KEY_CLASS_CHANNEL] = "channel",
    };
    return names[class];
}

int qn_key_ttl(enum qn_key_family family, int given)
{
    const struct qn_key_info *info = &table[family];
    if (info->class == QN_KEY_CLASS_CHANNEL) {
        return -1;
    }
    switch (info->rule) {
    case QN_KEY_TTL_NONE:
        return given == 0 ? 0 : -1;
    case QN_KEY_TTL_FIXED:
        return given == 0 ? info->seconds : -1;
    case QN_KEY_TTL_WINDOW:
    case QN_KEY_TTL_GIVEN:
        return given > 0 ? given : -1;
    case QN_KEY_TTL_CASES:
        for (const struct qn_key_case_ttl *c = info->cases; c->which != QN_KEY_CASE_END; c++) {
            if ((int)c->which == given) {
                return c->seconds;
            }
        }
        return -1;
    }
    return -1;
}

/* ---- the alphabet ---- */

/* Whether a byte is written as it is: printable ASCII but what has a meaning in keys, hash tags and paths. */
static bool plain(unsigned char c)
{
    return c > 0x20 && c < 0x7f && c != '%' && c != ':' && c != '/' && c != '{' && c != '}';
}

/* The value of an upper-case hex digit, or -1. */
static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool is_hash(struct qn_str s, size_t digits)
{
    if (s.n != digits) {
        return false;
    }
    for (size_t i = 0; i < s.n; i++) {
        if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f'))) {
            return false;
        }
    }
    return true;
}

/* Whether s has the form of `format`, where y, M, d, H, m stand for digits of a field within its bounds. */
static bool is_date(struct qn_str s, const char *format)
{
    static const struct {
        char letter;
        int min;
        int max;
    } bounds[] = {{'M', 1, 12}, {'d', 1, 31}, {'H', 0, 23}, {'m', 0, 59}};
    if (s.n != strlen(format)) {
        return false;
    }
    for (size_t i = 0; i < s.n; i++) {
        if (format[i] == '-' ? s.p[i] != '-' : s.p[i] < '0' || s.p[i] > '9') {
            return false;
        }
    }
    for (size_t b = 0; b < QN_LEN(bounds); b++) {
        const char *at = strchr(format, bounds[b].letter);
        if (at) {
            const char *digits = s.p + (at - format);
            int value = (digits[0] - '0') * 10 + (digits[1] - '0');
            if (value < bounds[b].min || value > bounds[b].max) {
                return false;
            }
        }
    }
    return true;
}

/* What a text component must be beside not empty: the same for building and parsing. */
static bool text_fits(enum qn_key_family family, enum qn_key_kind kind, struct qn_str text)
{
    if (text.n == 0) {
        return false;
    }
    switch (kind) {
    case QN_KEY_HEX16:
        return is_hash(text, 16);
    case QN_KEY_HEX64:
        return is_hash(text, 64);
    case QN_KEY_DAY:
        return is_date(text, "yyyy-MM-dd");
    case QN_KEY_MONTH:
        return is_date(text, "yyyy-MM");
    case QN_KEY_MINUTE:
        return is_date(text, "yyyyMMddHHmm");
    default:
        /* `events:seq` is the sequence of all channels, so no channel may be called so. */
        return family != QN_KEY_EVENTS || !qn_str_eq(text, QN_STR("seq"));
    }
}

static bool is_integer(enum qn_key_kind kind)
{
    return kind == QN_KEY_COUNT || kind == QN_KEY_NUMBER || kind == QN_KEY_VERSION || kind == QN_KEY_WINDOW;
}

static int64_t integer_min(enum qn_key_kind kind)
{
    return kind == QN_KEY_NUMBER ? 0 : 1;
}

static int64_t integer_max(enum qn_key_kind kind)
{
    return kind == QN_KEY_NUMBER ? INT64_MAX : INT32_MAX;
}

/* ---- building ---- */

/* Counts on when it is full, so that one check at the end is enough. */
static void put_char(struct qn_key *key, char c)
{
    if (key->n < QN_KEY_MAX) {
        key->s[key->n] = c;
    }
    key->n++;
}

static void put_plain(struct qn_key *key, const char *z)
{
    for (; *z; z++) {
        put_char(key, *z);
    }
}

static void put_text(struct qn_key *key, struct qn_str text)
{
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        if (plain(c)) {
            put_char(key, (char)c);
        } else {
            put_char(key, '%');
            put_char(key, hex[c >> 4]);
            put_char(key, hex[c & 15]);
        }
    }
}

static void put_integer(struct qn_key *key, int64_t value)
{
    char digits[20];
    size_t n = 0;
    do {
        digits[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    while (n > 0) {
        put_char(key, digits[--n]);
    }
}

enum qn_err qn_key_build(struct qn_key *out, enum qn_key_family family, const struct qn_key_part *parts, size_t n)
{
    struct qn_key key;
    size_t used = 0;
    key.n = 0;
    for (const struct qn_key_field *f = table[family].fields; f->kind != QN_KEY_END; f++) {
        bool first = f == table[family].fields;
        if (f->kind == QN_KEY_LITERAL) {
            put_plain(&key, first ? "" : ":");
            put_plain(&key, f->name);
            continue;
        }
        if (used == n) {
            return QN_EINVAL;
        }
        const struct qn_key_part *part = &parts[used++];
        if (f->kind == QN_KEY_WINDOW && part->num == QN_KEY_DEFAULT_WINDOW) {
            continue;
        }
        put_char(&key, ':');
        if (is_integer(f->kind)) {
            if (part->num < integer_min(f->kind) || part->num > integer_max(f->kind)) {
                return QN_EINVAL;
            }
            put_plain(&key, f->kind == QN_KEY_VERSION ? "v" : "");
            put_integer(&key, part->num);
        } else {
            if (!text_fits(family, f->kind, part->text)) {
                return QN_EINVAL;
            }
            put_plain(&key, f->kind == QN_KEY_TENANT ? "{" : "");
            put_text(&key, part->text);
            put_plain(&key, f->kind == QN_KEY_TENANT ? "}" : "");
        }
    }
    if (used != n) {
        return QN_EINVAL;
    }
    if (key.n >= QN_KEY_MAX) {
        return QN_ERANGE;
    }
    memcpy(out->s, key.s, key.n);
    out->s[key.n] = '\0';
    out->n = key.n;
    return QN_OK;
}

/* A list of components for qn_key_build: T(text), I(integer). */
#define T(value) {.text = (value)}
#define I(value) {.num = (value)}
#define BUILD(out, family, ...)                                                                                        \
    qn_key_build((out), (family), (const struct qn_key_part[]){__VA_ARGS__},                                           \
                 sizeof((const struct qn_key_part[]){__VA_ARGS__}) / sizeof(struct qn_key_part))

enum qn_err qn_key_price(struct qn_key *out, struct qn_str asset, int window)
{
    return BUILD(out, QN_KEY_PRICE, T(asset), I(window));
}

enum qn_err qn_key_vwap(struct qn_key *out, struct qn_str base, struct qn_str quote, int window)
{
    return BUILD(out, QN_KEY_VWAP, T(base), T(quote), I(window));
}

enum qn_err qn_key_ohlc(struct qn_key *out, struct qn_str base, struct qn_str quote, struct qn_str granularity,
                        int64_t unix_start)
{
    return BUILD(out, QN_KEY_OHLC, T(base), T(quote), T(granularity), I(unix_start));
}

static const struct qn_str bad_prefix = {"bad/", 4};

enum qn_err qn_key_rl(struct qn_key *out, struct qn_str who, int64_t minute)
{
    if (qn_str_starts(who, bad_prefix)) {
        return QN_EINVAL;
    }
    return BUILD(out, QN_KEY_RL, T(who), I(minute));
}

enum qn_err qn_key_rl_bad(struct qn_key *out, struct qn_str ip, int64_t minute)
{
    char who[QN_KEY_MAX];
    if (ip.n == 0) {
        return QN_EINVAL;
    }
    if (ip.n > sizeof(who) - bad_prefix.n) {
        return QN_ERANGE;
    }
    memcpy(who, bad_prefix.p, bad_prefix.n);
    memcpy(who + bad_prefix.n, ip.p, ip.n);
    return BUILD(out, QN_KEY_RL, T(((struct qn_str){who, bad_prefix.n + ip.n})), I(minute));
}

enum qn_err qn_key_toml(struct qn_key *out, struct qn_str domain)
{
    return BUILD(out, QN_KEY_TOML, T(domain));
}

enum qn_err qn_key_meta(struct qn_key *out, struct qn_str asset)
{
    return BUILD(out, QN_KEY_META, T(asset));
}

enum qn_err qn_key_sub(struct qn_key *out, struct qn_str channel, struct qn_str subscriber_id)
{
    return BUILD(out, QN_KEY_SUB, T(channel), T(subscriber_id));
}

enum qn_err qn_key_div(struct qn_key *out, struct qn_str asset)
{
    return BUILD(out, QN_KEY_DIV, T(asset));
}

enum qn_err qn_key_health(struct qn_key *out, struct qn_str source)
{
    return BUILD(out, QN_KEY_HEALTH, T(source));
}

enum qn_err qn_key_events(struct qn_key *out, struct qn_str channel)
{
    return BUILD(out, QN_KEY_EVENTS, T(channel));
}

enum qn_err qn_key_events_seq(struct qn_key *out)
{
    return qn_key_build(out, QN_KEY_EVENTS_SEQ, NULL, 0);
}

enum qn_err qn_key_usage(struct qn_key *out, struct qn_str subject, struct qn_str day)
{
    return BUILD(out, QN_KEY_USAGE, T(subject), T(day));
}

enum qn_err qn_key_quota(struct qn_key *out, struct qn_str subject, struct qn_str month)
{
    return BUILD(out, QN_KEY_QUOTA, T(subject), T(month));
}

enum qn_err qn_key_lock_fill(struct qn_key *out, struct qn_str key)
{
    return BUILD(out, QN_KEY_LOCK_FILL, T(key));
}

enum qn_err qn_key_lock_toml(struct qn_key *out, struct qn_str domain)
{
    return BUILD(out, QN_KEY_LOCK_TOML, T(domain));
}

enum qn_err qn_key_ticket(struct qn_key *out, struct qn_str hash)
{
    return BUILD(out, QN_KEY_TICKET, T(hash));
}

enum qn_err qn_key_apikey(struct qn_key *out, struct qn_str hash)
{
    return BUILD(out, QN_KEY_APIKEY, T(hash));
}

enum qn_err qn_key_apikey_index(struct qn_key *out, struct qn_str subject)
{
    return BUILD(out, QN_KEY_APIKEY_INDEX, T(subject));
}

enum qn_err qn_key_cache(struct qn_key *out, int version, struct qn_str tenant, struct qn_str model,
                         struct qn_str fingerprint, struct qn_str sha256)
{
    return BUILD(out, QN_KEY_CACHE, I(version), T(tenant), T(model), T(fingerprint), T(sha256));
}

enum qn_err qn_key_semcache(struct qn_key *out, int version, struct qn_str tenant, struct qn_str scope,
                            struct qn_str id)
{
    return BUILD(out, QN_KEY_SEMCACHE, I(version), T(tenant), T(scope), T(id));
}

enum qn_err qn_key_semver(struct qn_key *out, struct qn_str tenant, struct qn_str scope)
{
    return BUILD(out, QN_KEY_SEMVER, T(tenant), T(scope));
}

enum qn_err qn_key_emb(struct qn_key *out, int version, struct qn_str tenant, struct qn_str model, int dims,
                       struct qn_str sha256)
{
    return BUILD(out, QN_KEY_EMB, I(version), T(tenant), T(model), I(dims), T(sha256));
}

enum qn_err qn_key_rag(struct qn_key *out, int version, struct qn_str tenant, struct qn_str corpus,
                       struct qn_str corpus_version, struct qn_str sha256)
{
    return BUILD(out, QN_KEY_RAG, I(version), T(tenant), T(corpus), T(corpus_version), T(sha256));
}

enum qn_err qn_key_lock_cache(struct qn_key *out, struct qn_str tenant, struct qn_str sha256)
{
    return BUILD(out, QN_KEY_LOCK_CACHE, T(tenant), T(sha256));
}

enum qn_err qn_key_lock_agent(struct qn_key *out, struct qn_str tenant, struct qn_str run)
{
    return BUILD(out, QN_KEY_LOCK_AGENT, T(tenant), T(run));
}

enum qn_err qn_key_ratelimit_tpm(struct qn_key *out, struct qn_str tenant, struct qn_str minute)
{
    return BUILD(out, QN_KEY_RATELIMIT_TPM, T(tenant), T(minute));
}

enum qn_err qn_key_ratelimit_budget(struct qn_key *out, struct qn_str tenant, struct qn_str month)
{
    return BUILD(out, QN_KEY_RATELIMIT_BUDGET, T(tenant), T(month));
}

enum qn_err qn_key_session(struct qn_key *out, struct qn_str tenant, struct qn_str id)
{
    return BUILD(out, QN_KEY_SESSION, T(tenant), T(id));
}

enum qn_err qn_key_agent_scratch(struct qn_key *out, struct qn_str tenant, struct qn_str run)
{
    return BUILD(out, QN_KEY_AGENT_SCRATCH, T(tenant), T(run));
}

enum qn_err qn_key_agent_pending(struct qn_key *out, struct qn_str tenant, struct qn_str run)
{
    return BUILD(out, QN_KEY_AGENT_PENDING, T(tenant), T(run));
}

enum qn_err qn_key_idemp(struct qn_key *out, struct qn_str tenant, struct qn_str key)
{
    return BUILD(out, QN_KEY_IDEMP, T(tenant), T(key));
}

enum qn_err qn_key_jobs(struct qn_key *out, struct qn_str queue)
{
    return BUILD(out, QN_KEY_JOBS, T(queue));
}

enum qn_err qn_key_channel_price(struct qn_key *out, struct qn_str asset, struct qn_str quote)
{
    return BUILD(out, QN_KEY_CHANNEL_PRICE, T(asset), T(quote));
}

enum qn_err qn_key_channel_tip(struct qn_key *out, struct qn_str asset, struct qn_str quote, int window)
{
    return BUILD(out, QN_KEY_CHANNEL_TIP, T(asset), T(quote), I(window));
}

enum qn_err qn_key_channel_trades(struct qn_key *out, struct qn_str base, struct qn_str quote)
{
    return BUILD(out, QN_KEY_CHANNEL_TRADES, T(base), T(quote));
}

/* ---- parsing ---- */

/* Decodes one component to `to` (room for s.n bytes); returns its length, 0 for anything that put_text doesn't make. */
static size_t decode(struct qn_str s, char *to)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (!plain(c)) {
            if (c != '%' || s.n - i < 3) {
                return 0;
            }
            int high = hex_value(s.p[i + 1]);
            int low = hex_value(s.p[i + 2]);
            if (high < 0 || low < 0) {
                return 0;
            }
            c = (unsigned char)(high * 16 + low);
            if (plain(c)) {
                return 0; /* escaped without need: a second spelling of the same key */
            }
            i += 2;
        }
        to[n++] = (char)c;
    }
    return n;
}

static bool read_integer(struct qn_str s, enum qn_key_kind kind, int64_t *out)
{
    int64_t max = integer_max(kind);
    int64_t value = 0;
    if (s.n == 0 || (s.p[0] == '0' && s.n > 1)) {
        return false;
    }
    for (size_t i = 0; i < s.n; i++) {
        int digit = s.p[i] - '0';
        if (digit < 0 || digit > 9 || value > (max - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *out = value;
    return value >= integer_min(kind);
}

/* Takes the affixes of a field off: v of a version, the braces of a tenant. */
static bool strip(struct qn_str *s, enum qn_key_kind kind)
{
    if (kind == QN_KEY_VERSION) {
        if (s->n == 0 || s->p[0] != 'v') {
            return false;
        }
        *s = (struct qn_str){s->p + 1, s->n - 1};
    } else if (kind == QN_KEY_TENANT) {
        if (s->n < 2 || s->p[0] != '{' || s->p[s->n - 1] != '}') {
            return false;
        }
        *s = (struct qn_str){s->p + 1, s->n - 2};
    }
    return true;
}

/* One field's text into the next part; *used counts the bytes of out->decoded that are taken. */
static bool read_field(const struct qn_key_field *f, struct qn_str s, struct qn_key_parts *out, size_t *used)
{
    struct qn_key_part *part = &out->part[out->n];
    *part = (struct qn_key_part){QN_STR_NULL, 0};
    if (f->kind == QN_KEY_LITERAL) {
        return qn_str_eq(s, qn_str_of(f->name));
    }
    out->n++;
    if (!strip(&s, f->kind)) {
        return false;
    }
    if (is_integer(f->kind)) {
        return read_integer(s, f->kind, &part->num) &&
               !(f->kind == QN_KEY_WINDOW && part->num == QN_KEY_DEFAULT_WINDOW);
    }
    part->text = (struct qn_str){out->decoded + *used, decode(s, out->decoded + *used)};
    *used += part->text.n;
    return text_fits(out->family, f->kind, part->text);
}

/* Reads the fields of a key as those of one family. */
static bool read_as(enum qn_key_family family, const struct qn_str *fields, size_t n, struct qn_key_parts *out)
{
    size_t used = 0;
    size_t i = 0;
    out->family = family;
    out->n = 0;
    for (const struct qn_key_field *f = table[family].fields; f->kind != QN_KEY_END; f++) {
        if (i == n) {
            if (f->kind != QN_KEY_WINDOW) {
                return false;
            }
            out->part[out->n++] = (struct qn_key_part){QN_STR_NULL, QN_KEY_DEFAULT_WINDOW};
            return true;
        }
        if (!read_field(f, fields[i++], out, &used)) {
            return false;
        }
    }
    return i == n;
}

static void copy_parts(struct qn_key_parts *to, const struct qn_key_parts *from)
{
    to->family = from->family;
    to->n = from->n;
    memcpy(to->decoded, from->decoded, sizeof(to->decoded));
    for (size_t i = 0; i < from->n; i++) {
        to->part[i] = from->part[i];
        if (from->part[i].text.p) {
            to->part[i].text.p = to->decoded + (from->part[i].text.p - from->decoded);
        }
    }
}

/* No key is of two families: the literals differ, the number of fields does, or text_fits keeps them apart. */
static enum qn_err parse(struct qn_str key, int first, int end, struct qn_key_parts *out)
{
    struct qn_str fields[QN_KEY_MAX_FIELDS];
    size_t n = 0;
    if (key.n == 0 || key.n >= QN_KEY_MAX) {
        return QN_EINVAL;
    }
    for (size_t start = 0; start <= key.n;) {
        const char *colon = memchr(key.p + start, ':', key.n - start);
        size_t stop = colon ? (size_t)(colon - key.p) : key.n;
        if (n == QN_KEY_MAX_FIELDS) {
            return QN_EINVAL;
        }
        fields[n++] = (struct qn_str){key.p + start, stop - start};
        start = stop + 1;
    }
    struct qn_key_parts parts;
    memset(parts.decoded, 0, sizeof(parts.decoded));
    for (int family = first; family < end; family++) {
        if (read_as((enum qn_key_family)family, fields, n, &parts)) {
            copy_parts(out, &parts);
            return QN_OK;
        }
    }
    return QN_EINVAL;
}

enum qn_err qn_key_parse(struct qn_str key, struct qn_key_parts *out)
{
    return parse(key, 0, QN_KEY_FAMILIES, out);
}

enum qn_err qn_key_channel_parse(struct qn_str name, struct qn_key_parts *out)
{
    return parse(name, QN_KEY_FAMILIES, QN_KEY_FORMS, out);
}
