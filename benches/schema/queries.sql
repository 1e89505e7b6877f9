-- Queries that dashboards ask most. DAY is the last day, HOUR its hour from 20:00; both become conditions on timestamp.

-- talkers-hour: top talkers of an hour
SELECT srcAddr, sum(bytes * samplingInterval) AS b FROM flows WHERE HOUR GROUP BY srcAddr ORDER BY b DESC LIMIT 10

-- talkers-day: top talkers of a day
SELECT srcAddr, sum(bytes * samplingInterval) AS b FROM flows WHERE DAY GROUP BY srcAddr ORDER BY b DESC LIMIT 10

-- interface: traffic over time of one interface
SELECT toStartOfFiveMinutes(timestamp) AS t, sum(bytes * samplingInterval) * 8 / 300 FROM flows
WHERE DAY AND exporterAddr = '{exporter}' AND inputSnmp = {interface} GROUP BY t ORDER BY t

-- host: one host in a day
SELECT toStartOfHour(timestamp) AS t, srcAddr = toIPv6('{host}') AS sends, sum(bytes * samplingInterval), count() FROM flows
WHERE DAY AND (srcAddr = toIPv6('{host}') OR dstAddr = toIPv6('{host}')) GROUP BY t, sends ORDER BY t

-- as-pairs: pairs of AS in a day
SELECT srcAs, dstAs, sum(bytes * samplingInterval) AS b FROM flows WHERE DAY GROUP BY srcAs, dstAs ORDER BY b DESC LIMIT 20

-- applications: share of applications over time
SELECT toStartOfFiveMinutes(timestamp) AS t, application, sum(bytes * samplingInterval) FROM flows WHERE DAY GROUP BY t, application ORDER BY t

-- conversation: one conversation in a day, both ways
SELECT timestamp, srcAddr, srcPort, dstAddr, dstPort, protocol, bytes, packets FROM flows
WHERE DAY AND (srcAddr, dstAddr) IN ((toIPv6('{host}'), toIPv6('{peer}')), (toIPv6('{peer}'), toIPv6('{host}'))) ORDER BY timestamp

-- exporters: traffic by exporter in a day
SELECT exporterAddr, sum(bytes * samplingInterval) AS b, sum(packets), count() FROM flows WHERE DAY GROUP BY exporterAddr ORDER BY b DESC

-- ports: top ports of one exporter in a day
SELECT dstPort, protocol, sum(bytes * samplingInterval) AS b FROM flows
WHERE DAY AND exporterAddr = '{exporter}' GROUP BY dstPort, protocol ORDER BY b DESC LIMIT 20

-- total: bits a second every five minutes of a day
SELECT toStartOfFiveMinutes(timestamp) AS t, sum(bytes * samplingInterval) * 8 / 300 FROM flows WHERE DAY GROUP BY t ORDER BY t

-- raw: raw rows of a filter
SELECT * FROM flows WHERE DAY AND dstPort = 3389 AND protocol = 6 ORDER BY timestamp DESC LIMIT 100
