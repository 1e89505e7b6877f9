//! The table of columns of `flows`.
//!
//! Wire values are never stored as an enum type: an undefined value would be accepted by the insert
//! and then break every SELECT. The default of every column, 0 or the empty string, means unknown.

use Kind::{
    Address, Float64, Int64, Text, TextMap, Time, UInt8, UInt16, UInt32, UInt32List, UInt64,
};
use Read::{
    ApplicationId, Direction, HighByte, Label, LowByte, MicrosBefore, Millis, Ntp, Rate, Sampler,
    SamplerMode, Seconds, SelectorAlgorithm, Unsigned, Uptime,
};

/// The ClickHouse type of a column and how a chunk stores it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// `UInt8`.
    UInt8,
    /// `UInt16`.
    UInt16,
    /// `UInt32`.
    UInt32,
    /// `UInt64`.
    UInt64,
    /// `Int64`.
    Int64,
    /// `Float64`.
    Float64,
    /// `IPv6`; IPv4 addresses are mapped (`::ffff:a.b.c.d`).
    Address,
    /// `DateTime64(3, 'UTC')`: milliseconds since 1970.
    Time,
    /// `LowCardinality(String)`; a chunk stores an index into its own dictionary.
    Text,
    /// `Array(UInt32)`; a chunk stores how many elements a row has, and the elements of all rows.
    UInt32List,
    /// `Map(LowCardinality(String), String)`; a chunk stores how many entries a row has, their keys as indices
    /// into its own dictionary, and their values.
    TextMap,
}

impl Kind {
    /// The type as ClickHouse writes it.
    #[must_use]
    pub const fn sql(self) -> &'static str {
        match self {
            UInt8 => "UInt8",
            UInt16 => "UInt16",
            UInt32 => "UInt32",
            UInt64 => "UInt64",
            Int64 => "Int64",
            Float64 => "Float64",
            Address => "IPv6",
            Time => "DateTime64(3, 'UTC')",
            Text => "LowCardinality(String)",
            UInt32List => "Array(UInt32)",
            TextMap => "Map(LowCardinality(String), String)",
        }
    }

    /// Whether rows can be added up by it.
    #[must_use]
    pub const fn is_plain(self) -> bool {
        !matches!(self, UInt32List | TextMap | Float64)
    }

    /// Bytes of one row in a chunk, without what rows of different length have elsewhere.
    #[must_use]
    pub const fn width_bytes(self) -> usize {
        match self {
            UInt8 => 1,
            UInt16 | Text | UInt32List | TextMap => 2,
            UInt32 => 4,
            UInt64 | Int64 | Float64 | Time => 8,
            Address => 16,
        }
    }
}

/// How the bytes of an information element become the value of a column.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Read {
    /// Big-endian, 1 to 8 bytes (reduced-size encoding, RFC 7011 section 6.2), saturated to the column.
    Unsigned,
    /// An IPv4 (4 bytes) or IPv6 (16 bytes) address. All zero means "not known" and yields to the
    /// next source.
    Address,
    /// Milliseconds of the exporter's uptime (elements 21 and 22). There are exporters that send 8 bytes,
    /// and milliseconds since 1970 in them.
    Uptime,
    /// Seconds since 1970.
    Seconds,
    /// Milliseconds since 1970.
    Millis,
    /// NTP timestamp: seconds since 1900 and a binary fraction of a second (RFC 7011 sections 6.1.9 and
    /// 6.1.10).
    Ntp,
    /// Microseconds before the export time.
    MicrosBefore,
    /// flowDirection: 0 ingress, 1 egress.
    Direction,
    /// A sampling rate, one packet in N; 0 means that the exporter does not know.
    Rate,
    /// A sampler whose rate the exporter announces in options records; 0 is none.
    Sampler,
    /// How packets are chosen, a number of IANA's registry of selector algorithms (RFC 5477 section 8.2.1).
    SelectorAlgorithm,
    /// How packets are chosen: 1 deterministic, 2 random.
    SamplerMode,
    /// UTF-8 text, trailing zero bytes cut.
    Text,
    /// The upper byte of the 16-bit ICMP type and code.
    HighByte,
    /// The lower byte of the 16-bit ICMP type and code.
    LowByte,
    /// Big-endian; of more than 8 bytes the first, the classification engine, and the last seven, which
    /// hold the vendor's number, as those are below 2^24, and its id (RFC 6759 section 4.2).
    ApplicationId,
    /// A label, experimental bits and bottom of stack: one entry of an MPLS label stack (RFC 3032 section
    /// 2.1).
    Label,
}

