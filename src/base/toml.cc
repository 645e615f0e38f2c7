/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "base/toml.h"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <exception>
#include <memory>
#include <string_view>
#include <vector>

#include <toml++/toml.h>

namespace {

constexpr size_t max_bytes = 1 << 20;
constexpr unsigned max_depth = 32;
constexpr unsigned max_dots = 32;

enum qn_err refuse(struct qn_toml_error *error, enum qn_err err, unsigned line, std::string_view why)
{
    error->line = line;
    const size_t n = std::min(why.size(), sizeof error->text - 1);
    std::snprintf(error->text, sizeof error->text, "%.*s", static_cast<int>(n), why.data());
    return err;
}

struct position {
    size_t at = 0;
    unsigned line = 1;
};

/* Behind the string that starts at p; where it has no end, somewhere later: the parser says so. */
void skip_string(std::string_view text, position &p)
{
    const char quote = text[p.at];
    const bool escapes = quote == '"';
    const bool multi = text.size() - p.at >= 3 && text[p.at + 1] == quote && text[p.at + 2] == quote;
    for (p.at += multi ? 3 : 1; p.at < text.size(); p.at++) {
        if (text[p.at] == '\n') {
            if (!multi)
                return;
            p.line++;
        } else if (text[p.at] == '\\' && escapes) {
            if (++p.at < text.size() && text[p.at] == '\n')
                p.line++;
        } else if (text[p.at] == quote) {
            if (!multi) {
                p.at++;
                return;
            }
            if (text.substr(p.at, 3) == std::string_view{escapes ? "\"\"\"" : "'''"}) {
                p.at += 3;
                while (p.at < text.size() && text[p.at] == quote)
                    p.at++; /* up to two quotes may stand before the closing ones */
                return;
            }
        }
    }
}

/* toml++ bounds the nesting of values but not the dots of a key, and both it and we recurse over tables. The line that
 * is too deep, or 0. */
unsigned too_deep(std::string_view text)
{
    unsigned depth = 0, dots = 0;
    position p;
    while (p.at < text.size()) {
        const char c = text[p.at];
        if (c == '"' || c == '\'') {
            skip_string(text, p);
            continue;
        }
        if (c == '#') {
            p.at = std::min(text.find('\n', p.at), text.size());
            continue;
        }
        if (c == '\n' || c == '=' || c == ',' || c == '{')
            dots = 0;
        if (c == '\n')
            p.line++;
        else if (c == '[' || c == '{')
            depth++;
        else if ((c == ']' || c == '}') && depth > 0)
            depth--;
        else if (c == '.')
            dots++;
        if (depth > max_depth || dots > max_dots)
            return p.line;
        p.at++;
    }
    return 0;
}

} // namespace

struct qn_toml {
    toml::table table;
    std::deque<qn_toml_node> nodes; /* a deque: they point at each other */
    const qn_toml_node *root = nullptr;
};

namespace {

qn_toml_node *convert(qn_toml &t, const toml::node &value, const toml::key *key)
{
    qn_toml_node &n = t.nodes.emplace_back();
    n.line = static_cast<unsigned>(key ? key->source().begin.line : value.source().begin.line);
    if (key)
        n.key = {key->str().data(), key->str().size()};
    std::vector<qn_toml_node *> children;
    if (const toml::table *table = value.as_table()) {
        n.type = QN_TOML_TABLE;
        for (auto &&[k, v] : *table)
            children.push_back(convert(t, v, &k));
        std::stable_sort(children.begin(), children.end(), [](auto *a, auto *b) { return a->line < b->line; });
    } else if (const toml::array *array = value.as_array()) {
        n.type = QN_TOML_ARRAY;
        for (auto &&v : *array)
            children.push_back(convert(t, v, nullptr));
    } else if (const auto *s = value.as_string()) {
        n.type = QN_TOML_STR;
        n.str = {s->get().data(), s->get().size()};
    } else if (const auto *i = value.as_integer()) {
        n.type = QN_TOML_INT;
        n.num = i->get();
    } else if (const auto *b = value.as_boolean()) {
        n.type = QN_TOML_BOOL;
        n.num = b->get();
    } else {
        n.type = QN_TOML_OTHER;
    }
    for (size_t i = children.size(); i-- > 0;) {
        children[i]->next = n.child;
        n.child = children[i];
    }
    return &n;
}

} // namespace

enum qn_err qn_toml_parse(struct qn_str text, struct qn_toml **out, struct qn_toml_error *error)
{
    try {
        const std::string_view view{text.n ? text.p : "", text.n};
        if (view.size() > max_bytes)
            return refuse(error, QN_ERANGE, 0, "longer than 1 MiB");
        if (const unsigned line = too_deep(view))
            return refuse(error, QN_ERANGE, line, "nested too deep");
        auto t = std::make_unique<qn_toml>();
        t->table = toml::parse(view);
        t->root = convert(*t, t->table, nullptr);
        *out = t.release();
        return QN_OK;
    } catch (const toml::parse_error &e) {
        return refuse(error, QN_EINVAL, static_cast<unsigned>(e.source().begin.line), e.description());
    } catch (const std::exception &e) {
        return refuse(error, QN_EINVAL, 0, e.what());
    } catch (...) {
        return refuse(error, QN_EINVAL, 0, "unknown error");
    }
}

void qn_toml_free(struct qn_toml *toml)
{
    delete toml;
}

const struct qn_toml_node *qn_toml_root(const struct qn_toml *toml)
{
    return toml->root;
}
