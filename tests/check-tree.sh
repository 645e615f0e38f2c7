#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) the quoin authors
#
# The rules of the tree (docs and headers say why): one line a violation, exit 1 when there is any.
# Reads srcdir (the source tree; never written to) and the libraries in the current folder (the build tree).
# CC, CHECK_FLAGS (to compile a header alone; relative to the current folder) and NM come from the Makefile.
set -u
LC_ALL=C
export LC_ALL
srcdir=${srcdir:-.}
CC=${CC:-cc}
NM=${NM:-nm}
CHECK_FLAGS=${CHECK_FLAGS:--I$srcdir/src -I$srcdir -I.}

# Files of the source tree by name pattern, in the folders that hold sources.
sources() {
    for folder in .ci cachekeys debian deploy docs lua m4 sql src tests web; do
        if [ -d "$srcdir/$folder" ]; then
            (cd "$srcdir" && find "$folder" -type f \( "$@" \)) || echo "check-tree: can't list $folder" >&2
        fi
    done | sort
}

# Runs an awk program over the files that are named on stdin, from the top of the source tree.
over() {
    (cd "$srcdir" && tr '\n' '\0' | xargs -0 -r awk "$@") || echo "check-tree:1: awk failed (see above)"
}

# First words of the keys and channels of the table: price|vwap|…
families=$(awk -F'"' '/^ *\.name = "/ { sub(/:.*/, "", $2); if (!seen[$2]++) printf "%s%s", n++ ? "|" : "", $2 }' \
    "$srcdir/cachekeys/cachekeys.c")

