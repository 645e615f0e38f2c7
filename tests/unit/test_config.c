/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/config.h"
#include "base/toml.h"

#define ISSUER "GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN"
#define NATIVE_CONTRACT "CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMA"
#define USDC_CONTRACT "CCW67TSZV3SSS2HXMBQ5JFGCKJNXKZM7UQUWUZPUTHXSTZLEO7SJMI75"

static char folder[] = "/tmp/qn-test-config-XXXXXX";
static char file[128], secret[128];

static void write_file(const char *path, mode_t mode, const char *text, size_t n)
{
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, n), n);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void collect(void *arg, const char *line)
{
    qn_buf_puts(arg, line);
    qn_buf_char(arg, '\n');
}

/* The reports without the file's name in front, one a line. */
static enum qn_err load(const char *text, struct qn_buf *reports, struct qn_config **out)
{
    write_file(file, 0600, text, strlen(text));
    struct qn_buf raw = {0};
    enum qn_err err = qn_config_load(file, collect, &raw, out);
    qn_buf_clear(reports);
    for (const char *p = qn_buf_view(&raw).p; *p; p = strchr(p, '\n') + 1) {
        assert_memory_equal(p, file, strlen(file));
        size_t skip = strlen(file) + 1;
        qn_buf_put(reports, p + skip, (size_t)(strchr(p, '\n') - p) - skip + 1);
    }
    qn_buf_free(&raw);
    return err;
}

static void expect_reports(const char *text, const char *want)
{
    struct qn_buf reports = {0};
    struct qn_config *config = NULL;
    if (load(text, &reports, &config) != QN_EINVAL)
        fail_msg("read: %s", text);
    assert_null(config);
    assert_string_equal(reports.p, want);
    qn_buf_free(&reports);
}

static struct qn_config *expect_loaded(const char *text)
{
    struct qn_buf reports = {0};
    struct qn_config *config = NULL;
    if (load(text, &reports, &config) != QN_OK)
        fail_msg("%s", reports.p);
    assert_string_equal(qn_buf_view(&reports).p, "");
    qn_buf_free(&reports);
    return config;
}

/* ---- defaults and the example */

static void same_text(const char *a, const char *b)
{
    assert_true((a == NULL) == (b == NULL));
    if (a && b)
        assert_string_equal(a, b);
}

static void same_assets(const struct qn_config_assets *a, size_t n_a, const struct qn_config_assets *b, size_t n_b)
{
    assert_int_equal(n_a, n_b);
    for (size_t i = 0; i < n_a; i++) {
        assert_true(qn_asset_eq(&a[i].key, &b[i].key));
        assert_int_equal(a[i].n, b[i].n);
        for (size_t k = 0; k < a[i].n; k++)
            assert_true(qn_asset_eq(&a[i].items[k], &b[i].items[k]));
    }
}

static void same_list(const struct qn_str *a, size_t n_a, const struct qn_str *b, size_t n_b)
{
    assert_int_equal(n_a, n_b);
    for (size_t i = 0; i < n_a; i++)
        assert_true(qn_str_eq(a[i], b[i]));
}

static void same_links(const struct qn_config *a, const struct qn_config *b)
{
    same_text(a->redis.socket, b->redis.socket);
    same_text(a->redis.host, b->redis.host);
    assert_int_equal(a->redis.port, b->redis.port);
    assert_int_equal(a->redis.db, b->redis.db);
    same_text(a->redis.user, b->redis.user);
    same_text(a->redis.password, b->redis.password);
    assert_int_equal(a->redis.connect_ms, b->redis.connect_ms);
    assert_int_equal(a->redis.command_ms, b->redis.command_ms);
    assert_int_equal(a->redis.max_pending, b->redis.max_pending);
    same_text(a->postgres.dsn, b->postgres.dsn);
    same_text(a->postgres.direct_dsn, b->postgres.direct_dsn);
    assert_int_equal(a->postgres.connect_ms, b->postgres.connect_ms);
    assert_int_equal(a->postgres.statement_ms, b->postgres.statement_ms);
    assert_int_equal(a->postgres.connections, b->postgres.connections);
    assert_int_equal(a->postgres.prepare, b->postgres.prepare);
}

