#!lua
-- SPDX-License-Identifier: BSD-2-Clause
-- Copyright (c) the quoin authors
--
-- hot: the aggregator writes hot values.
-- KEYS     n keys, up to 100 or so a call
-- ARGV     for each key in turn: TTL (seconds), value
-- Writes each key unless it holds a hot value with a strictly newer H: an aggregator that lost its lock must not undo
-- what its successor wrote. The same H is overwritten: a correction. What is no hot value is replaced, whatever its
-- type. A key that is kept and has no TTL gets the TTL.
-- Returns  the number of keys written.
-- Every value must be a hot value (its first line is described in fill.lua), else nothing is written and the reply is
-- the error "ERR hot: bad arguments".
-- A cache write: refused whole with -OOM when memory is full.
local function horizon(value)
    local h, observed, etag = string.match(value, '^1 (%d+) (%d+) %x+ (%x+)\n')
    if h and #etag == 16 and #h <= 15 and #observed <= 15 then
        return tonumber(h)
    end
end

if #ARGV ~= 2 * #KEYS then
    return redis.error_reply('ERR hot: bad arguments')
end
local horizons = {}
for i = 1, #KEYS do
    local ttl = tonumber(ARGV[2 * i - 1])
    horizons[i] = horizon(ARGV[2 * i])
    if not (ttl and ttl > 0 and ttl == math.floor(ttl) and horizons[i]) then
        return redis.error_reply('ERR hot: bad arguments')
    end
end

local written = 0
for i, key in ipairs(KEYS) do
    local now = redis.pcall('GET', key)
    local was = type(now) == 'string' and horizon(now)
    if was and was > horizons[i] then
        if redis.call('TTL', key) == -1 then
            redis.call('EXPIRE', key, ARGV[2 * i - 1])
        end
    else
        redis.call('SET', key, ARGV[2 * i], 'EX', ARGV[2 * i - 1])
        written = written + 1
    end
end
return written
