#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) the quoin authors
#
# check-tree.sh finds what it is there to find: a small tree with one violation of each rule at a time, and a clean one
# full of what must not be taken for a violation.
set -eu
srcdir=$(cd "${srcdir:-.}" && pwd)
check=$srcdir/tests/check-tree.sh
work=$(mktemp -d /tmp/quoin-tree.XXXXXX)
trap 'rm -rf "$work"' EXIT
CC=${CC:-cc}
NM=${NM:-nm}
failed=0

head_c='/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */'
head_sql='-- SPDX-License-Identifier: BSD-2-Clause
-- Copyright (c) the quoin authors'
first='#include "base/base.h"'

# put FILE: stdin becomes a file of the tree.
put() {
    mkdir -p "$work/tree/${1%/*}"
    rm -f "$work/tree/$1"
    cat >"$work/tree/$1"
}

# c FILE, lua FILE, sql FILE: the same, behind the licence (and the first include of a .c).
c() { { echo "$head_c"; case $1 in *.c) echo "$first" ;; esac; cat; } | put "$1"; }
sql() { { echo "$head_sql"; cat; } | put "$1"; }

# library FLAGS…: builds lib.c of the tree's top into libqnx.a.
library() {
    # CC is a list of words.
    # shellcheck disable=SC2086
    $CC "$@" -w -c -x c "$work/lib.c" -o "$work/build/lib.o"
    rm -f "$work/build/libqnx.a"
    ar rc "$work/build/libqnx.a" "$work/build/lib.o"
}

clean_tree() {
    rm -rf "$work/tree" "$work/build"
    mkdir -p "$work/tree/src/base" "$work/tree/cachekeys" "$work/build"
    cp "$srcdir/src/base/base.h" "$work/tree/src/base/"
    cp "$srcdir/cachekeys/cachekeys.h" "$srcdir/cachekeys/cachekeys.c" "$work/tree/cachekeys/"
    printf '# SPDX-License-Identifier: BSD-2-Clause\n# Copyright (c) the quoin authors\n' >"$work/tree/Makefile.am"
    cp "$work/tree/Makefile.am" "$work/tree/configure.ac"
    : >"$work/build/config.h"
    echo 'int qn_x_count(void) { return missing(); }' >"$work/lib.c"
    library
    c src/market/fine.c <<'END'
/* "price:native", strcpy(a, b), double: in a comment all is well; SELECT 1 / 2 too. */
#include "market/fine.h" // sprintf(x)
#include <stdio.h>
static const char *a = "meta: not there", *b = "usage: x", *c = "http://x/price:1", *d = "a \" sprintf( double \\";
static const char *e = "usage:\n" "fiat:USD", *f = "SELECT is a word" "of many", *g = "a/b";
static const char q = '"'; // "rl:
static int fgets_like(void) { snprintf(0, 0, "%s", a); return my_atoi(b) + 4 / 2; }
static const char *sql = "SELECT sum(a) FROM t WHERE kind <> 'text/plain' ", *path = "/v1/price";
END
    c src/market/fine.h <<'END'
#ifndef FINE_H
#define FINE_H
#include "cachekeys/cachekeys.h"
struct qn_fine { struct qn_key key; };
#endif
END
    c src/link/redis.c <<'END'
#include <hiredis/async.h>
END
    c src/link/pgconn.c <<'END'
#include <libpq-fe.h>
END
    sql lua/fine.lua <<'END'
-- redis.call('GET', 'price:' .. ARGV[1])
--[[ 'rl:x' .. ':'
]]
local n = redis.call('GET', KEYS[1])
redis.call('PUBLISH', ARGV[1], n .. ' ' .. n)
return redis.error_reply('ERR: bad ' .. #KEYS)
END
    sql sql/1.sql <<'END'
/* a / b
   a / b */
SELECT a * b, 'application/json', 'it''s -- a/b' FROM t; -- a / b
END
}

run() {
    (cd "$work/build" && srcdir=../tree CC=$CC NM=$NM \
        CHECK_FLAGS="-DHAVE_CONFIG_H -I../tree/src -I../tree -I. -Wall -Wextra -Werror" "$check" >"$work/out" 2>&1)
}

fail() {
    echo "FAIL: $1"
    sed 's/^/    /' "$work/out"
    failed=1
}

# finds LINE: the tree has exactly this violation.
finds() {
    if run; then
        fail "passed, but should say: $1"
    elif [ "$(cat "$work/out")" != "$1" ]; then
        fail "should say only: $1"
    fi
    clean_tree
}

clean_tree
run || fail "finds something in a clean tree"

# 1
echo 'static const char *k = "rl:%s:%d";' | c src/gate/x.c
finds 'src/gate/x.c:5: a key is made outside cachekeys/: "rl:%s:%d"'
echo 'static const char *k = "lock:" "fill";' | c src/gate/x.c
finds 'src/gate/x.c:5: a key is made outside cachekeys/: "lock:"'
echo "local k = 'apikey-index:x'" | sql lua/x.lua
finds "lua/x.lua:3: a key is made outside cachekeys/: \"apikey-index:x\""
echo "local k = KEYS[1] .. ':day'" | sql lua/x.lua
finds 'lua/x.lua:3: a Lua script joins text with a colon, as if to make a key'
echo "redis.call('DEL', ARGV[1])" | sql lua/x.lua
finds 'lua/x.lua:3: a Lua script takes a key from ARGV: declare it in KEYS'
c cachekeys/cachekeys.c </dev/null
finds 'cachekeys/cachekeys.c:1: check-tree no longer finds the names of the key table'

# 2
calls='strcpy strcat sprintf vsprintf strtok atoi gets redisCommand redisAppendCommand redisvCommand
redisvAppendCommand redisAsyncCommand redisvAsyncCommand'
expected=
line=5
for call in $calls; do
    expected="$expected${expected:+
}tests/unit/x.c:$line: banned call: $call()"
    line=$((line + 1))
