/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * The subcommands of quoin(1), one function a file. Each gets its own argv (argv[0] is the subcommand's name), reads
 * its own options with getopt_long(3) (optind is 1 when it starts) and returns the exit status.
 */
#ifndef QN_BIN_COMMANDS_H
#define QN_BIN_COMMANDS_H

#include "base/base.h"

/* quoin-migrate.c: brings the schema up to the version that this build knows, or says where it is (--check). */
int qn_command_migrate(int argc, char **argv);

/* quoin-status.c: what the workers of a running quoin-fcgi do and have done, asked of its master. */
int qn_command_status(int argc, char **argv);

#endif