/// An information element that fills a column.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// Private enterprise number; 0 for IANA's elements.
    pub enterprise: u32,
    /// IANA element number; the same number in NetFlow v9. Above 32767: Cisco's own numbers in NetFlow v9.
    pub id: u16,
    /// IANA element name.
    pub name: &'static str,
    /// How its bytes are read.
    pub read: Read,
}

/// One column of `flows`.
#[derive(Clone, Copy, Debug)]
pub struct ColumnSpec {
    /// The name in ClickHouse and in JSON.
    pub name: &'static str,
    /// Type and storage.
    pub kind: Kind,
    /// Elements that fill it, the preferred one first.
    pub sources: &'static [Source],
    /// What it means, with the unit.
    pub doc: &'static str,
}

const fn from(id: u16, name: &'static str, read: Read) -> Source {
    Source { enterprise: 0, id, name, read }
}

/// An element of the reverse direction of a biflow, RFC 5103 section 6.1.
const fn reverse(id: u16, name: &'static str, read: Read) -> Source {
    Source { enterprise: REVERSE_ENTERPRISE, id, name, read }
}

/// Private enterprise number of IANA's elements in the reverse direction, RFC 5103 section 6.1.
const REVERSE_ENTERPRISE: u32 = 29_305;

macro_rules! columns {
    ($($variant:ident $name:literal $kind:ident [$($source:expr),* $(,)?] $doc:literal;)*) => {
        /// A column of `flows`, in the order of the table.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[repr(usize)]
        pub enum Column { $(#[doc = $doc] $variant,)* }

        impl Column {
            /// Every column, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
        }

        /// The table, indexed by [`Column`].
        pub const COLUMNS: &[ColumnSpec] = &[$(ColumnSpec {
            name: $name, kind: Kind::$kind, sources: &[$($source),*], doc: $doc,
        },)*];
    };
}

columns! {
    Timestamp "timestamp" Time [] "When the exporter sent the datagram; the receive time when the exporter's clock is off by more than the skew threshold, and for sFlow, which does not say.";
    FlowProtocol "flowProtocol" Text [] "`NetflowV1`, `NetflowV5`, `NetflowV7`, `NetflowV9`, `IPFIX` or `SFLOW`.";
    Tenant "tenant" Text [] "Tenant, from `[[exporters]]`, else `[identity]`.";
    Organisation "organisation" Text [] "Organisation, from `[[exporters]]`, else `[identity]`.";
    Zone "zone" Text [] "Zone, from `[[exporters]]`, else `[identity]`.";
    System "system" Text [] "The collector, from `[identity]`; the host name by default.";
    ExporterAddr "exporterAddr" Text [] "Address that the datagram came from, as text; of sFlow the agent address.";
    ExporterName "exporterName" Text [] "Name of the exporter, from `[[exporters]]`.";
    ObservationDomainId "observationDomainId" UInt32 [] "IPFIX observation domain, NetFlow v9 source id or sFlow sub-agent id.";
    ReceivedAt "receivedAt" Time [] "When tidegate received the datagram.";
    FirstSwitched "firstSwitched" Time [
        from(152, "flowStartMilliseconds", Millis), from(22, "flowStartSysUpTime", Uptime),
        from(154, "flowStartMicroseconds", Ntp), from(156, "flowStartNanoseconds", Ntp),
        from(150, "flowStartSeconds", Seconds), from(158, "flowStartDeltaMicroseconds", MicrosBefore),
        from(323, "observationTimeMilliseconds", Millis), from(324, "observationTimeMicroseconds", Ntp),
        from(325, "observationTimeNanoseconds", Ntp), from(322, "observationTimeSeconds", Seconds),
    ] "When the first packet of the flow was seen.";
    DeltaSwitched "deltaSwitched" Time [] "Start of the interval that the counters cover; equal to firstSwitched.";
    LastSwitched "lastSwitched" Time [
        from(153, "flowEndMilliseconds", Millis), from(21, "flowEndSysUpTime", Uptime),
        from(155, "flowEndMicroseconds", Ntp), from(157, "flowEndNanoseconds", Ntp),
        from(151, "flowEndSeconds", Seconds), from(159, "flowEndDeltaMicroseconds", MicrosBefore),
        from(323, "observationTimeMilliseconds", Millis), from(324, "observationTimeMicroseconds", Ntp),
        from(325, "observationTimeNanoseconds", Ntp), from(322, "observationTimeSeconds", Seconds),
    ] "When the last packet of the flow was seen.";
    InputSnmp "inputSnmp" UInt32 [from(10, "ingressInterface", Unsigned), from(252, "ingressPhysicalInterface", Unsigned)] "ifIndex of the input interface.";
    InputSnmpIfName "inputSnmpIfName" Text [] "Name of the input interface: from `[[exporters]]`, else as the exporter says it, in the record (82 behind the interface) or in options records, else by SNMP.";
    InputSnmpIfAlias "inputSnmpIfAlias" Text [] "Description of the input interface: from `[[exporters]]`, else as the exporter says it, in the record (83 behind the interface) or in options records, else by SNMP.";
    InputSnmpIfSpeed "inputSnmpIfSpeed" UInt32 [] "Speed of the input interface, Mbit/s: from `[[exporters]]`, else by SNMP.";
    OutputSnmp "outputSnmp" UInt32 [from(14, "egressInterface", Unsigned), from(253, "egressPhysicalInterface", Unsigned)] "ifIndex of the output interface.";
    OutputSnmpIfName "outputSnmpIfName" Text [] "Name of the output interface: from `[[exporters]]`, else as the exporter says it, in the record (82 behind the interface) or in options records, else by SNMP.";
    OutputSnmpIfAlias "outputSnmpIfAlias" Text [] "Description of the output interface: from `[[exporters]]`, else as the exporter says it, in the record (83 behind the interface) or in options records, else by SNMP.";
    OutputSnmpIfSpeed "outputSnmpIfSpeed" UInt32 [] "Speed of the output interface, Mbit/s: from `[[exporters]]`, else by SNMP.";
    SrcAs "srcAs" UInt32 [from(16, "bgpSourceAsNumber", Unsigned)] "AS number of the source: of the exporter unless 0 or private, else of the file of prefixes, else of the databases (`enrichment.as-order`).";
    SrcAsOrg "srcAsOrg" Text [] "Name of the source's AS, or of its network in the file of prefixes.";
    SrcAddr "srcAddr" Address [from(8, "sourceIPv4Address", Read::Address), from(27, "sourceIPv6Address", Read::Address)] "Source address.";
    SrcMaskLen "srcMaskLen" UInt8 [from(9, "sourceIPv4PrefixLength", Unsigned), from(29, "sourceIPv6PrefixLength", Unsigned)] "Prefix length of the source's route, bits.";
    SrcAddrHostname "srcAddrHostname" Text [] "Reverse DNS of the source.";
    SrcPort "srcPort" UInt16 [from(7, "sourceTransportPort", Unsigned), from(180, "udpSourcePort", Unsigned), from(182, "tcpSourcePort", Unsigned)] "Source port.";
    DstAs "dstAs" UInt32 [from(17, "bgpDestinationAsNumber", Unsigned)] "AS number of the destination, found as that of the source.";
    DstAsOrg "dstAsOrg" Text [] "Name of the destination's AS, or of its network in the file of prefixes.";
    DstAddr "dstAddr" Address [from(12, "destinationIPv4Address", Read::Address), from(28, "destinationIPv6Address", Read::Address)] "Destination address.";
    DstMaskLen "dstMaskLen" UInt8 [from(13, "destinationIPv4PrefixLength", Unsigned), from(30, "destinationIPv6PrefixLength", Unsigned)] "Prefix length of the destination's route, bits.";
    DstAddrHostname "dstAddrHostname" Text [] "Reverse DNS of the destination.";
    DstPort "dstPort" UInt16 [from(11, "destinationTransportPort", Unsigned), from(181, "udpDestinationPort", Unsigned), from(183, "tcpDestinationPort", Unsigned)] "Destination port.";
    NextHop "nextHop" Address [from(15, "ipNextHopIPv4Address", Read::Address), from(62, "ipNextHopIPv6Address", Read::Address)] "Next hop of the route taken.";
    NextHopHostname "nextHopHostname" Text [] "Reverse DNS of the next hop.";
    Bytes "bytes" UInt64 [
        from(1, "octetDeltaCount", Unsigned), from(23, "postOctetDeltaCount", Unsigned),
        from(352, "layer2OctetDeltaCount", Unsigned), from(85, "octetTotalCount", Unsigned),
        from(171, "postOctetTotalCount", Unsigned), from(231, "initiatorOctets", Unsigned), from(312, "dataLinkFrameSize", Unsigned),
    ] "Bytes of the flow as the exporter counted them, not scaled by the sampling rate.";
    Packets "packets" UInt64 [
        from(2, "packetDeltaCount", Unsigned), from(24, "postPacketDeltaCount", Unsigned),
        from(86, "packetTotalCount", Unsigned), from(172, "postPacketTotalCount", Unsigned),
        from(298, "initiatorPackets", Unsigned),
    ] "Packets of the flow as the exporter counted them, not scaled by the sampling rate.";
    FlowDirection "direction" Text [from(61, "flowDirection", Direction)] "`INGRESS` or `EGRESS`, as seen from the exporter; when it does not say, into or out of the own network by the `boundary` of the interfaces.";
    EngineId "engineId" UInt32 [from(39, "engineId", Unsigned)] "Engine or line card.";
    EngineType "engineType" UInt16 [from(38, "engineType", Unsigned)] "Type of the engine.";
    Vlan "vlan" UInt16 [from(58, "vlanId", Unsigned), from(243, "dot1qVlanId", Unsigned)] "VLAN id on the way in.";
    IpProtocolVersion "ipProtocolVersion" UInt8 [from(60, "ipVersion", Unsigned)] "4 or 6; from the addresses when the exporter does not say.";
    Protocol "protocol" UInt8 [from(4, "protocolIdentifier", Unsigned)] "IP protocol number.";
    TcpFlags "tcpFlags" UInt16 [from(6, "tcpControlBits", Unsigned)] "All TCP flags seen, ORed (RFC 9293 section 3.1).";
    Tos "tos" UInt8 [from(5, "ipClassOfService", Unsigned)] "Type of service or traffic class: DSCP in the upper six bits.";
    SamplingAlgorithm "samplingAlgorithm" Text [from(304, "selectorAlgorithm", SelectorAlgorithm), from(35, "samplingAlgorithm", SamplerMode), from(49, "samplerMode", SamplerMode)] "How packets were chosen: `SystematicCountBasedSampling`, `RandomNOutOfNSampling` and others of RFC 5477 section 8.2.1; empty when the exporter does not say.";
    SamplingInterval "samplingInterval" Float64 [from(34, "samplingInterval", Rate), from(50, "samplerRandomInterval", Rate), from(48, "samplerId", Sampler), from(302, "selectorId", Sampler)] "One packet in this many was looked at; `bytes * samplingInterval` estimates the traffic.";
    SamplingProvenance "samplingProvenance" Text [] "Where samplingInterval came from: `record`, `options`, `header`, `fallback` (of `[[exporters]]` or the receiver) or `assumed`.";
    Application "application" Text [] "Application: as the exporter names it, else by the own rules, else IANA's name of the service port.";
    SrcLocality "srcLocality" Text [] "`PUBLIC` or `PRIVATE` source; private is what the Internet does not route (RFC 6890): RFC 1918, CGNAT, ULA, link-local, loopback, multicast of less than global scope.";
    DstLocality "dstLocality" Text [] "`PUBLIC` or `PRIVATE` destination.";
    FlowLocality "flowLocality" Text [] "`PUBLIC` when either side is.";
    ClockCorrection "clockCorrection" Int64 [] "Milliseconds added to the exporter's times because its clock was off; 0 when it was not.";
    SrcCountry "srcCountry" Text [] "Country of the source, two letters of ISO 3166-1: of the file of prefixes, else of the databases.";
    SrcCity "srcCity" Text [] "City of the source, of the databases.";
    DstCountry "dstCountry" Text [] "Country of the destination, two letters of ISO 3166-1: of the file of prefixes, else of the databases.";
    DstCity "dstCity" Text [] "City of the destination, of the databases.";
    SrcSite "srcSite" Text [] "Site of the source, from the file of prefixes.";
    SrcRole "srcRole" Text [] "What the source's network is for, from the file of prefixes.";
    DstSite "dstSite" Text [] "Site of the destination, from the file of prefixes.";
    DstRole "dstRole" Text [] "What the destination's network is for, from the file of prefixes.";
    SrcMac "srcMac" UInt64 [from(56, "sourceMacAddress", Unsigned), from(81, "postSourceMacAddress", Unsigned)] "Source MAC; `MACNumToString(srcMac)` shows it.";
    DstMac "dstMac" UInt64 [from(80, "destinationMacAddress", Unsigned), from(57, "postDestinationMacAddress", Unsigned)] "Destination MAC; `MACNumToString(dstMac)` shows it.";
    PostVlan "postVlan" UInt16 [from(59, "postVlanId", Unsigned), from(254, "postDot1qVlanId", Unsigned)] "VLAN id on the way out.";
    IcmpType "icmpType" UInt8 [
        from(176, "icmpTypeIPv4", Unsigned), from(178, "icmpTypeIPv6", Unsigned),
        from(32, "icmpTypeCodeIPv4", HighByte), from(139, "icmpTypeCodeIPv6", HighByte),
    ] "ICMP type.";
    IcmpCode "icmpCode" UInt8 [
        from(177, "icmpCodeIPv4", Unsigned), from(179, "icmpCodeIPv6", Unsigned),
        from(32, "icmpTypeCodeIPv4", LowByte), from(139, "icmpTypeCodeIPv6", LowByte),
    ] "ICMP code.";
    FlowEndReason "flowEndReason" UInt8 [from(136, "flowEndReason", Unsigned)] "Why the flow ended (RFC 5102 section 5.11.3).";
    ForwardingStatus "forwardingStatus" UInt8 [from(89, "forwardingStatus", LowByte)] "Forwarded, dropped or consumed, and why (RFC 7270 section 4.12).";
    IpTtl "ipTtl" UInt8 [from(192, "ipTTL", Unsigned), from(52, "minimumTTL", Unsigned)] "TTL or hop limit.";
    Ipv6FlowLabel "ipv6FlowLabel" UInt32 [from(31, "flowLabelIPv6", Unsigned)] "IPv6 flow label.";
    MplsLabels "mplsLabels" UInt32List [
        from(70, "mplsTopLabelStackSection", Label), from(71, "mplsLabelStackSection2", Label),
        from(72, "mplsLabelStackSection3", Label), from(73, "mplsLabelStackSection4", Label),
        from(74, "mplsLabelStackSection5", Label), from(75, "mplsLabelStackSection6", Label),
        from(76, "mplsLabelStackSection7", Label), from(77, "mplsLabelStackSection8", Label),
        from(78, "mplsLabelStackSection9", Label), from(79, "mplsLabelStackSection10", Label),
    ] "MPLS labels, top first.";
    IngressVrf "ingressVrf" UInt32 [from(234, "ingressVRFID", Unsigned)] "VRF id on the way in.";
    EgressVrf "egressVrf" UInt32 [from(235, "egressVRFID", Unsigned)] "VRF id on the way out.";
    IngressVrfName "ingressVrfName" Text [] "Name of the VRF on the way in, as the exporter announces it.";
    EgressVrfName "egressVrfName" Text [] "Name of the VRF on the way out, as the exporter announces it.";
    BgpNextHop "bgpNextHop" Address [from(18, "bgpNextHopIPv4Address", Read::Address), from(63, "bgpNextHopIPv6Address", Read::Address)] "BGP next hop.";
    PostNatSrcAddr "postNatSrcAddr" Address [from(225, "postNATSourceIPv4Address", Read::Address), from(281, "postNATSourceIPv6Address", Read::Address), from(40001, "NF_F_XLATE_SRC_ADDR_IPV4", Read::Address)] "Source address after NAT.";
    PostNatDstAddr "postNatDstAddr" Address [from(226, "postNATDestinationIPv4Address", Read::Address), from(282, "postNATDestinationIPv6Address", Read::Address), from(40002, "NF_F_XLATE_DST_ADDR_IPV4", Read::Address)] "Destination address after NAT.";
    PostNatSrcPort "postNatSrcPort" UInt16 [from(227, "postNAPTSourceTransportPort", Unsigned), from(40003, "NF_F_XLATE_SRC_PORT", Unsigned)] "Source port after NAT.";
    PostNatDstPort "postNatDstPort" UInt16 [from(228, "postNAPTDestinationTransportPort", Unsigned), from(40004, "NF_F_XLATE_DST_PORT", Unsigned)] "Destination port after NAT.";
    NatEvent "natEvent" UInt8 [from(230, "natEvent", Unsigned)] "NAT event (RFC 8158 section 4.2).";
    FirewallEvent "firewallEvent" UInt8 [from(233, "firewallEvent", Unsigned), from(40005, "NF_F_FW_EVENT", Unsigned)] "Firewall event: 1 created, 2 deleted, 3 denied, 4 alert, 5 update.";
    ApplicationId "applicationId" UInt64 [from(95, "applicationId", ApplicationId)] "Application id, big-endian: classification engine in the first byte (RFC 6759 section 4).";
    ApplicationName "applicationName" Text [from(96, "applicationName", Read::Text)] "Application name that the exporter gives, in the record or for the applicationId in options records.";
    ReverseBytes "reverseBytes" UInt64 [
        reverse(1, "reverseOctetDeltaCount", Unsigned), reverse(85, "reverseOctetTotalCount", Unsigned),
        from(232, "responderOctets", Unsigned),
    ] "Bytes in the reverse direction of a biflow (RFC 5103).";
    ReversePackets "reversePackets" UInt64 [
        reverse(2, "reversePacketDeltaCount", Unsigned), reverse(86, "reversePacketTotalCount", Unsigned),
        from(299, "responderPackets", Unsigned),
    ] "Packets in the reverse direction of a biflow (RFC 5103).";
    Extra "extra" TextMap [] "Elements without a column of their own, by name, from receivers with `keep-unknown-elements`.";
}

impl Column {
    /// Its line in the table.
    #[must_use]
    pub const fn spec(self) -> &'static ColumnSpec {
        &COLUMNS[self as usize]
    }

    /// Its name in ClickHouse.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.spec().name
    }

    /// Bytes of one row in a chunk.
    #[must_use]
    pub const fn width_bytes(self) -> usize {
        self.spec().kind.width_bytes()
    }
}