done
for call in $calls; do
    echo "void f_$call(void) { ($call (a)); }"
done | c tests/unit/x.c
finds "$expected"

# 3
echo '#include "gate/x.h"' | c src/web/x.c
finds 'src/web/x.c:5: web/ must not include gate/ (gate/x.h)'
echo '#include "web/x.h"' | c src/market/x.c
finds 'src/market/x.c:5: market/ must not include web/ (web/x.h)'
echo '#include "web/x.h"' | c src/aggregate/x.c
finds 'src/aggregate/x.c:5: aggregate/ must not include web/ (web/x.h)'
echo '#include "answers/x.h"' | c src/prices/x.c
finds 'src/prices/x.c:5: prices/ must not include answers/ (answers/x.h)'
echo '#include "link/x.h"' | c cachekeys/x.c
finds 'cachekeys/x.c:5: cachekeys/ must not include link/ (link/x.h)'
echo '#include "x.h"' | c src/web/x.c
finds 'src/web/x.c:5: include "x.h": our headers are named with their folder'
echo 'int qn_x;' | c src/other/x.c
finds 'src/other/x.c:1: folder other/ has no place in the layers (tests/check-tree.sh)'
{ echo "$head_c"; echo '#include <stdio.h>'; } | put src/web/x.c
finds 'src/web/x.c:4: base/base.h must be included first'

# 4
echo '#include <fcgiapp.h>' | c src/fcgi/worker.c
finds 'src/fcgi/worker.c:5: fcgiapp.h may be included in ^src/fcgi/fcgi_conn\.c$ only'
echo '#include <hiredis/hiredis.h>' | c src/link/breaker.c
finds 'src/link/breaker.c:5: hiredis/hiredis.h may be included in ^src/link/redis\.c$ only'
echo '#include <hiredis/adapters/libevent.h>' | c src/link/breaker.c
finds 'src/link/breaker.c:5: hiredis/adapters/libevent.h may be included in ^src/link/redis\.c$ only'
echo '#include <postgresql/libpq-fe.h>' | c src/ingest/x.c
finds 'src/ingest/x.c:5: postgresql/libpq-fe.h may be included in ^src/link/pg[a-z_]*\.c$ only'
echo '' | c src/base/other.cc
finds 'src/base/other.cc:1: C++ outside src/base/toml.cc'

# 5
echo 'SELECT 1;' | put sql/2.sql
finds 'sql/2.sql:1: no SPDX-License-Identifier: BSD-2-Clause in the first lines
sql/2.sql:1: no "Copyright (c) the quoin authors" in the first lines'
printf '#!/bin/sh\n# Copyright (c) the quoin authors\n' | put deploy/x/run.sh
finds 'deploy/x/run.sh:1: no SPDX-License-Identifier: BSD-2-Clause in the first lines'
put tests/e2e/x.py </dev/null
finds 'tests/e2e/x.py:1: an empty source file'
echo '# SPDX-License-Identifier: BSD-2-Clause' | put ./Makefile.am
finds 'Makefile.am:1: no "Copyright (c) the quoin authors" in the first lines'

# 6
echo 'SELECT a/b;' | sql sql/2.sql
finds 'sql/2.sql:3: SQL divides: operator /'
printf '$$\nx := a /* c */ / b;\n$$\n' | sql sql/2.sql
finds 'sql/2.sql:4: SQL divides: operator /'
echo "EXECUTE 'SELECT a / b';" | sql sql/2.sql
finds 'sql/2.sql:3: SQL divides: SELECT a / b'
echo 'SELECT avg (p) FROM t;' | sql sql/2.sql
finds 'sql/2.sql:3: SQL divides: a function that divides'
printf 'static const char *s =\n    "a"\n    "/ b";\n' | c src/market/statements_x.c
finds 'src/market/statements_x.c:7: SQL divides: "/ b"'
printf 'static const char *s = "SELECT a"\n    " / b FROM t";\n' | c src/bin/x.c
finds 'src/bin/x.c:6: SQL divides: " / b FROM t"'

# 7
echo 'static double x;' | c src/market/x.c
finds 'src/market/x.c:5: floating point near prices: double'
echo 'static float x;' | c src/base/num.c
finds 'src/base/num.c:5: floating point near prices: float'
echo 'static int x = (int)strtod(y, 0);' | c src/ingest/x.c
finds 'src/ingest/x.c:5: floating point near prices: strtod'
echo 'static double x;' | c src/base/clock.c
run || fail "double is allowed where there are no prices"
clean_tree

# 8
echo 'struct qn_x { FILE *f; };' | c src/web/x.h
if run || ! grep -q "^src/web/x.h:1: doesn't compile alone: .*FILE" "$work/out"; then
    fail "a header that needs another first"
fi
clean_tree
echo 'enum qn_x { QN_X };' | c src/web/x.h
if run || ! grep -q "^src/web/x.h:1: doesn't compile alone: " "$work/out"; then
    fail "a header without a guard"
fi
clean_tree

# 9
echo 'int other; static int mine(void) { return other; } int qn_x(void) { return mine(); }' >"$work/lib.c"
library
finds 'libqnx.a:1: global symbol without qn_: other (libqnx.a:lib.o)'
rm "$work/build/libqnx.a"
finds 'lib*.a:1: no library in the build folder: run this by make check'

exit $failed
