-- Rows of flows as a network of 200 exporters sends them, made of the row number by hash functions: the same rows each
-- time. A batch is {rows} rows from row {first} on, sent between {begin} and {end} (seconds since 1970).
--
-- Properties:
-- * 24 flows a datagram; they share exporter, timestamp and receivedAt, and stand one after another.
-- * 200 exporters, rank r sends in proportion to 1/r, with 4 to 48 interfaces each, the first ones more than the last.
--   NetFlow v9 50 %, IPFIX 35 %, v5 10 %, sFlow 5 %. The export time of v9 and IPFIX is in seconds.
-- * Half of the exporters announce names of interfaces, 60 % a next hop, 20 % VLANs.
-- * One side of a flow is one of 50,000 hosts in 10.0.0.0/8, the other one of 20,000 hosts in each of 3,000 AS; hosts and AS are
--   chosen in proportion to 1/rank. 15 % of the AS are spoken to over IPv6. Country and prefix length follow the AS.
-- * A conversation of two hosts keeps one of eight ephemeral ports for an hour. Half of the flows go each way.
-- * Service ports: 443 46 %, 53 14 %, 80 10 %, then 12 others, 10 % any port. Application and protocol follow the port.
-- * Packets are log-normal (median 4, mean about 15), bytes of a packet too, 46 to 1500.
-- * Flows last up to a minute and end up to 15 s before their export.
-- * Sampling of an exporter: none 30 %, 1000 40 %, else 512, 2048, 4096 or 8192.
-- * What needs DNS, GeoIP of cities, SNMP, NAT, MPLS, VRF or a firewall is at its default.
WITH
    number AS n,
    intDiv(n, 24) AS datagram,
    greatest(0, toInt64(datagram * 24) - toInt64({first:UInt64})) / {rows:UInt64} AS part,
    -- Who sends.
    toUInt64(pow(201, cityHash64(datagram, 'exporter') / 18446744073709551616.)) - 1 AS exporter,
    cityHash64(exporter, 'traits') AS traits,
    multiIf(traits % 100 < 50, 'NetflowV9', traits % 100 < 85, 'IPFIX', traits % 100 < 95, 'NetflowV5', 'SFLOW') AS version,
    4 + intDiv(traits, 1000) % 45 AS interfaces,
    1 + toUInt32(pow(interfaces, cityHash64(n, 'interface') / 18446744073709551616.)) AS near,
    1 + (near + cityHash64(n, 'exit') % 3 * 5) % interfaces AS far,
    toInt64(1000 * ({begin:Float64} + part * ({end:Float64} - {begin:Float64}))) AS arrival,
    if(version IN ('NetflowV9', 'IPFIX'), intDiv(arrival, 1000) * 1000, arrival) AS sent,
    -- Who speaks.
    cityHash64(n, 'flow') AS hash,
    toUInt64(pow(50000, cityHash64(n, 'local') / 18446744073709551616.)) AS local,
    toUInt64(pow(3000, cityHash64(n, 'as') / 18446744073709551616.)) AS network,
    toUInt64(pow(20000, cityHash64(n, 'remote') / 18446744073709551616.)) AS remote,
    cityHash64(network, 'network') AS place,
    place % 100 < 15 AS is_v6,
    hash % 2 = 0 AS outbound,
    IPv4ToIPv6(toIPv4(toUInt32(167772160 + cityHash64(local, 'host') % 16777216))) AS local4,
    IPv4ToIPv6(toIPv4(toUInt32(bitOr(bitAnd(place, 0xFFFF0000), cityHash64(remote, network) % 65536)))) AS remote4,
    CAST(toFixedString(concat(unhex('20010db8'), reinterpretAsFixedString(toUInt32(local % 64)), reinterpretAsFixedString(cityHash64(local, 'host'))), 16), 'IPv6') AS local6,
    CAST(toFixedString(concat(unhex('2a'), substring(reinterpretAsFixedString(place), 1, 7), reinterpretAsFixedString(cityHash64(remote, network))), 16), 'IPv6') AS remote6,
    if(is_v6, local6, local4) AS local_address,
    if(is_v6, remote6, remote4) AS remote_address,
    toUInt32(1000 + place % 64000) AS remote_as,
    ['US', 'DE', 'NL', 'GB', 'FR', 'IE', 'JP', 'SG', 'IN', 'BR', 'CN', 'AU', 'CA', 'PL', 'SE', 'IT', 'ES', 'CH', 'AT', 'FI', 'RU', 'KR', 'HK', 'ZA', 'MX', 'TR', 'CZ', 'RO', 'NO', 'DK']
        [1 + toUInt64(pow(30, intDiv(place, 7) % 10000 / 10000.))] AS country,
    -- What they say.
    intDiv(hash, 2) % 100 AS dice,
    multiIf(dice < 46, 443, dice < 60, 53, dice < 70, 80, dice < 73, 123, dice < 76, 22, dice < 78, 25, dice < 80, 993, dice < 82, 8080,
        dice < 83, 3389, dice < 84, 5060, dice < 85, 1194, dice < 86, 4500, dice < 87, 445, dice < 88, 5228, dice < 90, 3478,
        1024 + cityHash64(n, 'port') % 64000) AS service,
    32768 + cityHash64(local, remote, network, hash % 8, intDiv(sent, 3600000)) % 28232 AS ephemeral,
    intDiv(hash, 200) % 100 AS kind,
    multiIf(service IN (53, 123, 1194, 4500, 3478, 5060), 17, service = 443 AND kind < 30, 17, dice >= 90 AND kind < 20, if(is_v6, 58, 1),
        dice >= 90 AND kind < 50, 17, 6) AS number_of_protocol,
    number_of_protocol IN (1, 58) AS is_icmp,
    sqrt(-2 * log((1 + cityHash64(n, 'normal') % 1000000) / 1000001.)) AS radius,
    6.283185307 * (cityHash64(n, 'angle') % 1000000 / 1000000.) AS angle,
    toUInt64(1 + exp(1.1 + 1.6 * radius * cos(angle))) AS packet_count,
    toUInt64(greatest(46, least(1500, exp(5.4 + 1.1 * radius * sin(angle))))) AS packet_bytes,
    sent - cityHash64(n, 'idle') % 15000 AS last,
    last - if(packet_count = 1, 0, toInt64(60000 * pow(cityHash64(n, 'duration') / 18446744073709551616., 3))) AS first,
    intDiv(traits, 100000) % 10 AS sampled
