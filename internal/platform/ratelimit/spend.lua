-- Returns the number of tokens granted, and the time to full afterwards in microseconds.
-- KEYS[1]: the time at which the bucket is full, in microseconds; no key means full.
-- ARGV: microseconds per token, size of the bucket, tokens wanted now, tokens wanted ahead,
-- and the time to full in microseconds that the caller last knew, in case the key was lost.
local interval = tonumber(ARGV[1])
local burst = tonumber(ARGV[2])
local want = tonumber(ARGV[3])
local block = tonumber(ARGV[4])
local known = tonumber(ARGV[5])

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local window = burst * interval
local full_at = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now + known)
-- After the limit was lowered the bucket is empty at most, not emptier.
local emptied = now + math.ceil(window)
if full_at > emptied then
  full_at = emptied
  redis.call('SET', KEYS[1], string.format('%.0f', full_at), 'PX', math.ceil(window / 1000))
end

local tokens = math.floor((window - (full_at - now)) / interval)
if tokens < 1 then
  return { 0, full_at - now }
end
-- A caller leases at most a tenth of the rest ahead of need: near the limit, none.
local taken = math.min(tokens, want)
taken = taken + math.min(block, math.floor((tokens - taken) / 10))
-- Rounded up, so that the rate is never exceeded.
full_at = math.ceil(full_at + taken * interval)
redis.call('SET', KEYS[1], string.format('%.0f', full_at), 'PX', math.ceil((full_at - now) / 1000))
return { taken, full_at - now }
