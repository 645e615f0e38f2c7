/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * quoin: the command line. Finds the subcommand; each is a file of its own.
 */
#include "base/base.h"

#include <stdio.h>

#include "bin/commands.h"

static const struct command {
    const char *name;
    const char *help;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"migrate", "create or update the database schema", qn_command_migrate},
    {"status", "show what the workers of a running quoin-fcgi do", qn_command_status},
};

static void usage(FILE *out)
{
    fputs("usage: quoin COMMAND [OPTION]...\n"
          "       quoin --help | --version\n\ncommands:\n", out);
    for (size_t i = 0; i < QN_LEN(commands); i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
    fputs("\n'quoin COMMAND --help' lists a command's options.\n", out);
}

int main(int argc, char **argv)
{
    qn_open_standard_fds();
    if (argc < 2) {
        usage(stderr);
        return QN_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        usage(stdout);
        return QN_EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        puts("quoin " PACKAGE_VERSION);
        return QN_EXIT_OK;
    }
    for (size_t i = 0; i < QN_LEN(commands); i++) {
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    }
    fprintf(stderr, "quoin: no command '%s'; see quoin --help\n", argv[1]);
    return QN_EXIT_USAGE;
}
