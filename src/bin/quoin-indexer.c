/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * quoin-indexer: trades into Postgres.
 */
#include "base/base.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>

#include "ingest/indexer.h"

static void usage(FILE *out)
{
    fputs("usage: quoin-indexer --source ndjson [OPTION]... FILE|-\n"
          "Stores trades, one JSON object a line; running it again changes nothing.\n\n"
          "  -s, --source KIND  what the input is: ndjson\n"
          "  -f, --follow       the input is a source that goes on (a file is read on as it grows): what is closed waits\n"
          "                     for its newest trade or {\"watermark\": TIME} line. When it falls silent, pairs that only\n"
          "                     followed sources trade stand still. To load a file, don't use it\n"
          "  -c, --config FILE  the configuration (default: $QUOIN_CONFIG or " QN_SYSCONFDIR "/quoin/quoin.toml)\n"
          "      --check        check the configuration and exit\n"
          "  -q, --quiet        no progress bar, no summary\n"
          "      --json         the summary as one JSON object\n"
          "  -h, --help         this text\n"
          "  -V, --version      the version\n\n"
          "exit status: 0 all lines good, 65 some bad or refused, 66 no such input, 70 the database refuses,\n"
          "75 the database is gone or a signal came: run it again, 78 the configuration is wrong\n", out);
}

int main(int argc, char **argv)
{
    qn_open_standard_fds();
    enum { OPT_JSON = 256, OPT_CHECK };
    static const struct option options[] = {
        {"source", required_argument, NULL, 's'},
        {"follow", no_argument, NULL, 'f'},
        {"config", required_argument, NULL, 'c'},
        {"check", no_argument, NULL, OPT_CHECK},
        {"quiet", no_argument, NULL, 'q'},
        {"json", no_argument, NULL, OPT_JSON},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    struct qn_indexer_options o = {0};
    const char *config_path = NULL, *source = NULL;
    bool check = false;
    int opt;
    while ((opt = getopt_long(argc, argv, "s:fc:qhV", options, NULL)) != -1) {
        switch (opt) {
        case 's':
            source = optarg;
            break;
        case 'f':
            o.follow = true;
            break;
        case 'c':
            config_path = optarg;
            break;
        case OPT_CHECK:
            check = true;
            break;
        case 'q':
            o.quiet = true;
            break;
        case OPT_JSON:
            o.json = true;
            break;
        case 'h':
            usage(stdout);
            return QN_EXIT_OK;
        case 'V':
            puts("quoin-indexer " PACKAGE_VERSION);
            return QN_EXIT_OK;
        default:
            usage(stderr);
            return QN_EXIT_USAGE;
        }
    }
    const char *wrong = !source                        ? "--source is missing"
                        : strcmp(source, "ndjson") != 0 ? "no such kind of source: there is ndjson"
                        : optind + 1 != argc            ? "one FILE is read, or - for standard input"
                                                        : NULL;
    if (!check && wrong) {
        fprintf(stderr, "quoin-indexer: %s\n", wrong);
        usage(stderr);
        return QN_EXIT_USAGE;
    }
    struct qn_config *config = qn_config_start("quoin-indexer", config_path, check);
    signal(SIGPIPE, SIG_IGN);
    o.path = argv[optind];
    int status = qn_indexer_run(config, &o);
    qn_config_free(config);
    return status;
}