static void same_pool(const struct qn_config_pool *a, const struct qn_config_pool *b)
{
    same_text(a->socket, b->socket);
    same_text(a->listen, b->listen);
    assert_int_equal(a->n_allow_peers, b->n_allow_peers);
    for (size_t i = 0; i < a->n_allow_peers; i++)
        same_text(a->allow_peers[i], b->allow_peers[i]);
    assert_int_equal(a->socket_mode, b->socket_mode);
    same_text(a->socket_group, b->socket_group);
    assert_int_equal(a->workers, b->workers);
    assert_int_equal(a->backlog, b->backlog);
    assert_int_equal(a->max_requests, b->max_requests);
    assert_int_equal(a->request_ms, b->request_ms);
    assert_int_equal(a->terminate_ms, b->terminate_ms);
    assert_int_equal(a->receive_ms, b->receive_ms);
    assert_int_equal(a->drain_ms, b->drain_ms);
    assert_int_equal(a->start_limit, b->start_limit);
    assert_int_equal(a->max_body, b->max_body);
    same_text(a->control_socket, b->control_socket);
}

static void same_prices(const struct qn_config_prices *a, const struct qn_config_prices *b)
{
    assert_true(qn_asset_eq(&a->reference, &b->reference));
    same_assets(a->proxies, a->n_proxies, b->proxies, b->n_proxies);
    same_assets(a->aliases, a->n_aliases, b->aliases, b->n_aliases);
    assert_int_equal(a->n_windows, b->n_windows);
    assert_memory_equal(a->windows, b->windows, sizeof a->windows);
    assert_int_equal(a->lookback_ms, b->lookback_ms);
    assert_int_equal(a->max_hot_lag_ms, b->max_hot_lag_ms);
    assert_int_equal(a->max_lag_ms, b->max_lag_ms);
    assert_int_equal(a->stale_after_ms, b->stale_after_ms);
    assert_int_equal(a->settle_ms, b->settle_ms);
    assert_int_equal(a->grace_ms, b->grace_ms);
    assert_int_equal(a->source_timeout_ms, b->source_timeout_ms);
    assert_int_equal(a->dust_units, b->dust_units);
    same_text(a->cache_control, b->cache_control);
    same_text(a->allow_origin, b->allow_origin);
    same_text(a->error_base, b->error_base);
}

static void same_config(const struct qn_config *a, const struct qn_config *b)
{
    same_links(a, b);
    same_pool(&a->prices_pool, &b->prices_pool);
    same_prices(&a->prices, &b->prices);
    assert_memory_equal(&a->aggregator, &b->aggregator, sizeof a->aggregator);
    assert_memory_equal(&a->indexer, &b->indexer, sizeof a->indexer);
    assert_int_equal(a->n_sources, b->n_sources);
    for (size_t i = 0; i < a->n_sources; i++) {
        same_text(a->sources[i].name, b->sources[i].name);
        assert_int_equal(a->sources[i].scale, b->sources[i].scale);
    }
    same_list(a->fiat, a->n_fiat, b->fiat, b->n_fiat);
    same_list(a->crypto, a->n_crypto, b->crypto, b->n_crypto);
    assert_true(qn_asset_eq(&a->native_contract, &b->native_contract));
    assert_int_equal(a->log_level, b->log_level);
    assert_int_equal(a->test_clock, b->test_clock);
}

static void an_empty_file_is_all_defaults(void **state)
{
    (void)state;
    struct qn_config *config = expect_loaded(""), *defaults = qn_config_defaults();
    same_config(config, defaults);
    assert_string_equal(config->path, file);
    qn_config_free(config);
    qn_config_free(defaults);
}

static void defaults_are_the_documented_ones(void **state)
{
    (void)state;
    struct qn_config *c = qn_config_defaults();
    static const int windows[] = {60, 300, 900, 3600, 86400};
    assert_null(c->redis.socket);
    assert_string_equal(c->redis.host, "127.0.0.1");
    assert_int_equal(c->redis.connect_ms, 100);
    assert_int_equal(c->redis.max_pending, 10000);
    assert_int_equal(c->postgres.statement_ms, 500);
    assert_true(c->postgres.prepare);
    assert_string_equal(c->postgres.direct_dsn, c->postgres.dsn);
    assert_int_equal(c->prices_pool.socket_mode, 0660);
    assert_int_equal(c->prices_pool.backlog, 511);
    assert_string_equal(c->prices_pool.control_socket, "/run/quoin/prices.sock.ctl");
    assert_string_equal(c->prices.reference.text, "fiat:USD");
    assert_int_equal(c->prices.n_windows, QN_LEN(windows));
    assert_memory_equal(c->prices.windows, windows, sizeof windows);
    assert_int_equal(c->prices.lookback_ms, 86400000);
    assert_int_equal(c->prices.max_hot_lag_ms, 90000);
    assert_int_equal(c->prices.max_lag_ms, 120000);
    assert_int_equal(c->prices.stale_after_ms, 900000);
    assert_int_equal(c->prices.dust_units, 100);
    assert_int_equal(c->aggregator.period_ms, 5000);
    assert_int_equal(c->aggregator.rewrite_ms, 30000);
    assert_int_equal(c->n_sources, 1);
    assert_int_equal(qn_config_source(c, QN_STR("sdex"))->scale, 7);
    assert_null(qn_config_source(c, QN_STR("kraken")));
    assert_int_equal(c->prices.n_proxies, 1);
    assert_string_equal(c->prices.proxies[0].key.text, "fiat:USD");
    assert_string_equal(c->prices.proxies[0].items[0].text, "USDC-" ISSUER);
    assert_string_equal(c->native_contract.text, NATIVE_CONTRACT);
    assert_false(c->test_clock);
    qn_config_free(c);
}

