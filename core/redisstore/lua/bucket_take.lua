-- bucket_take: a token bucket or leaky bucket as a charge of take.lua.

algorithms.bucket = bucket
