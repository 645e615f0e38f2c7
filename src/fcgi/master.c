/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Everything that happens reaches the master through one poll(2): signals by a signalfd (they are blocked from the
 * start, so none can be missed), READY by an eventfd, control clients, and the clock.
 */
#include "base/base.h"

#include "fcgi/master.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "fcgi/control.h"
#include "fcgi/notify.h"
#include "fcgi/respawn.h"
#include "fcgi/status.h"

enum {
    KILL_AFTER_MS = 2000,    /* from TERM to KILL of a worker that is stuck */
    FAST_STOP_MS = 1000,     /* from TERM to KILL on a fast stop */
    MAX_TICK_MS = 1000,
    MIN_TICK_MS = 20,
    NOT_DUE = 0,
};

/* What a worker was doing when it was told to end: it is only killed if it still does that. */
struct warned {
    int64_t at;              /* 0: not warned */
    int64_t since;
    uint64_t requests;
};

struct child {
    pid_t pid;               /* 0: none */
    uint64_t generation;
    bool ready;
    bool stuck;              /* the master killed it: counted, logged */
    int64_t start_at;        /* when the slot gets a worker again; NOT_DUE: it doesn't */
    int64_t busy_since;      /* no consistent copy of its slot since then; 0: there is one */
    struct warned warned;
};

enum state { RUNNING, DRAINING, STOPPING };
static const char *const state_names[] = {"running", "draining", "stopping"};

struct master {
    const struct qn_pool *pool;
    const char *name;
    const char *notify;
    struct child *children;
    size_t n;
    struct qn_respawn respawn;
    struct qn_control *control;
    int signals;
    int ready;               /* eventfd */
    enum state state;
    int64_t kill_at;         /* DRAINING, STOPPING: KILL for those who are left */
    int exit_code;
    uint64_t generation;
    uint64_t terminated;
    struct qn_counters retired;
    int64_t started;
};

static size_t alive(const struct master *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n; i++)
        n += m->children[i].pid != 0;
    return n;
}

static void signal_all(const struct master *m, int sig)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->children[i].pid)
            kill(m->children[i].pid, sig);
}

/* States only go forward: a fast stop is never slowed down again. */
static void stop(struct master *m, enum state state, int exit_code, int64_t now)
{
    if (state <= m->state)
        return;
    if (m->state == RUNNING) {
        qn_notify_send(m->notify, "STOPPING=1");
        /* From here on a client that connects is refused at once, instead of waiting in a queue that nobody serves. Who
         * waits already is served: the workers see that the file is gone (and of a socket that was handed over, whoever
         * has it next serves them). */
        qn_listen_unlink(m->pool->listener);
        qn_listen_close(m->pool->listener);
        m->exit_code = exit_code;
    }
    m->state = state;
    m->kill_at = now + (state == DRAINING ? m->pool->pool->drain_ms : FAST_STOP_MS);
    for (size_t i = 0; i < m->n; i++)
        m->children[i].start_at = NOT_DUE;
    qn_log_info("stop", QN_F_Z("state", state_names[state]), QN_F_INT("workers", alive(m)));
    signal_all(m, SIGTERM);
}

/* ---- starting ---- */

QN_NORETURN static void run_child(struct master *m, size_t i, pid_t parent)
{
    /* a worker must not outlive its master: nobody would reap, count or stop it */
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent)
        _exit(QN_EXIT_OK);
    close(m->signals);
    qn_control_close(m->control, true);
    m->control = NULL;
    exit(qn_worker_run(m->pool, i, m->generation, m->ready));
}

static void start(struct master *m, size_t i, int64_t now)
{
    struct child *c = &m->children[i];
    pid_t parent = getpid();
    m->generation++;
    pid_t pid = fork();
    if (pid == 0)
        run_child(m, i, parent);
    if (pid < 0) {
        qn_log_warn("fork-failed", QN_F_ERRNO(errno));
        c->start_at = now + QN_RESPAWN_FORK_RETRY_MS;
        return;
    }
    *c = (struct child){.pid = pid, .generation = m->generation, .start_at = NOT_DUE};
}