static void example_path(char *out, size_t size)
{
    const char *srcdir = getenv("srcdir");
    assert_in_range(snprintf(out, size, "%s/%s", srcdir ? srcdir : ".", QN_EXAMPLE), 1, size - 1);
}

static void the_example_equals_the_defaults(void **state)
{
    (void)state;
    char path[4096];
    example_path(path, sizeof path);
    struct qn_buf reports = {0};
    struct qn_config *config = NULL, *defaults = qn_config_defaults();
    if (qn_config_load(path, collect, &reports, &config) != QN_OK)
        fail_msg("%s", reports.p);
    same_config(config, defaults);
    qn_config_free(config);
    qn_config_free(defaults);
    qn_buf_free(&reports);
}

/* A line `key =` or `#key =` in the key's section, or the section of that name itself. */
static bool documented(const char *text, const struct qn_config_key *key)
{
    char section[128] = "", header[128];
    snprintf(header, sizeof header, "%s%s%s", key->section, key->section[0] ? "." : "", key->name);
    size_t n = strlen(key->name), h = strlen(header);
    for (const char *p = text; *p; p = strchr(p, '\n') + 1) {
        if (p[0] == '[') {
            size_t len = (size_t)(strchr(p, ']') - p) - 1;
            snprintf(section, sizeof section, "%.*s", (int)len, p + 1);
            if (strncmp(section, header, h) == 0 && (section[h] == '\0' || section[h] == '.'))
                return true;
        }
        const char *name = p + (p[0] == '#');
        if (strcmp(section, key->section) == 0 && strncmp(name, key->name, n) == 0 && strncmp(name + n, " =", 2) == 0)
            return true;
    }
    return false;
}

static void the_example_has_every_key(void **state)
{
    (void)state;
    char path[4096], text[65536];
    example_path(path, sizeof path);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    assert_in_range(n, 1, sizeof text - 2);
    text[n] = '\0';
    struct qn_config_key key;
    size_t count = 0;
    for (; qn_config_key_at(count, &key); count++)
        if (!documented(text, &key))
            fail_msg("[%s] %s is not in %s", key.section, key.name, path);
    assert_true(count > 50);
    assert_false(documented(text, &(struct qn_config_key){"redis", "no_such_key", NULL}));
    assert_false(documented(text, &(struct qn_config_key){"redis", "windows", NULL}));
}

/* ---- good files */

static void values_are_stored_where_they_belong(void **state)
{
    (void)state;
    struct qn_config *c = expect_loaded(
        "[redis]\nsocket = \"/run/r.sock\"\nuser = \"u\"\npassword = \"p w\"\ndb = 3\n"
        "[postgres]\ndsn = \"host=/tmp\"\ndirect_dsn = \"host=/run\"\nprepare = false\n"
        "[pool.prices]\nlisten = \"[::1]:9001\"\nallow_peers = [\"::1\", \"10.0.0.1\"]\n"
        "socket_mode = \"0600\"\nworkers = 7\n"
        "[prices]\nreference = \"iso4217:EUR\"\nwindows = [60, 120]\nlookback_s = 3600\n"
        "[prices.proxies]\n\"fiat:EUR\" = [\"crypto:EURC\", \"EURC:" ISSUER "\"]\n"
        "[prices.aliases]\n\"USDC-" ISSUER "\" = [\"" USDC_CONTRACT "\"]\n"
        "[sources.kraken]\nscale = 8\n[sources.quiet]\n"
        "[assets]\ncrypto = [\"EURC\", \"1INCH\", \"BTC\", \"BTC\"]\n"
        "[log]\nlevel = \"debug\"\n[aggregator]\nperiod_s = 1\n[test]\nallow_clock_offset = true\n");
    assert_string_equal(c->redis.socket, "/run/r.sock");
    assert_null(c->redis.host); /* the default is off: there is one way to connect */
    assert_string_equal(c->redis.password, "p w");
    assert_int_equal(c->redis.db, 3);
    assert_string_equal(c->postgres.direct_dsn, "host=/run");
    assert_false(c->postgres.prepare);
    assert_null(c->prices_pool.socket);
    assert_string_equal(c->prices_pool.listen, "[::1]:9001");
    assert_int_equal(c->prices_pool.n_allow_peers, 2);
    assert_string_equal(c->prices_pool.allow_peers[1], "10.0.0.1");
    assert_int_equal(c->prices_pool.socket_mode, 0600);
    assert_int_equal(c->prices_pool.workers, 7);
    assert_string_equal(c->prices.reference.text, "fiat:EUR");
    assert_int_equal(c->prices.n_windows, 2);
    assert_int_equal(c->prices.lookback_ms, 3600000);
    assert_int_equal(c->prices.n_proxies, 1);
    assert_string_equal(c->prices.proxies[0].items[1].text, "EURC-" ISSUER);
    assert_string_equal(c->prices.aliases[0].items[0].text, USDC_CONTRACT);
    assert_int_equal(qn_config_source(c, QN_STR("kraken"))->scale, 8);
    assert_int_equal(qn_config_source(c, QN_STR("quiet"))->scale, -1);
    assert_int_equal(qn_config_source(c, QN_STR("sdex"))->scale, 7); /* known without being named */
    assert_int_equal(c->n_crypto, 3);
    assert_true(qn_str_eq(c->crypto[0], QN_STR("1INCH")));
    assert_int_equal(c->log_level, QN_LOG_DEBUG);
    assert_int_equal(c->aggregator.period_ms, 1000);
    assert_true(c->test_clock);
    qn_config_free(c);
}

