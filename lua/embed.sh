#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) the quoin authors
#
# Writes the C table of link/scripts.h to stdout: embed.sh FILE.lua...
# The same files give the same bytes. A script is named for its file; its SHA-1 is what Redis computes for EVALSHA.
set -eu
LC_ALL=C
export LC_ALL

cat <<'END'
/* Made by lua/embed.sh from lua/: don't edit. */
#include "base/base.h"

#include "link/scripts.h"

END
rows=
for file in "$@"; do
    name=$(basename "$file" .lua)
    # The lines below end in \n: a last line without one would be embedded with another SHA-1 than its file's.
    if [ "$(tail -c 1 "$file" | od -An -tx1 | tr -d ' ')" != 0a ]; then
        echo "embed.sh: $file does not end with a newline" >&2
        exit 1
    fi
    if [ "$(tr -d '\n -~' < "$file" | wc -c)" -ne 0 ]; then
        echo "embed.sh: $file holds bytes that are not printable ASCII" >&2
        exit 1
    fi
    sha=$(sha1sum < "$file" | cut -d ' ' -f 1)
    printf 'static const char %s_source[] =\n' "$name"
    sed -e 's/[\\"]/\\&/g' -e 's/^/    "/' -e 's/$/\\n"/' "$file"
    printf '    ;\n\n'
    rows="$rows    {\"$name\", ${name}_source, sizeof(${name}_source) - 1, \"$sha\"},
"
done
printf 'const struct qn_script qn_scripts_data[] = {\n%s};\n' "$rows"
printf 'const size_t qn_scripts_data_n = sizeof(qn_scripts_data) / sizeof(qn_scripts_data[0]);\n'
