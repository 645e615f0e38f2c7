/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Prints docs/keys.md from the table of cachekeys.c.
 */
#include "base/base.h"

#include <stdio.h>

#include "cachekeys/cachekeys.h"

static const char intro[] =
    "# Keys\n"
    "\n"
    "Every Redis key of quoin, those of parts that are still to come included: this version writes `price:`, `vwap:`\n"
    "and `health:`. This page is made from the table in `cachekeys/cachekeys.c` by `make docs-keys`; don't edit it.\n"
    "\n"
    "A key is fields joined by colons. In a component the bytes `%`, `:`, `/`, `{`, `}`, space, control bytes and all\n"
    "bytes from 0x7F on are written `%XX` with upper-case hex digits, all others as they are:\n"
    "`vwap:native:fiat%3AUSD:300`, `rl:bad%2F203.0.113.9:29166666`. The braces round a tenant are literal. Components\n"
    "are never empty, integers have no sign and no leading zeros, hashes are lower-case hex; a `<key>` or `<channel>`\n"
    "inside a key is one component. A whole key has at most 1023 bytes; a longer one is refused, never cut. So a key\n"
    "parses back to exactly its parts, and no two inputs share a key.\n"
    "\n"
    "Class: *cache* is computed again from Postgres or an upstream; *limit* is a counter that a limit or a bill\n"
    "depends on; *ephemeral* says that something is so now; *lock* says who may do it; *record* is kept until it is\n"
    "deleted and has a shadow in Postgres. Redis: the instance where the answers pool is on; without it there is one.\n"
    "Keys of the caching instance may be evicted when it is full, those of `[redis.limits]` are not. No key but the\n"
    "ones marked in the column TTL-less may be without a TTL.\n"
    "\n"
    "| key | value | TTL | TTL-less | class | Redis | writer | loss means |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |\n";

static const char channels[] =
    "\n"
    "## Channels\n"
    "\n"
    "Names of Pub/Sub channels are made the same way. Inside `sub:<channel>:<subscriber_id>` and `events:<channel>`\n"
    "such a name is one component, so its colons and percent signs are encoded once more.\n"
    "\n"
    "| channel | events | writer | loss means |\n"
    "| --- | --- | --- | --- |\n";

static void print_seconds(int seconds)
{
    if (seconds == 0) {
        (void)printf("none");
    } else if (seconds % 86400 == 0 && seconds > 86400) {
        (void)printf("%d d", seconds / 86400);
    } else if (seconds % 3600 == 0) {
        (void)printf("%d h", seconds / 3600);
    } else if (seconds % 60 == 0 && seconds >= 300) {
        (void)printf("%d min", seconds / 60);
    } else {
        (void)printf("%d s", seconds);
    }
}

static void print_ttl(const struct qn_key_info *info)
{
    switch (info->rule) {
    case QN_KEY_TTL_NONE:
    case QN_KEY_TTL_FIXED:
        print_seconds(info->seconds);
        break;
    case QN_KEY_TTL_WINDOW:
        (void)printf("the window");
        break;
    case QN_KEY_TTL_GIVEN:
        (void)printf("%s", info->ttl_note);
        return;
    case QN_KEY_TTL_CASES:
        for (const struct qn_key_case_ttl *c = info->cases; c->which != QN_KEY_CASE_END; c++) {
            (void)printf("%s%s: ", c == info->cases ? "" : "; ", c->when);
            print_seconds(c->seconds);
        }
        break;
    }
    if (info->ttl_note) {
        (void)printf(", %s", info->ttl_note);
    }
}

int main(void)
{
    (void)printf("%s", intro);
    for (int f = 0; f < QN_KEY_FAMILIES; f++) {
        const struct qn_key_info *info = qn_key_info((enum qn_key_family)f);
        (void)printf("| `%s` | %s | ", info->pattern, info->value);
        print_ttl(info);
        (void)printf(" | %s | %s | %s | %s | %s |\n", info->may_lack_ttl ? "yes" : "no", qn_key_class_name(info->class),
                     info->home == QN_KEY_HOME_LIMITS ? "limits" : "caching", info->writer, info->loss);
    }
    (void)printf("%s", channels);
    for (int f = QN_KEY_FAMILIES; f < QN_KEY_FORMS; f++) {
        const struct qn_key_info *info = qn_key_info((enum qn_key_family)f);
        (void)printf("| `%s` | %s | %s | %s |\n", info->pattern, info->value, info->writer, info->loss);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("keysdoc");
        return QN_EXIT_FAIL;
    }
    return QN_EXIT_OK;
}
