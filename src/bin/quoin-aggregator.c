/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * quoin-aggregator: options in, exit status out.
 */
#include "base/base.h"

#include <getopt.h>
#include <stdio.h>

#include "aggregate/aggregator.h"

enum { TIMEOUT_S = 600, TIMEOUT_MAX_S = 7 * 86400 };

static void usage(FILE *out)
{
    fputs("usage: quoin-aggregator [OPTION]...\n"
          "Makes candles of new trades, decides what is closed, and keeps prices hot in Redis.\n\n"
          "  -c, --config FILE  the configuration (default: $QUOIN_CONFIG or " QN_SYSCONFDIR "/quoin/quoin.toml)\n"
          "      --check        read the configuration, say whether it is right, and end\n"
          "      --once         end when everything that is dirty now is done, by this process or the one that runs\n"
          "      --timeout S    with --once: give up after so many seconds (default: 600)\n"
          "  -h, --help         this text\n"
          "  -V, --version      the version\n\n"
          "exit status: 0 done, or told to end; 64 wrong options; 70 not done within the timeout; 75 the database\n"
          "can't be reached (or --once was told to end): run it again; 78 the configuration or the Redis server\n"
          "won't do\n", out);
}

int main(int argc, char **argv)
{
    qn_open_standard_fds();
    enum { OPT_CHECK = 256, OPT_ONCE, OPT_TIMEOUT };
    static const struct option known[] = {
        {"config", required_argument, NULL, 'c'},
        {"check", no_argument, NULL, OPT_CHECK},
        {"once", no_argument, NULL, OPT_ONCE},
        {"timeout", required_argument, NULL, OPT_TIMEOUT},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    struct qn_aggregator_options options = {.once = false, .timeout_s = TIMEOUT_S};
    const char *path = NULL;
    bool check = false;
    uint64_t seconds;
    int opt;
    while ((opt = getopt_long(argc, argv, "c:hV", known, NULL)) != -1) {
        switch (opt) {
        case 'c':
            path = optarg;
            break;
        case OPT_CHECK:
            check = true;
            break;
        case OPT_ONCE:
            options.once = true;
            break;
        case OPT_TIMEOUT:
            if (qn_str_u64(qn_str_of(optarg), TIMEOUT_MAX_S, &seconds) != QN_OK || seconds == 0) {
                fprintf(stderr, "quoin-aggregator: --timeout takes 1 to %d seconds\n", (int)TIMEOUT_MAX_S);
                return QN_EXIT_USAGE;
            }
            options.timeout_s = (int)seconds;
            break;
        case 'h':
            usage(stdout);
            return QN_EXIT_OK;
        case 'V':
            puts("quoin " PACKAGE_VERSION);
            return QN_EXIT_OK;
        default:
            usage(stderr);
            return QN_EXIT_USAGE;
        }
    }
    if (optind != argc) {
        usage(stderr);
        return QN_EXIT_USAGE;
    }
    struct qn_config *config = qn_config_start("quoin-aggregator", path, check);
    int status = qn_aggregator_run(config, &options);
    qn_config_free(config);
    return status;
}