static void a_bom_and_crlf_are_as_if_absent(void **state)
{
    (void)state;
    struct qn_config *c = expect_loaded("\xef\xbb\xbf[redis]\r\nport = 7000\r\n");
    assert_int_equal(c->redis.port, 7000);
    qn_config_free(c);
}

static void a_source_overrides_the_known_one(void **state)
{
    (void)state;
    struct qn_config *c = expect_loaded("[sources.sdex]\nscale = 9\n");
    assert_int_equal(c->n_sources, 1);
    assert_int_equal(qn_config_source(c, QN_STR("sdex"))->scale, 9);
    qn_config_free(c);
}

/* ---- bad files */

static void every_problem_is_reported_with_its_line(void **state)
{
    (void)state;
    expect_reports("[redis]\n"
                   "prot = 6379\n"
                   "port = \"6379\"\n"
                   "db = -1\n"
                   "host = \"localhost\"\n"
                   "[nginx]\n"
                   "x = 1\n"
                   "[prices]\n"
                   "grace_s = 1.5\n"
                   "reference = \"fiat:usd\"\n",
                   "2: redis.prot: unknown key\n"
                   "3: redis.port: must be an integer, not a string\n"
                   "4: redis.db: -1 is not between 0 and 65535\n"
                   "5: redis.host: \"localhost\" is not an IP address (names are not looked up)\n"
                   "6: nginx: unknown section\n"
                   "9: prices.grace_s: must be an integer, not another type\n"
                   "10: prices.reference: \"fiat:usd\" is not an asset\n");
}

static void toml_errors_have_a_line(void **state)
{
    (void)state;
    struct qn_buf reports = {0};
    struct qn_config *config = NULL;
    assert_int_equal(load("[redis]\nport = \n", &reports, &config), QN_EINVAL);
    assert_memory_equal(reports.p, "2: ", 3);
    assert_int_equal(load("a = 1\na = 2\n", &reports, &config), QN_EINVAL);
    assert_memory_equal(reports.p, "2: ", 3);
    qn_buf_free(&reports);
}

static void unknown_names_are_shown_escaped(void **state)
{
    (void)state;
    expect_reports("\"a\\nb\" = 1\nredis = 5\n[pool]\nx = 1\n[pool.answers]\n[prices.\"\\u001b\"]\n",
                   "1: \"a\\nb\": unknown key\n"
                   "2: redis: must be a table, not an integer\n"
                   "4: pool.x: unknown key\n"
                   "5: pool.answers: unknown section\n"
                   "6: prices.\"\\u001b\": unknown section\n");
}

static void windows_are_minutes_ascending_with_60(void **state)
{
    (void)state;
    expect_reports("prices.windows = [60, 90]\n",
                   "1: prices.windows: 90 is not a multiple of 60 between 60 and 2678400\n");
    expect_reports("prices.windows = [60, 300, 300]\n", "1: prices.windows: 300 is out of order: windows ascend\n");
    expect_reports("prices.windows = [120, 300]\n",
                   "1: prices.windows: 60 is missing: it is the default window of a price\n");
    expect_reports("prices.windows = []\n", "1: prices.windows: 60 is missing: it is the default window of a price\n");
    expect_reports("prices.windows = [\n60,\n\"300\"]\n", "3: prices.windows: must be an integer, not a string\n");
    expect_reports("prices.windows = [60,120,180,240,300,360,420,480,540,600,660,720,780,840,900,960,1020]\n",
                   "1: prices.windows: has more than 16 windows\n");
}

