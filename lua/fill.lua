#!lua
-- SPDX-License-Identifier: BSD-2-Clause
-- Copyright (c) the quoin authors
--
-- fill: a reader that answered a miss from Postgres writes the hot value back, never over one that is as new or newer.
-- KEYS[1]  the key
-- ARGV     value, TTL (seconds), H (ms), observed (ms): the last two as they stand in the value's first line
-- Writes when the key is absent, holds something that is no hot value (it is healed, whatever its type), or holds one
-- whose (H, observed) is strictly older, compared as numbers. A key that is kept and has no TTL gets the TTL.
-- Returns  1 written, 0 kept.
-- A hot value's first line is "1 <H ms> <observed ms> <flags hex> <16 hex digits>". Milliseconds are exact in a Lua
-- number; one of more than 15 digits is no time of ours, so that no value can pin a key for ever.
-- A cache write: refused with -OOM when memory is full.
local ttl, h, observed = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
if #KEYS ~= 1 or #ARGV ~= 4 or not (ttl and ttl > 0 and ttl == math.floor(ttl) and h and observed) then
    return redis.error_reply('ERR fill: bad arguments')
end

local now = redis.pcall('GET', KEYS[1])
if type(now) == 'string' then
    local was_h, was_observed, etag = string.match(now, '^1 (%d+) (%d+) %x+ (%x+)\n')
    if was_h and #etag == 16 and #was_h <= 15 and #was_observed <= 15 then
        was_h, was_observed = tonumber(was_h), tonumber(was_observed)
        if was_h > h or (was_h == h and was_observed >= observed) then
            if redis.call('TTL', KEYS[1]) == -1 then
                redis.call('EXPIRE', KEYS[1], ARGV[2])
            end
            return 0
        end
    end
end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return 1
