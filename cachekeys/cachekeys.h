/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Every Redis key and channel name, its TTL, class and writer are made here and nowhere else (design, section 4). A key
 * is fields joined by colons; what comes from outside is percent-encoded, so that a key parses back to exactly its
 * parts and no two inputs share one. Pure: no memory, no I/O, no state. Needs nothing but the types of base/base.h.
 */
#ifndef QN_CACHEKEYS_H
#define QN_CACHEKEYS_H

#include "base/base.h"

enum {
    QN_KEY_MAX = 1024,        /* bytes of a key with its NUL: a longer one is QN_ERANGE, never truncated */
    QN_KEY_MAX_FIELDS = 6,    /* fields of a pattern, literal ones included */
    QN_KEY_MAX_CASES = 3,
    QN_KEY_DEFAULT_WINDOW = 60 /* seconds: the window that `price:<asset>` leaves out */
};

/* A family is one pattern of key. The order is that of docs/keys.md. */
enum qn_key_family {
    QN_KEY_PRICE,
    QN_KEY_VWAP,
    QN_KEY_OHLC,
    QN_KEY_RL,
    QN_KEY_TOML,
    QN_KEY_META,
    QN_KEY_SUB,
    QN_KEY_DIV,
    QN_KEY_HEALTH,
    QN_KEY_EVENTS,
    QN_KEY_EVENTS_SEQ,
    QN_KEY_USAGE,
    QN_KEY_QUOTA,
    QN_KEY_LOCK_FILL,
    QN_KEY_LOCK_TOML,
    QN_KEY_TICKET,
    QN_KEY_APIKEY,
    QN_KEY_APIKEY_INDEX,
    QN_KEY_CACHE,
    QN_KEY_SEMCACHE,
    QN_KEY_SEMVER,
    QN_KEY_EMB,
    QN_KEY_RAG,
    QN_KEY_LOCK_CACHE,
    QN_KEY_LOCK_AGENT,
    QN_KEY_RATELIMIT_TPM,
    QN_KEY_RATELIMIT_BUDGET,
    QN_KEY_SESSION,
    QN_KEY_AGENT_SCRATCH,
    QN_KEY_AGENT_PENDING,
    QN_KEY_IDEMP,
    QN_KEY_JOBS,
    QN_KEY_FAMILIES, /* how many families of keys there are; what follows are names of Pub/Sub channels, not keys */
    QN_KEY_CHANNEL_PRICE = QN_KEY_FAMILIES,
    QN_KEY_CHANNEL_TIP,
    QN_KEY_CHANNEL_TRADES,
    QN_KEY_FORMS
};

enum qn_key_kind {
    QN_KEY_END,       /* behind a pattern's last field */
    QN_KEY_LITERAL,   /* the name itself */
    QN_KEY_TEXT,      /* 1 or more bytes of any value, encoded */
    QN_KEY_TENANT,    /* the same between literal braces */
    QN_KEY_HEX16,     /* exactly 16 lower-case hex digits */
    QN_KEY_HEX64,     /* exactly 64: a hash, so that no secret or client's id gets in by mistake */
    QN_KEY_COUNT,     /* integer, 1 to 2^31 - 1 */
    QN_KEY_NUMBER,    /* integer, 0 to 2^63 - 1 */
    QN_KEY_VERSION,   /* v and a QN_KEY_COUNT */
    QN_KEY_WINDOW,    /* a QN_KEY_COUNT at the end, left out with its colon when it is QN_KEY_DEFAULT_WINDOW */
    QN_KEY_DAY,       /* 2026-04-22 */
    QN_KEY_MONTH,     /* 2026-04 */
    QN_KEY_MINUTE,    /* 202604221430 */
};

struct qn_key_field {
    enum qn_key_kind kind;
    const char *name;      /* of a literal: the text in the key */
};

enum qn_key_class {
    QN_KEY_CLASS_CACHE,     /* computed again from Postgres or an upstream */
    QN_KEY_CLASS_LIMIT,     /* a counter that a limit or a bill depends on */
    QN_KEY_CLASS_EPHEMERAL, /* says that something is so now */
    QN_KEY_CLASS_LOCK,      /* who may do it */
    QN_KEY_CLASS_RECORD,    /* kept until deleted; shadowed in Postgres */
    QN_KEY_CLASS_CHANNEL,   /* not a key: the name of a Pub/Sub channel */
};

/* Which Redis it lives on where answers are on: the caching one, or [redis.limits] (noeviction). */
enum qn_key_home { QN_KEY_HOME_CACHING, QN_KEY_HOME_LIMITS };

enum qn_key_rule {
    QN_KEY_TTL_NONE,   /* never expires */
    QN_KEY_TTL_FIXED,  /* `seconds` */
    QN_KEY_TTL_WINDOW, /* the window of the key */
    QN_KEY_TTL_GIVEN,  /* the writer's: a route's TTL with its jitter */
    QN_KEY_TTL_CASES,  /* by what is written: `cases` */
};

