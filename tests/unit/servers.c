/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <grp.h>
#include <libpq-fe.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "servers.h"

enum { READY_MS = 20000, STOP_MS = 5000, MAX_ARGS = 64 };

struct server {
    struct server *next;
    bool postgres;
    bool started;          /* once */
    pid_t pid;             /* 0: not running */
    pid_t owner;           /* who started it: a forked child's exit must not stop it */
    uid_t uid;
    gid_t gid;
    char dir[32];
    char address[96];
    char program[256];
    const char *argv[MAX_ARGS];
    char text[4][128];     /* of argv */
};

static struct server *all;

static void die(const struct server *s, const char *what)
{
    (void)fprintf(stderr, "servers: %s: %s (%s)\n", s->postgres ? "postgres" : "redis", what, strerror(errno));
    exit(1);
}

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

/* Waits for the process to end. False: it didn't within ms. */
static bool reap(struct server *s, int ms)
{
    int64_t until = qn_clock_mono_ms() + ms;
    while (waitpid(s->pid, NULL, WNOHANG) == 0) {
        if (qn_clock_mono_ms() >= until)
            return false;
        (void)poll(NULL, 0, 2);
    }
    s->pid = 0;
    return true;
}

static void stop_all(void)
{
    for (struct server *s = all; s; s = s->next) {
        if (s->owner != getpid())
            return;
        if (s->pid) {
            servers_signal(s, SIGCONT);
            (void)kill(s->pid, s->postgres ? SIGQUIT : SIGKILL);
            if (!reap(s, STOP_MS)) {
                servers_signal(s, SIGKILL);
                (void)reap(s, STOP_MS);
            }
        }
        (void)nftw(s->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    }
}

static void on_signal(int sig)
{
    (void)sig;
    exit(1); /* not async-signal-safe, but the alternative is servers left running */
}

static struct server *server_new(bool postgres)
{
    if (!all) {
        (void)atexit(stop_all);
        (void)signal(SIGINT, on_signal);
        (void)signal(SIGTERM, on_signal);
        (void)signal(SIGHUP, on_signal);
        (void)signal(SIGALRM, on_signal);
        (void)signal(SIGABRT, on_signal);
    }
    struct server *s = qn_xcalloc(1, sizeof(*s));
    s->postgres = postgres;
    s->owner = getpid();
    s->uid = getuid();
    s->gid = getgid();
    (void)snprintf(s->dir, sizeof(s->dir), "/tmp/qn-test-XXXXXX");
    if (!mkdtemp(s->dir))
        die(s, "mkdtemp");
    s->next = all;
    all = s;
    return s;
}

/* Runs argv in its folder with output to its log. Returns the pid. */
static pid_t spawn(const struct server *s, const char *program, const char *const *argv)
{
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid < 0)
        die(s, "fork");
    if (pid > 0)
        return pid;
    char log[64];
    (void)snprintf(log, sizeof(log), "%s/log", s->dir);
    int null = open("/dev/null", O_RDONLY);
    if (getuid() == 0 && s->uid != 0 && (setgroups(0, NULL) != 0 || setgid(s->gid) != 0 || setuid(s->uid) != 0))
        _exit(126);
    int out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    /* its own process group, so that a terminal's ^C is ours to handle; and never outlives us */
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, s->postgres ? SIGQUIT : SIGKILL);
    if (getppid() != parent || null < 0 || out < 0 || chdir(s->dir) != 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 ||
        dup2(out, 2) < 0)
        _exit(126);
    (void)signal(SIGPIPE, SIG_DFL);
    execv(program, (char *const *)argv);
    _exit(127);
}

static bool redis_answers(const struct server *s)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    (void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", s->address);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char c;
    /* any answer will do: a server with a password says -NOAUTH */
    bool ok = fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0 && write(fd, "PING\r\n", 6) == 6 &&
              poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 1000) == 1 && read(fd, &c, 1) == 1;
    if (fd >= 0)
        (void)close(fd);
    return ok;
}