static void hot_lag_leaves_room_for_a_minute_the_grace_and_a_period(void **state)
{
    (void)state;
    expect_reports("[prices]\nmax_hot_lag_s = 69\n",
                   "2: prices.max_hot_lag_s: 69 is below 70 (60 + grace_s + aggregator.period_s): "
                   "every hot value would be a miss\n");
    qn_config_free(expect_loaded("[prices]\nmax_hot_lag_s = 70\n"));
    expect_reports("[prices]\ngrace_s = 30\n", /* the default of another key no longer fits */
                   " prices.max_hot_lag_s: 90 is below 95 (60 + grace_s + aggregator.period_s): "
                   "every hot value would be a miss\n");
}

static void a_tcp_listener_needs_allow_peers(void **state)
{
    (void)state;
    expect_reports("[pool.prices]\nlisten = \"0.0.0.0:9000\"\n",
                   "2: pool.prices.listen: needs allow_peers: whoever reaches the port could speak FastCGI\n");
    expect_reports("[pool.prices]\nlisten = \"0.0.0.0:9000\"\nallow_peers = []\n",
                   "2: pool.prices.listen: needs allow_peers: whoever reaches the port could speak FastCGI\n");
    expect_reports("[pool.prices]\nallow_peers = [\"localhost\", 5, \"1.2.3.4\\u0000\"]\n",
                   "2: pool.prices.allow_peers: \"localhost\" is not an IP address\n"
                   "2: pool.prices.allow_peers: must be a string, not an integer\n"
                   "2: pool.prices.allow_peers: \"1.2.3.4\\u0000\" is not an IP address\n");
    static const char *const bad[] = {"9000", ":9000", "localhost:9000", "1.2.3.4", "1.2.3.4:0", "1.2.3.4:65536",
                                      "::1:9000",
                                      "[::1]", "[1.2.3.4]:9000", "1.2.3.4:09000", "[::1:9000"};
    for (size_t i = 0; i < QN_LEN(bad); i++) {
        char text[256], want[256];
        snprintf(text, sizeof text, "[pool.prices]\nallow_peers = [\"::1\"]\nlisten = \"%s\"\n", bad[i]);
        snprintf(want, sizeof want, "3: pool.prices.listen: \"%s\" is not \"IP:PORT\" or \"[IP6]:PORT\"\n", bad[i]);
        expect_reports(text, want);
    }
}

static void only_one_of_a_pair_may_be_given(void **state)
{
    (void)state;
    expect_reports("[redis]\nhost = \"::1\"\nsocket = \"/r\"\n", "3: redis: socket and host: only one of them\n");
    expect_reports("[pool.prices]\nsocket = \"/p\"\nlisten = \"1.2.3.4:9\"\nallow_peers = [\"::1\"]\n",
                   "3: pool.prices: socket and listen: only one of them\n");
}

static void sockets_are_absolute_short_and_not_for_everybody(void **state)
{
    (void)state;
    char text[256], want[256];
    expect_reports("[redis]\nsocket = \"redis.sock\"\n", "2: redis.socket: \"redis.sock\" is not an absolute path\n");
    snprintf(text, sizeof text, "[redis]\nsocket = \"/%0107d\"\n", 0); /* 108 bytes: no room for the NUL */
    expect_reports(text, "2: redis.socket: is longer than 107 bytes\n");
    snprintf(text, sizeof text, "[pool.prices]\nsocket = \"/%0103d\"\n", 0);
    snprintf(want, sizeof want,
             "2: pool.prices.control_socket: /%0103d.ctl is longer than 107 bytes: give it a shorter path\n", 0);
    expect_reports(text, want);
    expect_reports("[pool.prices]\nsocket_mode = \"0666\"\n",
                   "2: pool.prices.socket_mode: \"0666\" lets everybody connect\n");
    expect_reports("[pool.prices]\nsocket_mode = \"0860\"\n",
                   "2: pool.prices.socket_mode: \"0860\" is not an octal mode up to 0777\n");
    expect_reports("[pool.prices]\nsocket_mode = 660\n",
                   "2: pool.prices.socket_mode: must be a string, not an integer\n");
}

static void a_request_must_end_before_the_master_ends_it(void **state)
{
    (void)state;
    expect_reports("[pool.prices]\nrequest_ms = 10000\n",
                   " pool.prices.terminate_ms: 10000 is not above request_ms (10000)\n");
}