/* What is written where a family's TTL depends on it. */
enum qn_key_case {
    QN_KEY_CASE_END,
    QN_KEY_TOML_FOUND,
    QN_KEY_TOML_FAILED,
    QN_KEY_OHLC_OPEN,
    QN_KEY_OHLC_CLOSED, /* inside the hot window, by the aggregator */
    QN_KEY_OHLC_REFILL, /* by a reader, or the value `-` */
};

struct qn_key_case_ttl {
    enum qn_key_case which;
    int seconds;           /* 0: none */
    const char *when;
};

/* One row of the table. */
struct qn_key_info {
    const char *name;      /* its literal fields: "price", "lock:fill", "ratelimit:tpm" */
    const char *pattern;   /* "price:<asset>[:<window>]" */
    struct qn_key_field fields[QN_KEY_MAX_FIELDS + 1];
    const char *value;
    enum qn_key_rule rule;
    int seconds;           /* QN_KEY_TTL_FIXED */
    struct qn_key_case_ttl cases[QN_KEY_MAX_CASES + 1]; /* QN_KEY_TTL_CASES */
    const char *ttl_note;  /* what else is to be known of the TTL, or NULL */
    enum qn_key_class class;
    enum qn_key_home home;
    bool may_lack_ttl;     /* whether a key of it without a TTL is in order */
    const char *writer;
    const char *loss;      /* what it means when the key is gone */
};

/* The row of a family or channel (below QN_KEY_FORMS). Static. */
const struct qn_key_info *qn_key_info(enum qn_key_family family);
/* "cache", "limit", "ephemeral", "lock", "record", "channel". Static. */
const char *qn_key_class_name(enum qn_key_class class);

/* Seconds that a key of this family lives. `given` is the window (QN_KEY_TTL_WINDOW), the writer's seconds
 * (QN_KEY_TTL_GIVEN), an enum qn_key_case (QN_KEY_TTL_CASES), else 0. 0: written without a TTL. -1: `given` is wrong
 * for this family (or family is a channel); Redis refuses it too, so such a slip can't make an immortal key. */
int qn_key_ttl(enum qn_key_family family, int given);

/* A key or channel name: plain value, NUL-terminated behind n. */
struct qn_key {
    char s[QN_KEY_MAX];
    size_t n;
};

static inline struct qn_str qn_key_str(const struct qn_key *key)
{
    return (struct qn_str){key->s, key->n};
}

/* ---- builders. *out is written on success only. QN_EINVAL: an empty component, an integer outside its kind, hex or a
 * date that isn't one; QN_ERANGE: longer than QN_KEY_MAX - 1 bytes. Text is the plain, decoded one; borrowed. ---- */

/* window in seconds; 60 gives `price:<asset>`. */
QN_MUST enum qn_err qn_key_price(struct qn_key *out, struct qn_str asset, int window);
/* A market in stored direction; window in seconds. */
QN_MUST enum qn_err qn_key_vwap(struct qn_key *out, struct qn_str base, struct qn_str quote, int window);
/* granularity by name ("1m"); the bucket's start in seconds since the epoch. */
QN_MUST enum qn_err qn_key_ohlc(struct qn_key *out, struct qn_str base, struct qn_str quote, struct qn_str granularity,
                                int64_t unix_start);
/* who: a key_id or an address; minute: minutes since the epoch. A who that begins with "bad/" is QN_EINVAL. */
QN_MUST enum qn_err qn_key_rl(struct qn_key *out, struct qn_str who, int64_t minute);
/* Failed authentications of an address: `rl:bad%2F<ip>:<minute>`. */
QN_MUST enum qn_err qn_key_rl_bad(struct qn_key *out, struct qn_str ip, int64_t minute);
QN_MUST enum qn_err qn_key_toml(struct qn_key *out, struct qn_str domain);
QN_MUST enum qn_err qn_key_meta(struct qn_key *out, struct qn_str asset);
/* channel: a name made by qn_key_channel_… (its colons are encoded once more). */
QN_MUST enum qn_err qn_key_sub(struct qn_key *out, struct qn_str channel, struct qn_str subscriber_id);
QN_MUST enum qn_err qn_key_div(struct qn_key *out, struct qn_str asset);
QN_MUST enum qn_err qn_key_health(struct qn_key *out, struct qn_str source);
/* channel as in qn_key_sub; "seq" is none: QN_EINVAL. */
QN_MUST enum qn_err qn_key_events(struct qn_key *out, struct qn_str channel);
QN_MUST enum qn_err qn_key_events_seq(struct qn_key *out);
/* day "YYYY-MM-DD", UTC. */
QN_MUST enum qn_err qn_key_usage(struct qn_key *out, struct qn_str subject, struct qn_str day);
/* month "YYYY-MM", UTC. */
QN_MUST enum qn_err qn_key_quota(struct qn_key *out, struct qn_str subject, struct qn_str month);
/* key: the whole key that is to be filled; may be out's own. */
QN_MUST enum qn_err qn_key_lock_fill(struct qn_key *out, struct qn_str key);
QN_MUST enum qn_err qn_key_lock_toml(struct qn_key *out, struct qn_str domain);
/* hash: 64 lower-case hex digits, here and below. */
QN_MUST enum qn_err qn_key_ticket(struct qn_key *out, struct qn_str hash);
QN_MUST enum qn_err qn_key_apikey(struct qn_key *out, struct qn_str hash);
QN_MUST enum qn_err qn_key_apikey_index(struct qn_key *out, struct qn_str subject);

