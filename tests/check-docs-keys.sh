#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) the quoin authors
#
# docs/keys.md is what the table of cachekeys.c prints.
set -eu
page=$(mktemp /tmp/quoin-keys.XXXXXX)
trap 'rm -f "$page"' EXIT
./cachekeys/keysdoc >"$page"
if ! diff -u "${srcdir:-.}/docs/keys.md" "$page"; then
    echo "docs/keys.md differs from the table in cachekeys/cachekeys.c: run make docs-keys" >&2
    exit 1
fi