static void no_value_may_break_a_header_or_be_cut_by_a_nul(void **state)
{
    (void)state;
    expect_reports("[prices]\nallow_origin = \"*\\r\\nX: y\"\n", "2: prices.allow_origin: holds a control byte\n");
    expect_reports("[redis]\npassword = \"a\\u0000b\"\n", "2: redis.password: holds a control byte\n");
    expect_reports("[prices]\nerror_base = \"\"\n", "2: prices.error_base: is empty\n");
    expect_reports("[prices]\ncache_control = \"\xc3\xa9\"\n", "2: prices.cache_control: must be ASCII\n");
}

static void asset_tables_are_checked(void **state)
{
    (void)state;
    expect_reports("[prices.proxies]\n\"fiat:USD\" = []\nnope = [\"native\"]\n\"fiat:EUR\" = \"native\"\n"
                   "\"fiat:GBP\" = [\"fiat:GBP\"]\n\"iso4217:GBP\" = [\"native\"]\n",
                   "2: prices.proxies.\"fiat:USD\": is empty\n"
                   "3: prices.proxies.nope: \"nope\" is not an asset\n"
                   "4: prices.proxies.\"fiat:EUR\": must be an array, not a string\n"
                   "5: prices.proxies.\"fiat:GBP\": \"fiat:GBP\" is the asset itself\n"
                   "6: prices.proxies.\"iso4217:GBP\": is the same asset as another one here\n");
    expect_reports("[prices.aliases]\nnative = [\"" USDC_CONTRACT "\"]\n",
                   "2: prices.aliases.native: native is of native's family already\n");
    expect_reports("[prices.aliases]\n\"A-" ISSUER "\" = [\"" USDC_CONTRACT "\"]\n"
                   "\"B-" ISSUER "\" = [\"" USDC_CONTRACT "\"]\n",
                   "3: prices.aliases.B-" ISSUER ": " USDC_CONTRACT " is of another family already\n");
    expect_reports("[prices]\nnative_contract = \"native\"\n",
                   "2: prices.native_contract: \"native\" is not a contract\n");
}

static void ticker_lists_are_checked_and_replace_the_defaults(void **state)
{
    (void)state;
    expect_reports("[assets]\nfiat = [\"USD\", \"usd\", \"EURO\", 5]\ncrypto = [\"A:B\", \"\"]\n",
                   "2: assets.fiat: \"usd\" is not an upper-case ISO 4217 code\n"
                   "2: assets.fiat: \"EURO\" is not an upper-case ISO 4217 code\n"
                   "2: assets.fiat: must be a string, not an integer\n"
                   "3: assets.crypto: \"A:B\" is not an upper-case ticker\n"
                   "3: assets.crypto: \"\" is not an upper-case ticker\n");
    /* A default that the file's own list makes impossible is no crash, and says what to set. */
    expect_reports("[assets]\nfiat = [\"EUR\"]\n", " prices.reference: \"fiat:USD\" is not an asset\n"
                                                   " prices.proxies.\"fiat:USD\": \"fiat:USD\" is not an asset\n");
}

static void sources_are_checked(void **state)
{
    (void)state;
    expect_reports("[sources.Kraken]\nscale = 8\n[sources.x]\nscale = 19\ndigits = 1\n",
                   "1: sources.Kraken: is not a source's name (1-32 of a-z 0-9 . _ -)\n"
                   "4: sources.x.scale: 19 is not between 0 and 18\n"
                   "5: sources.x.digits: unknown key\n");
    expect_reports("sources = 5\n", "1: sources: must be a table, not an integer\n");
}

/* ---- secrets */

static void secrets_come_from_files_that_others_cannot_read(void **state)
{
    (void)state;
    char text[512], want[512];
    snprintf(text, sizeof text, "[redis]\npassword_file = \"%s\"\n[postgres]\ndsn_file = \"%s\"\n", secret, secret);
    write_file(secret, 0640, "s3cret\n", 7);
    struct qn_config *c = expect_loaded(text);
    assert_string_equal(c->redis.password, "s3cret");
    assert_string_equal(c->postgres.dsn, "s3cret");
    assert_string_equal(c->postgres.direct_dsn, "s3cret");
    qn_config_free(c);

    write_file(secret, 0644, "s3cret\n", 7);
    snprintf(want, sizeof want,
             "2: redis.password_file: %s: others may read or write it (mode 0644); chmod o= it\n"
             "4: postgres.dsn_file: %s: others may read or write it (mode 0644); chmod o= it\n", secret, secret);
    expect_reports(text, want);

    snprintf(text, sizeof text, "[redis]\npassword_file = \"%s\"\n", secret);
    write_file(secret, 0600, "\n", 1);
    snprintf(want, sizeof want, "2: redis.password_file: %s: is empty\n", secret);
    expect_reports(text, want);
    write_file(secret, 0600, "two\nlines\n", 10);
    snprintf(want, sizeof want, "2: redis.password_file: %s: holds a control byte\n", secret);
    expect_reports(text, want);
    unlink(secret);
    snprintf(want, sizeof want, "2: redis.password_file: %s: No such file or directory\n", secret);
    expect_reports(text, want);
    assert_int_equal(mkfifo(secret, 0600), 0); /* nobody writes: a start must not wait for it */
    snprintf(want, sizeof want, "2: redis.password_file: %s: not a regular file\n", secret);
    expect_reports(text, want);
    unlink(secret);
}