/* version: the schema's, >= 1. fingerprint: 16 lower-case hex digits; sha256: 64, here and below. */
QN_MUST enum qn_err qn_key_cache(struct qn_key *out, int version, struct qn_str tenant, struct qn_str model,
                                 struct qn_str fingerprint, struct qn_str sha256);
QN_MUST enum qn_err qn_key_semcache(struct qn_key *out, int version, struct qn_str tenant, struct qn_str scope,
                                    struct qn_str id);
QN_MUST enum qn_err qn_key_semver(struct qn_key *out, struct qn_str tenant, struct qn_str scope);
QN_MUST enum qn_err qn_key_emb(struct qn_key *out, int version, struct qn_str tenant, struct qn_str model, int dims,
                               struct qn_str sha256);
QN_MUST enum qn_err qn_key_rag(struct qn_key *out, int version, struct qn_str tenant, struct qn_str corpus,
                               struct qn_str corpus_version, struct qn_str sha256);
QN_MUST enum qn_err qn_key_lock_cache(struct qn_key *out, struct qn_str tenant, struct qn_str sha256);
/* run, and a session's id: the client's, so given as their hashes (64 lower-case hex digits). */
QN_MUST enum qn_err qn_key_lock_agent(struct qn_key *out, struct qn_str tenant, struct qn_str run);
/* minute "yyyyMMddHHmm", UTC. */
QN_MUST enum qn_err qn_key_ratelimit_tpm(struct qn_key *out, struct qn_str tenant, struct qn_str minute);
QN_MUST enum qn_err qn_key_ratelimit_budget(struct qn_key *out, struct qn_str tenant, struct qn_str month);
QN_MUST enum qn_err qn_key_session(struct qn_key *out, struct qn_str tenant, struct qn_str id);
QN_MUST enum qn_err qn_key_agent_scratch(struct qn_key *out, struct qn_str tenant, struct qn_str run);
QN_MUST enum qn_err qn_key_agent_pending(struct qn_key *out, struct qn_str tenant, struct qn_str run);
QN_MUST enum qn_err qn_key_idemp(struct qn_key *out, struct qn_str tenant, struct qn_str key);
QN_MUST enum qn_err qn_key_jobs(struct qn_key *out, struct qn_str queue);

/* Names of Pub/Sub channels, and the <channel> of sub: and events: (contract-prices, section 7). */
QN_MUST enum qn_err qn_key_channel_price(struct qn_key *out, struct qn_str asset, struct qn_str quote);
QN_MUST enum qn_err qn_key_channel_tip(struct qn_key *out, struct qn_str asset, struct qn_str quote, int window);
QN_MUST enum qn_err qn_key_channel_trades(struct qn_key *out, struct qn_str base, struct qn_str quote);

/* ---- the generic form of both directions ---- */

/* One component: num for the integer kinds (text absent), text for the others. */
struct qn_key_part {
    struct qn_str text;
    int64_t num;
};

/* A key taken apart. The parts' text points into `decoded`: not copied by assignment. */
struct qn_key_parts {
    enum qn_key_family family;
    size_t n;              /* components in the pattern's order, literals left out */
    struct qn_key_part part[QN_KEY_MAX_FIELDS];
    char decoded[QN_KEY_MAX];
};

/* What the typed builders call. n must be the family's number of components: else QN_EINVAL. */
QN_MUST enum qn_err qn_key_build(struct qn_key *out, enum qn_key_family family, const struct qn_key_part *parts,
                                 size_t n);
/* Takes a key apart into exactly what it was built from (a window that was left out is there). QN_EINVAL: no builder
 * makes this key (unknown family, wrong number of fields, an escape that isn't canonical, a leading zero …). *out is
 * written on success only. */
QN_MUST enum qn_err qn_key_parse(struct qn_str key, struct qn_key_parts *out);
/* The same for the name of a channel. */
QN_MUST enum qn_err qn_key_channel_parse(struct qn_str name, struct qn_key_parts *out);

#endif