# Takes a line apart: `code` has no comments, `bare` neither comments nor what is between quotes; every string literal
# goes to literal(), what stands between them to between(). Comments and Lua's long ones may span lines.
scanner='
FNR == 1 { in_comment = 0; lua = FILENAME ~ /\.lua$/; start_file() }
function say(rule) { printf "%s:%d: %s\n", FILENAME, FNR, rule }
function scan(rest,    tok, c, lit) {
    code = bare = ""
    while (rest != "") {
        if (in_comment) {
            c = index(rest, lua ? "]]" : "*/")
            if (!c) return
            rest = substr(rest, c + 2); in_comment = 0; code = code " "; bare = bare " "
            continue
        }
        if (!match(rest, lua ? "\"|\047|--" : "\"|\047|/\\*|//")) {
            code = code rest; bare = bare rest; between(rest)
            return
        }
        code = code substr(rest, 1, RSTART - 1); bare = bare substr(rest, 1, RSTART - 1)
        between(substr(rest, 1, RSTART - 1))
        tok = substr(rest, RSTART, RLENGTH); rest = substr(rest, RSTART + RLENGTH)
        if (tok == "/*" || (tok == "--" && rest ~ /^\[\[/)) { in_comment = 1; continue }
        if (tok == "//" || tok == "--") return
        for (lit = ""; rest != ""; ) {
            c = substr(rest, 1, 1)
            if (c == "\\") { lit = lit substr(rest, 1, 2); rest = substr(rest, 3); continue }
            rest = substr(rest, 2)
            if (c == tok) break
            lit = lit c
        }
        code = code tok lit tok; bare = bare tok tok
        if (tok == "\"" || lua) literal(lit)
    }
}
'

# 1. Keys are made in cachekeys/ only; a script gets its keys whole.
rule_keys() {
    case $families in
    price*ohlc*apikey*jobs*) ;;
    *) echo "cachekeys/cachekeys.c:1: check-tree no longer finds the names of the key table" ;;
    esac
    sources -path 'src/*.[ch]' -o -path 'src/*.cc' -o -name '*.lua' | over -v families="$families" "$scanner"'
    function start_file() {}
    function between(text) {}
    function literal(lit) {
        if (lit ~ "^(" families "):([^ \\\\]|$)") say("a key is made outside cachekeys/: \"" lit "\"")
    }
    { scan($0) }
    lua && code ~ /\.\.[ \t]*["\047][^"\047 ]*:|:[^"\047 ]*["\047][ \t]*\.\./ {
        say("a Lua script joins text with a colon, as if to make a key")
    }
    lua && code ~ /redis\.p?call\([ \t]*["\047][A-Za-z]+["\047][ \t]*,[ \t]*ARGV/ && code !~ /["\047]PUBLISH["\047]/ {
        say("a Lua script takes a key from ARGV: declare it in KEYS")
    }
    '
}

# 2. Calls that overrun, hide errors or read a format: none of them anywhere.
rule_calls() {
    sources -name '*.[ch]' -o -name '*.cc' | over "$scanner"'
    function start_file() {}
    function between(text) {}
    function literal(lit) {}
    {
        scan($0)
        banned = "strcpy|strcat|sprintf|vsprintf|strtok|atoi|gets|redisv?(Async)?Command|redisv?AppendCommand"
        while (match(bare, "(^|[^A-Za-z0-9_])(" banned ")[ \t]*\\(")) {
            call = substr(bare, RSTART, RLENGTH); gsub(/[^A-Za-z]/, "", call)
            say("banned call: " call "()")
            bare = substr(bare, RSTART + RLENGTH)
        }
    }'
}

# 3. Includes point down the layers; base/base.h comes first. 4. One file a library.
rule_includes() {
    sources -path 'src/*.[ch]' -o -path 'src/*.cc' -o -path 'cachekeys/*.[ch]' | over "$scanner"'
    BEGIN {
        may["base"] = "base"
        may["cachekeys"] = "base cachekeys"
        may["link"] = may["cachekeys"] " link"
        may["market"] = may["link"] " market"
        may["web"] = may["market"] " web"
        may["gate"] = may["web"] " gate"
        may["prices"] = may["gate"] " prices"
        may["meta"] = may["gate"] " meta"
        may["answers"] = may["gate"] " answers"
        may["fcgi"] = may["gate"] " prices meta answers fcgi"
        may["stream"] = may["gate"] " prices meta answers stream"
        may["ingest"] = may["market"] " ingest"
        may["aggregate"] = may["market"] " aggregate"
        may["bin"] = may["gate"] " prices meta answers fcgi stream ingest aggregate bin"
        # header (without its folder) -> the files that may include it
        only["^fcgi(app|os|_stdio|_config|misc)\\.h$"] = "^src/fcgi/fcgi_conn\\.c$"
        only["^(hiredis|async|sds|alloc)\\.h$"] = "^src/link/redis\\.c$"
        only["^libpq-(fe|fs)\\.h$|^postgres_ext\\.h$"] = "^src/link/pg[a-z_]*\\.c$"
    }
    function start_file(    n, at) {
        n = split(FILENAME, at, "/")
        folder = at[1] == "src" ? at[2] : at[1]
        first = 1
        if (!(folder in may)) say("folder " folder "/ has no place in the layers (tests/check-tree.sh)")
    }
    function between(text) {}
    function literal(lit) {}
    { scan($0) }
    code ~ /^[ \t]*#[ \t]*include/ {
        name = code; sub(/^[ \t]*#[ \t]*include[ \t]*/, "", name); sub(/[ \t]*$/, "", name)
        if (first && FILENAME ~ /\.c$/ && name != "\"base/base.h\"") say("base/base.h must be included first")
        first = 0
        quoted = name ~ /^"/
        gsub(/["<>]/, "", name)
        n = split(name, part, "/")
        for (h in only) {
            if ((part[n] ~ h || (h ~ /hiredis/ && name ~ /^hiredis\//)) && FILENAME !~ only[h]) {
                say(name " may be included in " only[h] " only")
            }
        }
        if (quoted && (folder in may) && !(FILENAME == "src/base/base.h" && name == "config.h")) {
            if (n != 2) say("include \"" name "\": our headers are named with their folder")
            else if (index(" " may[folder] " ", " " part[1] " ") == 0) {
                say(folder "/ must not include " part[1] "/ (" name ")")
            }
        }
    }'
}

# 4. C++ is for the TOML library's wrapper only.
rule_cxx() {
    sources -name '*.cc' -o -name '*.cpp' -o -name '*.cxx' -o -name '*.hh' -o -name '*.hpp' | while read -r file; do
        [ "$file" = src/base/toml.cc ] || echo "$file:1: C++ outside src/base/toml.cc"
    done
}

# 5. Every source file says its licence and holder at the top.
rule_licence() {
    { echo Makefile.am; echo configure.ac
      sources -name '*.[ch]' -o -name '*.cc' -o -name '*.lua' -o -name '*.sql' -o -name '*.sh' -o -name '*.py' \
          -o -name '*.m4'; } |
        over '
    function judge() {
        if (file != "" && !licence) printf "%s:1: no SPDX-License-Identifier: BSD-2-Clause in the first lines\n", file
        if (file != "" && !holder) printf "%s:1: no \"Copyright (c) the quoin authors\" in the first lines\n", file
    }
    FNR == 1 { judge(); file = FILENAME; licence = holder = 0 }
    FNR <= 4 && /SPDX-License-Identifier: BSD-2-Clause/ { licence = 1 }
    FNR <= 4 && /Copyright \(c\) the quoin authors/ { holder = 1 }
    END { judge() }'
    # awk sees no line of an empty file.
    sources -size 0 \( -name '*.[ch]' -o -name '*.cc' -o -name '*.lua' -o -name '*.sql' -o -name '*.sh' \
        -o -name '*.py' -o -name '*.m4' \) | while read -r file; do
        echo "$file:1: an empty source file"
    done
}

# 6. SQL never divides. In sql/: no `/` outside comments and strings, and none between blanks in a string (dynamic SQL).
# In C: no `/` in the literals of files named statements*.c, nor in those of a group of literals that reads as SQL.
rule_division() {
    sources -path 'sql/*.sql' | over '
    function say(what) { printf "%s:%d: SQL divides: %s\n", FILENAME, FNR, what }
    FNR == 1 { in_comment = in_string = 0 }
    {
        rest = $0; sql = ""
        while (rest != "") {
            if (in_comment) {
                c = index(rest, "*/")
                if (!c) break
                rest = substr(rest, c + 2); in_comment = 0
            } else if (in_string) {
                c = index(rest, "\047")
                text = c ? substr(rest, 1, c - 1) : rest
                if (text ~ / \/ /) say(text)
                if (!c) break
                rest = substr(rest, c + 1); in_string = 0
            } else if (match(rest, /\047|--|\/\*/)) {
                tok = substr(rest, RSTART, RLENGTH)
                sql = sql substr(rest, 1, RSTART - 1) " "; rest = substr(rest, RSTART + RLENGTH)
                if (tok == "--") break
                if (tok == "/*") in_comment = 1
                else in_string = 1
            } else {
                sql = sql rest
                break
            }
        }
        if (sql ~ /\//) say("operator /")
        if (tolower(sql) ~ /(^|[^a-z0-9_])(div|avg|stddev|variance)[ \t]*\(/) say("a function that divides")
    }'
    sources -path 'src/*.c' | over "$scanner"'
    function start_file() { flush(); statements = FILENAME ~ /\/statements[^\/]*\.c$/ }
    function between(text) { if (text ~ /[^ \t]/ && text !~ /^[ \t]*"?[ \t]*$/) flush() }
    function literal(lit) { lits[++n] = lit; at[n] = FNR; file[n] = FILENAME; all = all lit }
    function flush(    i, text) {
        if (statements || all ~ /(^|[^A-Za-z_])(SELECT|INSERT INTO|UPDATE|DELETE FROM|COPY|WITH) / ||
            all ~ /^ *(select|insert into|update|delete from|copy|with) /) {
            for (i = 1; i <= n; i++) {
                text = lits[i]
                gsub(/\047[^\047]*\047/, "", text)
                if (text ~ /\// || tolower(text) ~ /(^|[^a-z0-9_])(div|avg|stddev|variance)[ \t]*\(/) {
                    printf "%s:%d: SQL divides: \"%s\"\n", file[i], at[i], lits[i]
                }
            }
        }
        n = 0; all = ""
    }
    /^[ \t]*#/ { next }
    { scan($0) }
    END { flush() }'
}

# 7. No floating point near a price or an amount.
rule_floating() {
    sources -path 'src/base/num.*' -o -path 'src/market/*.[ch]' -o -path 'src/prices/*.[ch]' \
        -o -path 'src/ingest/*.[ch]' -o -path 'src/aggregate/*.[ch]' | over "$scanner"'
    function start_file() {}
    function between(text) {}
    function literal(lit) {}
    { scan($0) }
    BEGIN {
        banned = "double|float|strto(d|f|ld)|atof|mpf_[a-z_]*|mp[zq]_[gs]et_d[a-z0-9_]*|json_object_(get|new)_double"
    }
    match(bare, "(^|[^A-Za-z0-9_])(" banned ")([^A-Za-z0-9_]|$)") {
        word = substr(bare, RSTART, RLENGTH); gsub(/[^A-Za-z0-9_]/, "", word)
        say("floating point near prices: " word)
    }'
}

# 8. Each header compiles alone (twice: its guard holds).
rule_headers() {
    sources -path 'src/*.h' -o -path 'cachekeys/*.h' | while read -r header; do
        name=${header#src/}
        # CC and CHECK_FLAGS are lists of words.
        # shellcheck disable=SC2086
        if ! printf '#include "%s"\n#include "%s"\n' "$name" "$name" |
            $CC $CHECK_FLAGS -fsyntax-only -x c - >check-tree.out 2>&1; then
            echo "$header:1: doesn't compile alone: $(grep -m 1 -E 'error|not found' check-tree.out)"
        fi
    done
    rm -f check-tree.out
}

# 9. What a library shows begins with qn_; C++ names of toml.cc and what sanitizers and gcov add are not ours.
rule_symbols() {
    found=no
    for library in lib*.a; do
        [ -f "$library" ] || continue
        found=yes
        if ! $NM -A -g "$library" >check-tree.out 2>&1; then
            echo "$library:1: $NM can't read it"
            continue
        fi
        awk -v library="$library" '
        { symbol = $NF; kind = $(NF - 1); member = $1; sub(/:[0-9a-f]*$/, "", member) }
        kind == "U" || kind == "w" || kind == "v" || NF < 3 { next }
        symbol ~ /^qn_/ { next }
        symbol ~ /^_*((start|stop)___)?(odr_asan|asan|ubsan|sanitizer|sancov|gcov|llvm|profc|profd)[_.]/ { next }
        member ~ /toml\.o$/ && symbol ~ /^(_Z|DW\.ref\.|__clang_call_terminate)/ { next }
        { printf "%s:1: global symbol without qn_: %s (%s)\n", library, symbol, member }' check-tree.out
    done
    rm -f check-tree.out
    [ $found = yes ] || echo "lib*.a:1: no library in the build folder: run this by make check"
}

violations=$(for rule in keys calls includes cxx licence division floating headers symbols; do
    "rule_$rule" || echo "check-tree:1: rule $rule could not be checked"
done)
if [ -n "$violations" ]; then
    printf '%s\n' "$violations"
    exit 1
fi