SELECT
    fromUnixTimestamp64Milli(sent, 'UTC') AS timestamp,
    version AS flowProtocol,
    'default' AS tenant, 'default' AS organisation, 'default' AS zone, 'collector-1' AS system,
    concat('10.255.', toString(intDiv(exporter, 50)), '.', toString(1 + exporter % 50)) AS exporterAddr,
    if(version = 'SFLOW', exporter % 4, if(version = 'NetflowV5', 0, 256 * (exporter % 3))) AS observationDomainId,
    fromUnixTimestamp64Milli(arrival + toInt64(cityHash64(datagram) % 40), 'UTC') AS receivedAt,
    fromUnixTimestamp64Milli(first, 'UTC') AS firstSwitched,
    firstSwitched AS deltaSwitched,
    fromUnixTimestamp64Milli(last, 'UTC') AS lastSwitched,
    if(outbound, near, far) + 500 * (exporter % 2) AS inputSnmp,
    if(outbound, far, near) + 500 * (exporter % 2) AS outputSnmp,
    if(exporter % 2 = 0, concat('GigabitEthernet0/0/', toString(inputSnmp)), '') AS inputSnmpIfName,
    if(exporter % 2 = 0, concat('GigabitEthernet0/0/', toString(outputSnmp)), '') AS outputSnmpIfName,
    if(outbound, local_address, remote_address) AS srcAddr,
    if(outbound, remote_address, local_address) AS dstAddr,
    if(outbound, 64512, remote_as) AS srcAs,
    if(outbound, remote_as, 64512) AS dstAs,
    if(is_v6, 48, 24) AS local_length,
    if(is_v6, 29 + place % 20, 12 + place % 13) AS remote_length,
    if(outbound, local_length, remote_length) AS srcMaskLen,
    if(outbound, remote_length, local_length) AS dstMaskLen,
    if(is_icmp, 0, if(outbound, ephemeral, service)) AS srcPort,
    if(is_icmp, 0, if(outbound, service, ephemeral)) AS dstPort,
    if(intDiv(traits, 10000) % 10 < 6, IPv4ToIPv6(toIPv4(toUInt32(3221225985 + exporter * 64 + outputSnmp))), toIPv6('::')) AS nextHop,
    packet_count * packet_bytes AS bytes,
    packet_count AS packets,
    if(intDiv(traits, 7) % 10 < 7, 'INGRESS', '') AS direction,
    if(intDiv(traits, 11) % 5 = 0, 100 + near, 0) AS vlan,
    if(is_v6, 6, 4) AS ipProtocolVersion,
    number_of_protocol AS protocol,
    if(number_of_protocol = 6, [24, 27, 27, 16, 2, 18, 31, 17, 20, 26][1 + cityHash64(n, 'flags') % 10], 0) AS tcpFlags,
    if(kind < 88, 0, [184, 72, 104, 136, 32, 40][1 + kind % 6]) AS tos,
    if(sampled < 3, '', 'RandomNOutOfNSampling') AS samplingAlgorithm,
    multiIf(sampled < 3, 1, sampled < 7, 1000, sampled < 8, 512, sampled < 9, 2048, 4096 * (1 + exporter % 2)) AS samplingInterval,
    multiIf(sampled < 3, 'assumed', version = 'NetflowV5', 'header', version = 'SFLOW', 'record', 'options') AS samplingProvenance,
    multiIf(is_icmp, 'icmp', dice < 46, if(kind < 30, 'quic', 'https'), dice < 60, 'domain', dice < 70, 'http', dice < 90, concat('service-', toString(service)), '') AS application,
    if(outbound, '', country) AS srcCountry,
    if(outbound, country, '') AS dstCountry,
    if(is_icmp, 8, 0) AS icmpType,
    if(version = 'IPFIX', 1 + kind % 4, 0) AS flowEndReason,
    if(version = 'NetflowV9' AND exporter % 3 = 0, 64, 0) AS forwardingStatus
FROM numbers({first:UInt64}, {rows:UInt64})
