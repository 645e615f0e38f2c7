/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"

/* Runs a fuzz target over a folder of inputs, so that what a fuzzer once found stays found with any compiler. The
 * folder is the first argument, else $srcdir/tests/fuzz/corpus/<QN_CORPUS> as `make check` runs it. */

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static bool run(const char *path)
{
    struct qn_buf b = {0};
    FILE *f = fopen(path, "rb");
    if (!f)
        return false;
    size_t n;
    do {
        qn_buf_reserve(&b, 65536);
        n = fread(b.p + b.n, 1, 65536, f);
        b.n += n;
    } while (n > 0);
    bool good = !ferror(f);
    fclose(f);
    /* In memory of exactly its size: a read past the end is seen by a sanitizer. */
    unsigned char *exact = qn_xmalloc(b.n);
    memcpy(exact, b.p, b.n);
    if (good)
        LLVMFuzzerTestOneInput(exact, b.n);
    free(exact);
    qn_buf_free(&b);
    return good;
}

int main(int argc, char **argv)
{
    struct qn_buf folder = {0}, path = {0};
    const char *srcdir = getenv("srcdir");
    if (argc > 1)
        qn_buf_puts(&folder, argv[1]);
    else
        qn_buf_printf(&folder, "%s/tests/fuzz/corpus/%s", srcdir ? srcdir : ".", QN_CORPUS);
    DIR *d = opendir(folder.p);
    size_t count = 0;
    bool good = d != NULL;
    for (struct dirent *e; good && (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        qn_buf_clear(&path);
        qn_buf_printf(&path, "%s/%s", folder.p, e->d_name);
        good = run(path.p);
        count++;
    }
    if (d)
        closedir(d);
    if (!good || count == 0)
        fprintf(stderr, "%s: can't be read, or is empty\n", count ? path.p : folder.p);
    else
        printf("%zu inputs from %s\n", count, folder.p);
    bool passed = good && count > 0;
    qn_buf_free(&folder);
    qn_buf_free(&path);
    return passed ? QN_EXIT_OK : QN_EXIT_FAIL;
}
