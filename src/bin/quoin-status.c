/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * quoin status: asks a master's control socket and prints the answer.
 */
#include "base/base.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/config.h"
#include "bin/commands.h"

enum { DEADLINE_MS = 2000, CHUNK = 16 * 1024, MAX_ANSWER = 16 * 1024 * 1024 };

static const char help[] =
    "usage: quoin status [OPTION]...\n"
    "Prints what the workers of a running quoin-fcgi do and have done.\n\n"
    "  -c, --config FILE  the configuration (default: $QUOIN_CONFIG or " QN_SYSCONFDIR "/quoin/quoin.toml)\n"
    "  -s, --socket PATH  the master's control socket, instead of the configured one\n"
    "      --json         as JSON\n"
    "  -h, --help         this text\n"
    "  -V, --version      the version\n\n"
    "exit status: 0 done, 64 usage, 75 no master answers, 78 the configuration is wrong\n";

static int failed(const char *path, const char *why)
{
    fprintf(stderr, "quoin status: %s: %s\n", path, why);
    return QN_EXIT_TEMPFAIL;
}

/* Waits for the socket. False: the deadline passed. */
static bool wait_for(int fd, short events, int64_t deadline)
{
    struct pollfd pfd = {.fd = fd, .events = events};
    for (;;) {
        int64_t left = deadline - qn_clock_mono_ms();
        if (left <= 0)
            return false;
        int n = poll(&pfd, 1, (int)left);
        if (n > 0 || (n < 0 && errno != EINTR))
            return n > 0;
    }
}

/* Reads to the end. NULL, or why not. */
static const char *receive(int fd, int64_t deadline, struct qn_buf *out)
{
    for (;;) {
        if (!wait_for(fd, POLLIN, deadline))
            return "no answer in time";
        qn_buf_reserve(out, CHUNK);
        ssize_t n = recv(fd, out->p + out->n, CHUNK, MSG_DONTWAIT);
        if (n == 0)
            return out->n ? NULL : "closed without an answer";
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n < 0)
            return strerror(errno);
        out->n += (size_t)n;
        if (out->n > MAX_ANSWER)
            return "the answer is too long";
    }
}

static int ask(const char *path, bool json)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    struct qn_buf answer = {0};
    const char *request = json ? "status json\n" : "status\n";
    int64_t deadline = qn_clock_mono_ms() + DEADLINE_MS;
    const char *why = NULL;
    size_t n = strlen(path);
    if (n >= sizeof sa.sun_path)
        return failed(path, "a socket's path has at most 107 bytes");
    memcpy(sa.sun_path, path, n);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* a line of a few bytes always fits into a new connection's buffer */
    if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof sa) != 0 ||
        send(fd, request, strlen(request), MSG_NOSIGNAL) != (ssize_t)strlen(request))
        why = strerror(errno);
    if (!why)
        why = receive(fd, deadline, &answer);
    if (!why && qn_str_starts(qn_buf_view(&answer), QN_STR("error: ")))
        why = "the master does not know this command";
    if (fd >= 0)
        close(fd);
    if (!why && (fwrite(answer.p, 1, answer.n, stdout) != answer.n || fflush(stdout) != 0))
        why = strerror(errno);
    qn_buf_free(&answer);
    return why ? failed(path, why) : QN_EXIT_OK;
}

int qn_command_status(int argc, char **argv)
{
    enum { OPT_JSON = 256 };
    static const struct option longs[] = {
        {"config", required_argument, NULL, 'c'}, {"socket", required_argument, NULL, 's'},
        {"json", no_argument, NULL, OPT_JSON},    {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},      {0},
    };
    const char *option = NULL;
    const char *path = NULL;
    bool json = false;
    int c;
    while ((c = getopt_long(argc, argv, "c:s:hV", longs, NULL)) != -1) {
        switch (c) {
        case 'c':
            option = optarg;
            break;
        case 's':
            path = optarg;
            break;
        case OPT_JSON:
            json = true;
            break;
        case 'h':
            fputs(help, stdout);
            return QN_EXIT_OK;
        case 'V':
            puts("quoin " PACKAGE_VERSION);
            return QN_EXIT_OK;
        default:
            return QN_EXIT_USAGE;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "quoin status: unexpected argument '%s'\n", argv[optind]);
        return QN_EXIT_USAGE;
    }
    if (path)
        return ask(path, json);
    struct qn_config *config = qn_config_start("quoin", option, false);
    int code;
    if (config->prices_pool.control_socket) {
        code = ask(config->prices_pool.control_socket, json);
    } else {
        fputs("quoin status: no control socket is configured\n", stderr);
        code = QN_EXIT_CONFIG;
    }
    qn_config_free(config);
    return code;
}