static void start_due(struct master *m, int64_t now)
{
    for (size_t i = 0; i < m->n; i++)
        if (!m->children[i].pid && m->children[i].start_at != NOT_DUE && m->children[i].start_at <= now)
            start(m, i, now);
}

/* The first worker shows that starting works; the others follow it. */
static void first_ready(struct master *m, int64_t now)
{
    if (m->state != RUNNING)
        return;
    for (size_t i = 0; i < m->n; i++)
        if (!m->children[i].pid)
            m->children[i].start_at = now;
    qn_notify_send(m->notify, "READY=1");
    qn_log_info("ready", QN_F_Z("pool", m->name), QN_F_INT("workers", m->n));
}

static void see_ready(struct master *m, int64_t now)
{
    for (size_t i = 0; i < m->n; i++) {
        struct child *c = &m->children[i];
        struct qn_slot slot;
        if (!c->pid || c->ready || qn_board_get(m->pool->board, i, &slot) != QN_OK)
            continue;
        if (slot.pid != c->pid || slot.stage <= QN_STAGE_STARTING)
            continue;
        c->ready = true;
        if (qn_respawn_ready(&m->respawn))
            first_ready(m, now);
    }
}

/* ---- ending ---- */

static void log_end(const struct child *c, const struct qn_ending *e, const struct qn_slot *last, int64_t now)
{
    if (!e->signalled && e->code == QN_EXIT_OK)
        qn_log_info("worker-ended", QN_F_INT("worker", c->pid), QN_F_INT("requests", last->n.requests));
    else
        qn_log_warn("worker-died", QN_F_INT("worker", c->pid), QN_F_INT(e->signalled ? "signal" : "exit", e->code),
                    QN_F_Z("stage", qn_stage_name((enum qn_stage)last->stage)),
                    QN_F_INT("stage_ms", now - last->since), QN_F_Z("request", last->what));
}

static void judge_end(struct master *m, struct child *c, const struct qn_ending *e, int64_t now)
{
    int64_t start_at = NOT_DUE;
    enum qn_verdict verdict = qn_respawn_ended(&m->respawn, e, now, &start_at);
    if (m->state != RUNNING)
        return;
    switch (verdict) {
    case QN_VERDICT_START:
        c->start_at = start_at;
        break;
    case QN_VERDICT_CONFIG:
        stop(m, DRAINING, QN_EXIT_CONFIG, now);
        break;
    case QN_VERDICT_GIVE_UP:
        qn_log_error("start-limit", QN_F_INT("failures", m->respawn.failures));
        stop(m, DRAINING, QN_EXIT_INTERNAL, now);
        break;
    case QN_VERDICT_DOWN:
        qn_log_error("worker-refused", QN_F_INT("exit", e->code));
        break;
    }
}

static void reap(struct master *m, int64_t now)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        size_t i = 0;
        while (i < m->n && m->children[i].pid != pid)
            i++;
        if (i == m->n)
            continue; /* inherited from whoever was this process before exec */
        struct child *c = &m->children[i];
        struct qn_slot last;
        qn_board_reap(m->pool->board, i, &last);
        qn_counters_add(&m->retired, &last.n);
        struct qn_ending e = {
            .signalled = WIFSIGNALED(status),
            .code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
            .ready = c->ready || last.stage > QN_STAGE_STARTING,
        };
        log_end(c, &e, &last, now);
        m->terminated += c->stuck;
        *c = (struct child){.start_at = NOT_DUE};
        /* one that was READY and died before we looked has shown that starting works */
        if (e.ready && qn_respawn_ready(&m->respawn))
            first_ready(m, now);
        judge_end(m, c, &e, now);
    }
}

/* ---- stuck workers ---- */

