"""When scheduled work is due: cron expressions, slots of a job, results, active hours, heartbeats. Pure.

Times are epoch milliseconds, as jobs and ledgers hold them; nothing here reads a clock or a file.
"""
