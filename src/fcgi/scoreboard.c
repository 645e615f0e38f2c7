/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "fcgi/scoreboard.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

/* A slot's contents travel as words: each is whole by itself, the sequence number says whether they belong together. */
enum {
    WORDS = sizeof(struct qn_slot) / sizeof(uint64_t),
    CACHE_LINE = 64,
    TRIES = 3,
};
_Static_assert(sizeof(struct qn_slot) % sizeof(uint64_t) == 0, "slots are whole words");

struct cell {
    _Alignas(CACHE_LINE) _Atomic uint64_t seq;
    _Atomic uint64_t words[WORDS];
};

struct qn_board {
    size_t n;
    size_t mapped;
    struct cell cells[];
};

static const char *const stage_names[QN_STAGES] = {
    [QN_STAGE_NONE] = "none",       [QN_STAGE_STARTING] = "starting", [QN_STAGE_IDLE] = "idle",
    [QN_STAGE_READING] = "reading", [QN_STAGE_AUTH] = "auth",         [QN_STAGE_LIMIT] = "limit",
    [QN_STAGE_CACHE] = "cache",     [QN_STAGE_STORE] = "store",       [QN_STAGE_WRITING] = "writing",
    [QN_STAGE_FINISHING] = "finishing", [QN_STAGE_EXITING] = "exiting",
};

const char *qn_stage_name(enum qn_stage stage)
{
    return stage < QN_STAGES ? stage_names[stage] : "unknown";
}

void qn_counters_add(struct qn_counters *to, const struct qn_counters *n)
{
#define ADD(name) to->name += n->name;
    QN_COUNTERS(ADD)
#undef ADD
}

/* Appends one byte of client text. False: no room. */
static bool what_put(struct qn_slot *slot, size_t *at, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    bool plain = c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
    size_t need = plain ? 1 : 4;
    if (*at + need >= sizeof slot->what)
        return false;
    if (plain) {
        slot->what[(*at)++] = (char)c;
        return true;
    }
    slot->what[(*at)++] = '\\';
    slot->what[(*at)++] = 'x';
    slot->what[(*at)++] = hex[c >> 4];
    slot->what[(*at)++] = hex[c & 15];
    return true;
}

void qn_slot_what(struct qn_slot *slot, const char *method, struct qn_str path)
{
    size_t at = 0;
    memset(slot->what, 0, sizeof slot->what);
    for (const char *p = method; *p; p++)
        if (!what_put(slot, &at, (unsigned char)*p))
            return;
    if (!what_put(slot, &at, ' '))
        return;
    for (size_t i = 0; i < path.n && path.p[i] != '?'; i++)
        if (!what_put(slot, &at, (unsigned char)path.p[i]))
            return;
}

struct qn_board *qn_board_new(size_t n)
{
    size_t size = sizeof(struct qn_board) + n * sizeof(struct cell);
    struct qn_board *board = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        return NULL;
    board->n = n;
    board->mapped = size;
    return board;
}

void qn_board_free(struct qn_board *board)
{
    if (board)
        munmap(board, board->mapped);
}

size_t qn_board_slots(const struct qn_board *board)
{
    return board->n;
}

static void store(struct cell *cell, const struct qn_slot *contents)
{
    uint64_t words[WORDS];
    memcpy(words, contents, sizeof words);
    for (size_t i = 0; i < WORDS; i++)
        atomic_store_explicit(&cell->words[i], words[i], memory_order_relaxed);
}

static void load(const struct cell *cell, struct qn_slot *out)
{
    uint64_t words[WORDS];
    for (size_t i = 0; i < WORDS; i++)
        words[i] = atomic_load_explicit(&cell->words[i], memory_order_relaxed);
    memcpy(out, words, sizeof words);
}

void qn_board_put(struct qn_board *board, size_t slot, const struct qn_slot *contents)
{
    struct cell *cell = &board->cells[slot];
    /* |1: a dead writer's odd number is taken over as it is */
    uint64_t odd = atomic_load_explicit(&cell->seq, memory_order_relaxed) | 1;
    atomic_store_explicit(&cell->seq, odd, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    store(cell, contents);
    atomic_store_explicit(&cell->seq, odd + 1, memory_order_release);
}

enum qn_err qn_board_get(const struct qn_board *board, size_t slot, struct qn_slot *out)
{
    const struct cell *cell = &board->cells[slot];
    for (int i = 0; i < TRIES; i++) {
        if (i > 0)
            sched_yield(); /* a write takes far less than a turn on the processor */
        uint64_t before = atomic_load_explicit(&cell->seq, memory_order_acquire);
        if (before & 1)
            continue;
        struct qn_slot copy;
        load(cell, &copy);
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(&cell->seq, memory_order_relaxed) != before)
            continue;
        *out = copy;
        return QN_OK;
    }
    return QN_ECONFLICT;
}

void qn_board_reap(struct qn_board *board, size_t slot, struct qn_slot *last)
{
    load(&board->cells[slot], last);
    last->what[QN_WHAT_MAX - 1] = '\0';
    qn_board_put(board, slot, &(struct qn_slot){0});
}