static void a_secret_is_given_once(void **state)
{
    (void)state;
    char text[512];
    write_file(secret, 0600, "s3cret", 6);
    snprintf(text, sizeof text, "[redis]\npassword = \"x\"\npassword_file = \"%s\"\n", secret);
    expect_reports(text, "3: redis: password and password_file: only one of them\n");
    unlink(secret);
}

static void the_environment_wins_for_secrets(void **state)
{
    (void)state;
    setenv("QUOIN_REDIS_PASSWORD", "from-env", 1);
    setenv("QUOIN_POSTGRES_DSN", "dbname=env", 1);
    struct qn_config *c = expect_loaded("[redis]\npassword = \"x\"\n[postgres]\ndsn = \"dbname=x\"\n");
    assert_string_equal(c->redis.password, "from-env");
    assert_string_equal(c->postgres.dsn, "dbname=env");
    assert_string_equal(c->postgres.direct_dsn, "dbname=env");
    qn_config_free(c);
    struct qn_config *defaults = qn_config_defaults();
    assert_null(defaults->redis.password); /* tests don't depend on who runs them */
    qn_config_free(defaults);
    unsetenv("QUOIN_REDIS_PASSWORD");
    unsetenv("QUOIN_POSTGRES_DSN");
}

/* ---- files and programs */

static void a_file_that_cannot_be_read_is_named(void **state)
{
    (void)state;
    struct qn_buf reports = {0};
    struct qn_config *config = NULL;
    unlink(file);
    assert_int_equal(qn_config_load(file, collect, &reports, &config), QN_EIO);
    assert_memory_equal(reports.p, file, strlen(file));
    assert_string_equal(reports.p + strlen(file), ": No such file or directory\n");
    qn_buf_clear(&reports);
    assert_int_equal(qn_config_load(folder, collect, &reports, &config), QN_EIO);
    qn_buf_free(&reports);
}

/* Small files that a naive reader turns into deep recursion or gigabytes. */
static void parser_bombs_are_refused(void **state)
{
    (void)state;
    enum { SIZE = 200000 };
    char *text = malloc(2 * SIZE);
    assert_non_null(text);
    size_t n = 0;
    text[n++] = '[';
    for (; n < SIZE; n += 2)
        memcpy(text + n, "a.", 2);
    memcpy(text + n, "a]\n", 4);
    expect_reports(text, "1: nested too deep\n");
    memcpy(text, "\n\nx = ", 6);
    memset(text + 6, '[', SIZE);
    text[SIZE] = '\0';
    expect_reports(text, "3: nested too deep\n");
    for (n = 4; n + 3 < SIZE; n += 3)
        memcpy(text + n, "{a=", 3);
    text[n] = '\0';
    memcpy(text, "x = ", 4);
    expect_reports(text, "1: nested too deep\n");
    free(text);

    text = malloc((1 << 20) + 2);
    assert_non_null(text);
    memset(text, '\n', (1 << 20) + 1);
    text[(1 << 20) + 1] = '\0';
    expect_reports(text, " longer than 1 MiB\n");
    text[1 << 20] = '\0';
    qn_config_free(expect_loaded(text));
    free(text);
}