static void warn_or_kill(struct child *c, const struct qn_slot *slot, int64_t now)
{
    if (c->warned.at == 0) {
        qn_log_warn("worker-stuck", QN_F_INT("worker", c->pid), QN_F_Z("request", slot->what),
                    QN_F_Z("stage", qn_stage_name((enum qn_stage)slot->stage)),
                    QN_F_INT("stage_ms", now - slot->since));
        c->warned = (struct warned){.at = now, .since = slot->since, .requests = slot->n.requests};
        kill(c->pid, SIGTERM);
        return;
    }
    if (c->stuck || now - c->warned.at < KILL_AFTER_MS)
        return;
    /* it got on after all: it ends by itself */
    if (c->warned.since != slot->since || c->warned.requests != slot->n.requests)
        return;
    c->stuck = true;
    qn_log_warn("worker-killed", QN_F_INT("worker", c->pid), QN_F_Z("request", slot->what));
    kill(c->pid, SIGKILL);
}

/* A slot whose stage has not changed for terminate_ms, or that can't be read for so long (its worker is stopped within
 * a write). Reading a request counts too: a peer may drip. Only idle workers may stay as they are. */
static void judge_stuck(struct master *m, int64_t now)
{
    int64_t limit = m->pool->pool->terminate_ms;
    for (size_t i = 0; i < m->n; i++) {
        struct child *c = &m->children[i];
        struct qn_slot slot = {0};
        if (!c->pid || m->state != RUNNING)
            continue;
        if (qn_board_get(m->pool->board, i, &slot) != QN_OK) {
            if (c->busy_since == 0)
                c->busy_since = now;
            slot.since = c->busy_since;
        } else {
            c->busy_since = 0;
            /* the slot may still be its predecessor's, or empty */
            if (slot.pid != c->pid || slot.generation != c->generation || slot.stage == QN_STAGE_IDLE)
                continue;
        }
        if (now - slot.since > limit)
            warn_or_kill(c, &slot, now);
    }
}

static void escalate(struct master *m, int64_t now)
{
    if (m->state == RUNNING || now < m->kill_at || alive(m) == 0)
        return;
    qn_log_warn("stop-killed", QN_F_INT("workers", alive(m)));
    signal_all(m, SIGKILL);
    m->kill_at = now + FAST_STOP_MS; /* once is enough; again costs nothing */
}

/* ---- what happens ---- */

static void on_signals(struct master *m, int64_t now)
{
    struct signalfd_siginfo info;
    while (read(m->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        switch (info.ssi_signo) {
        case SIGTERM:
            stop(m, DRAINING, QN_EXIT_OK, now);
            break;
        case SIGINT:
            stop(m, m->state == RUNNING ? DRAINING : STOPPING, QN_EXIT_OK, now);
            break;
        case SIGQUIT:
            stop(m, STOPPING, QN_EXIT_OK, now);
            break;
        default: /* SIGCHLD: every turn reaps */
            break;
        }
    }
}

static void on_status(void *arg, bool json, struct qn_buf *out)
{
    struct master *m = arg;
    const struct qn_status status = {
        .pool = m->name,
        .state = state_names[m->state],
        .pid = getpid(),
        .now = qn_clock_mono_ms(),
        .started = m->started,
        .starts = m->generation,
        .terminated = m->terminated,
        .board = m->pool->board,
        .retired = &m->retired,
        .respawn = &m->respawn,
    };
    qn_status_put(&status, json, out);
}

/* How long there is nothing to do but wait, in ms. */
static int next_wake(const struct master *m, int64_t now)
{
    int64_t tick = m->pool->pool->terminate_ms / 10;
    int64_t at = now + (tick < MIN_TICK_MS ? MIN_TICK_MS : tick > MAX_TICK_MS ? MAX_TICK_MS : tick);
    for (size_t i = 0; i < m->n; i++) {
        const struct child *c = &m->children[i];
        if (!c->pid && c->start_at != NOT_DUE && c->start_at < at)
            at = c->start_at;
    }
    if (m->state != RUNNING && m->kill_at < at)
        at = m->kill_at;
    if (m->control && qn_control_deadline(m->control) < at)
        at = qn_control_deadline(m->control);
    return at > now ? (int)(at - now) : 0;
}

static void wait_and_handle(struct master *m)
{
    struct pollfd fds[2 + QN_CONTROL_FDS] = {
        {.fd = m->signals, .events = POLLIN},
        {.fd = m->ready, .events = POLLIN},
    };
    size_t n = m->control ? qn_control_poll(m->control, fds + 2) : 0;
    if (poll(fds, 2 + n, next_wake(m, qn_clock_mono_ms())) < 0)
        for (size_t i = 0; i < 2 + n; i++)
            fds[i].revents = 0;
    int64_t now = qn_clock_mono_ms();
    uint64_t told;
    if (fds[1].revents && read(m->ready, &told, sizeof told) == (ssize_t)sizeof told)
        see_ready(m, now);
    if (m->control)
        qn_control_handle(m->control, fds + 2, n, now);
    if (fds[0].revents)
        on_signals(m, now);
}

/* Nobody is there and nobody will come: all workers said that the configuration is wrong. */
static bool hopeless(const struct master *m)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->children[i].pid || m->children[i].start_at != NOT_DUE)
            return false;
    return true;
}