void servers_start(struct server *s)
{
    bool again = s->started;
    s->started = true;
    s->pid = spawn(s, s->program, s->argv);
    int64_t until = qn_clock_mono_ms() + READY_MS;
    while (s->postgres ? PQping(s->address) != PQPING_OK : !redis_answers(s)) {
        errno = 0;
        if (waitpid(s->pid, NULL, WNOHANG) != 0) {
            s->pid = 0;
            if (!s->postgres || !again)
                die(s, "ended at start");
            /* killed backends may hold the old shared memory for a moment yet */
            s->pid = spawn(s, s->program, s->argv);
        }
        if (qn_clock_mono_ms() >= until)
            die(s, "does not answer");
        (void)poll(NULL, 0, 5);
    }
}

static void add_args(struct server *s, const char *const *args)
{
    size_t n = 0;
    while (s->argv[n])
        n++;
    for (; args && *args; args++) {
        if (n + 1 >= MAX_ARGS)
            die(s, "too many arguments");
        s->argv[n++] = *args;
    }
}

struct server *servers_redis(const char *const *args)
{
    struct server *s = server_new(false);
    (void)snprintf(s->address, sizeof(s->address), "%s/s", s->dir);
    (void)snprintf(s->program, sizeof(s->program), "/usr/bin/redis-server");
    add_args(s, (const char *[]){"redis-server", "--port", "0", "--unixsocket", s->address, "--save", "",
                                 "--appendonly", "no", "--dir", s->dir, "--daemonize", "no", NULL});
    add_args(s, args);
    servers_start(s);
    return s;
}

/* The folder of Postgres' server programs: the newest that Debian has installed. */
static void postgres_program(const struct server *s, const char *name, char *out, size_t size)
{
    glob_t found;
    char pattern[64];
    (void)snprintf(pattern, sizeof(pattern), "/usr/lib/postgresql/*/bin/%s", name);
    if (glob(pattern, 0, NULL, &found) != 0)
        die(s, "no server is installed");
    (void)snprintf(out, size, "%s", found.gl_pathv[found.gl_pathc - 1]);
    globfree(&found);
}

struct server *servers_postgres(const char *const *args)
{
    struct server *s = server_new(true);
    if (getuid() == 0) { /* Postgres refuses to run as root */
        const struct passwd *pw = getpwnam("postgres");
        if (!pw || chown(s->dir, pw->pw_uid, pw->pw_gid) != 0)
            die(s, "no user postgres");
        s->uid = pw->pw_uid;
        s->gid = pw->pw_gid;
    }
    char initdb[256];
    postgres_program(s, "initdb", initdb, sizeof(initdb));
    postgres_program(s, "postgres", s->program, sizeof(s->program));
    (void)snprintf(s->text[0], sizeof(s->text[0]), "%s/data", s->dir);
    s->pid = spawn(s, initdb, (const char *[]){initdb, "--no-sync", "-U", "postgres", "-A", "trust", "-E", "UTF8",
                                               "--locale=C", "-D", s->text[0], NULL});
    int status = -1;
    if (waitpid(s->pid, &status, 0) != s->pid || status != 0)
        die(s, "initdb failed");
    (void)snprintf(s->address, sizeof(s->address), "host=%s user=postgres dbname=postgres", s->dir);
    add_args(s, (const char *[]){s->program, "-D", s->text[0], "-k", s->dir, "-c", "listen_addresses=", "-c",
                                 "fsync=off", "-c", "shared_buffers=16MB", "-c", "autovacuum=off", "-c",
                                 "max_wal_size=64MB", NULL});
    add_args(s, args);
    servers_start(s);
    return s;
}

const char *servers_address(const struct server *s)
{
    return s->address;
}

const char *servers_dir(const struct server *s)
{
    return s->dir;
}

pid_t servers_pid(const struct server *s)
{
    return s->pid;
}

void servers_signal(const struct server *s, int sig)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)s->pid, (int)s->pid);
    FILE *children = fopen(path, "re");
    (void)kill(s->pid, sig);
    if (!children)
        return;
    char text[32];
    for (size_t n = 0; n < sizeof(text) - 1;) {
        int c = fgetc(children);
        if (c >= '0' && c <= '9') {
            text[n++] = (char)c;
            continue;
        }
        text[n] = '\0';
        if (n > 0)
            (void)kill((pid_t)strtol(text, NULL, 10), sig);
        n = 0;
        if (c == EOF)
            break;
    }
    (void)fclose(children);
}

void servers_kill(struct server *s)
{
    servers_signal(s, SIGKILL);
    if (!reap(s, STOP_MS))
        die(s, "can't be killed");
}