/* What stands in strings and comments does not nest. */
static void dots_in_strings_do_not_count_as_depth(void **state)
{
    (void)state;
    qn_config_free(expect_loaded("# ........................................ [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\n"
                                 "[postgres]\n"
                                 "dsn = \"a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v.w.x.y.z.0.1.2.3.4.5.6.7\" # '\n"
                                 "direct_dsn = '[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"'\n"));
    struct qn_toml *toml;
    struct qn_toml_error error;
    /* Each kind of string, then too many dots: whoever loses track of where a string ends misses them. */
    static const char *const strings[] = {"\"\"", "\"\\\"\"", "''", "'\\'", "\"\"\"\n\"\"\"\"\"", "'''\n''\n'''''",
                                          "\"\"\"\\\"\"\"\"", "\"\"\"\\\n\"\"\""};
    for (size_t i = 0; i < QN_LEN(strings); i++) {
        char text[256];
        snprintf(text, sizeof text, "x = %s\na.b.c.d.e.f = 1", strings[i]);
        assert_int_equal(qn_toml_parse(qn_str_of(text), &toml, &error), QN_OK);
        qn_toml_free(toml);
        snprintf(text, sizeof text,
                 "x = %s\na.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v.w.x.y.z.0.1.2.3.4.5.6.7.8.9 = 1",
                 strings[i]);
        assert_int_equal(qn_toml_parse(qn_str_of(text), &toml, &error), QN_ERANGE);
    }
}

static int exit_code(const char *text, bool check)
{
    write_file(file, 0600, text, strlen(text));
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        qn_config_start("test", file, check);
        _exit(99);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void programs_exit_78_on_a_bad_file(void **state)
{
    (void)state;
    assert_int_equal(exit_code("[redis]\nprot = 1\n", false), QN_EXIT_CONFIG);
    assert_int_equal(exit_code("[redis]\nprot = 1\n", true), QN_EXIT_CONFIG);
    assert_int_equal(exit_code("", true), QN_EXIT_OK);
    assert_int_equal(exit_code("", false), 99);
    setenv("QUOIN_TEST_CLOCK_OFFSET", "soon", 1);
    assert_int_equal(exit_code("", false), 99); /* not allowed, so not looked at */
    assert_int_equal(exit_code("[test]\nallow_clock_offset = true\n", false), QN_EXIT_CONFIG);
    unsetenv("QUOIN_TEST_CLOCK_OFFSET");
}

static void the_option_comes_before_the_environment(void **state)
{
    (void)state;
    unsetenv("QUOIN_CONFIG");
    assert_non_null(strstr(qn_config_path(NULL), "/quoin/quoin.toml"));
    setenv("QUOIN_CONFIG", "/env.toml", 1);
    assert_string_equal(qn_config_path(NULL), "/env.toml");
    assert_string_equal(qn_config_path("/option.toml"), "/option.toml");
    unsetenv("QUOIN_CONFIG");
}

static int setup(void **state)
{
    (void)state;
    unsetenv("QUOIN_REDIS_PASSWORD");
    unsetenv("QUOIN_POSTGRES_DSN");
    if (!mkdtemp(folder))
        return -1;
    snprintf(file, sizeof file, "%s/quoin.toml", folder);
    snprintf(secret, sizeof secret, "%s/secret", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(file);
    unlink(secret);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_file_is_all_defaults),
        cmocka_unit_test(defaults_are_the_documented_ones),
        cmocka_unit_test(the_example_equals_the_defaults),
        cmocka_unit_test(the_example_has_every_key),
        cmocka_unit_test(values_are_stored_where_they_belong),
        cmocka_unit_test(a_bom_and_crlf_are_as_if_absent),
        cmocka_unit_test(a_source_overrides_the_known_one),
        cmocka_unit_test(every_problem_is_reported_with_its_line),
        cmocka_unit_test(toml_errors_have_a_line),
        cmocka_unit_test(unknown_names_are_shown_escaped),
        cmocka_unit_test(windows_are_minutes_ascending_with_60),
        cmocka_unit_test(hot_lag_leaves_room_for_a_minute_the_grace_and_a_period),
        cmocka_unit_test(a_tcp_listener_needs_allow_peers),
        cmocka_unit_test(only_one_of_a_pair_may_be_given),
        cmocka_unit_test(sockets_are_absolute_short_and_not_for_everybody),
        cmocka_unit_test(a_request_must_end_before_the_master_ends_it),
        cmocka_unit_test(no_value_may_break_a_header_or_be_cut_by_a_nul),
        cmocka_unit_test(asset_tables_are_checked),
        cmocka_unit_test(ticker_lists_are_checked_and_replace_the_defaults),
        cmocka_unit_test(sources_are_checked),
        cmocka_unit_test(secrets_come_from_files_that_others_cannot_read),
        cmocka_unit_test(a_secret_is_given_once),
        cmocka_unit_test(the_environment_wins_for_secrets),
        cmocka_unit_test(a_file_that_cannot_be_read_is_named),
        cmocka_unit_test(parser_bombs_are_refused),
        cmocka_unit_test(dots_in_strings_do_not_count_as_depth),
        cmocka_unit_test(programs_exit_78_on_a_bad_file),
        cmocka_unit_test(the_option_comes_before_the_environment),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