static void run(struct master *m)
{
    for (;;) {
        int64_t now = qn_clock_mono_ms();
        reap(m, now);
        judge_stuck(m, now);
        escalate(m, now);
        if (m->state != RUNNING && alive(m) == 0)
            return;
        start_due(m, now);
        if (m->state == RUNNING && hopeless(m))
            stop(m, DRAINING, QN_EXIT_CONFIG, now);
        else
            wait_and_handle(m);
    }
}

static int block_signals(void)
{
    static const int wanted[] = {SIGTERM, SIGINT, SIGQUIT, SIGCHLD};
    static const int ignored[] = {SIGPIPE, SIGHUP, SIGUSR1, SIGUSR2};
    struct sigaction sa = {.sa_handler = SIG_IGN};
    sigset_t set;
    sigemptyset(&set);
    sigemptyset(&sa.sa_mask);
    for (size_t i = 0; i < QN_LEN(ignored); i++)
        sigaction(ignored[i], &sa, NULL);
    sa.sa_handler = SIG_DFL; /* an ignored SIGCHLD would be inherited and reap behind our back */
    for (size_t i = 0; i < QN_LEN(wanted); i++) {
        sigaction(wanted[i], &sa, NULL);
        sigaddset(&set, wanted[i]);
    }
    sigprocmask(SIG_BLOCK, &set, NULL);
    qn_worker_block_signals();
    return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

int qn_master_run(const struct qn_pool *pool, const char *name, const char *control, const char *notify)
{
    struct master m = {
        .pool = pool,
        .name = name,
        .notify = notify,
        .n = qn_board_slots(pool->board),
        .started = qn_clock_mono_ms(),
        .signals = -1,
        .ready = -1,
    };
    m.exit_code = QN_EXIT_TEMPFAIL;
    m.children = qn_xcalloc(m.n, sizeof *m.children);
    qn_respawn_init(&m.respawn, pool->pool->start_limit);
    m.signals = block_signals();
    m.ready = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (m.signals < 0 || m.ready < 0) {
        qn_log_error("start-failed", QN_F_ERRNO(errno));
        goto out;
    }
    if (control) {
        enum qn_err err = qn_control_open(control, on_status, &m, &m.control);
        if (err != QN_OK) {
            m.exit_code = err == QN_EINVAL ? QN_EXIT_CONFIG : QN_EXIT_TEMPFAIL;
            goto out;
        }
    }
    m.children[0].start_at = m.started;
    run(&m);
    qn_log_info("stopped", QN_F_INT("exit", m.exit_code));
out:
    qn_listen_unlink(pool->listener);
    qn_listen_close(pool->listener);
    qn_control_close(m.control, false);
    if (m.ready >= 0)
        close(m.ready);
    if (m.signals >= 0)
        close(m.signals);
    free(m.children);
    return m.exit_code;
}
