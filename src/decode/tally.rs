//! What became of one datagram. Nothing is discarded without a reason and a count.

use std::collections::BTreeMap;

use serde::Serialize;

use super::packet::Tunnel;
use super::sequence::Observed;

/// A flow export protocol, told apart by the datagram's version word.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Protocol {
    /// NetFlow version 1.
    NetflowV1,
    /// NetFlow version 5.
    NetflowV5,
    /// NetFlow version 7.
    NetflowV7,
    /// NetFlow version 9, RFC 3954.
    NetflowV9,
    /// IPFIX, RFC 7011.
    Ipfix,
    /// sFlow version 5, sflow_version_5.txt of sFlow.org.
    Sflow,
}

impl Protocol {
    /// Every protocol.
    pub const ALL: [Self; 6] = [
        Self::NetflowV1,
        Self::NetflowV5,
        Self::NetflowV7,
        Self::NetflowV9,
        Self::Ipfix,
        Self::Sflow,
    ];

    /// The name in the configuration and in metric labels.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::NetflowV1 => "netflow-v1",
            Self::NetflowV5 => "netflow-v5",
            Self::NetflowV7 => "netflow-v7",
            Self::NetflowV9 => "netflow-v9",
            Self::Ipfix => "ipfix",
            Self::Sflow => "sflow",
        }
    }

    /// The value of the column `flowProtocol`.
    #[must_use]
    pub const fn column_value(self) -> &'static str {
        match self {
            Self::NetflowV1 => "NetflowV1",
            Self::NetflowV5 => "NetflowV5",
            Self::NetflowV7 => "NetflowV7",
            Self::NetflowV9 => "NetflowV9",
            Self::Ipfix => "IPFIX",
            Self::Sflow => "SFLOW",
        }
    }

    /// The protocol of a datagram, by its version word: 16 bits in NetFlow and IPFIX, 32 in sFlow.
    #[must_use]
    pub const fn of(payload: &[u8]) -> Option<Self> {
        match payload {
            [0, 1, ..] => Some(Self::NetflowV1),
            [0, 5, ..] => Some(Self::NetflowV5),
            [0, 7, ..] => Some(Self::NetflowV7),
            [0, 9, ..] => Some(Self::NetflowV9),
            [0, 10, ..] => Some(Self::Ipfix),
            [0, 0, 0, 5, ..] => Some(Self::Sflow),
            _ => None,
        }
    }
}

/// What a reason costs: the whole datagram or one set of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DropScope {
    /// Nothing of the datagram was decoded.
    Datagram,
    /// One set (sFlow: one sample, or a record of it), or the bytes behind the last one, was not decoded.
    Set,
}

macro_rules! drop_reasons {
    ($($variant:ident $label:literal $scope:ident $doc:literal;)*) => {
        /// Why bytes were not decoded.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        #[repr(usize)]
        pub enum DropReason { $(#[doc = $doc] $variant,)* }

        impl DropReason {
            /// Every reason.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The metric label.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self { $(Self::$variant => $label,)* }
            }

            /// What it costs.
            #[must_use]
            pub const fn scope(self) -> DropScope {
                match self { $(Self::$variant => DropScope::$scope,)* }
            }

            /// One line for the documentation.
            #[must_use]
            pub const fn doc(self) -> &'static str {
                match self { $(Self::$variant => $doc,)* }
            }
        }

        const REASONS: usize = [$(DropReason::$variant,)*].len();
    };
}

drop_reasons! {
    UnknownVersion "unknown_version" Datagram "The version word is of no protocol that tidegate decodes.";
    ProtocolRefused "protocol_refused" Datagram "The receiver's `protocols` leave this protocol out.";
    Truncated "truncated" Datagram "Shorter than the header of its protocol.";
    BadCount "bad_count" Datagram "NetFlow v1, v5 and v7: the header announces no record, or more than the datagram holds.";
    BadAgent "bad_agent" Datagram "sFlow: the agent address is of an unknown type, so where the samples begin is not known.";
    BadLength "bad_length" Datagram "IPFIX: the message length is below the header's or beyond the datagram; over TCP, beyond the end of the connection.";
    NoTemplate "no_template" Set "Data set whose template is not known.";
    BadSetLength "bad_set_length" Set "The set's length is below 4 or beyond the message; the rest of the message is lost.";
    ReservedSet "reserved_set" Set "Set id below 256 that no RFC defines.";
    BadTemplate "bad_template" Set "Template that is cut, empty, has an id below 256 or too many fields.";
    TemplateLimit "template_limit" Set "The exporter has as many templates as it may, or all exporters have; one that the new template would have replaced is forgotten.";
    OptionsLimit "options_limit" Set "Options records that announce more than is kept of one exporter, or of all.";
    ExporterLimit "exporter_limit" Set "Set of an exporter, or of an observation domain, beyond the number that state is kept for.";
    ShortSet "short_set" Set "Data set without room for one record of its template.";
    BadRecord "bad_record" Set "A variable-length field reaches beyond its set; the records before it are kept. sFlow: a record of a sample is shorter than its format; the others are kept.";
    TrailingBytes "trailing_bytes" Set "Bytes behind the last record, sample or message that are more than padding.";
    BadSampleLength "bad_sample_length" Set "sFlow: the sample reaches beyond the datagram; the rest of the datagram is lost.";
    BadSample "bad_sample" Set "sFlow: the sample ends within its fields or its records.";
    UnknownSample "unknown_sample" Set "sFlow: sample of a format that no specification defines, or a vendor's own.";
    NoPacket "no_packet" Set "sFlow: flow sample without a record that describes the packet.";
    MissingSamples "missing_samples" Set "sFlow: the datagram ends before the samples that its header announces.";
    InterfaceLimit "interface_limit" Set "sFlow: counters of an interface beyond the number that state is kept for.";
}

/// Sets are padded to a multiple of 4 (RFC 7011 section 3.3.1); not every exporter writes zeros.
const PADDING_BYTES_MAX: usize = 3;

/// Count and size of what one reason cost.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Dropped {
    /// Datagrams or sets, by the reason's scope.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What became of one datagram.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Tally {
    /// Flows written.
    pub flows: u64,
    /// Records of options templates; they describe the exporter, not traffic.
    pub options_records: u64,
    /// Records that the exporter sent and that never came, by its sequence numbers: flows of NetFlow v5 and
    /// v7, data records of IPFIX.
    pub lost_records: u64,
    /// The same for protocols that number their datagrams: NetFlow v9 and sFlow.
    pub lost_datagrams: u64,
    /// Datagrams that came behind later ones.
    pub late_datagrams: u64,
    /// Datagrams that came before.
    pub duplicate_datagrams: u64,
    /// New starts of the exporter, by its sequence numbers.
    pub restarts: u64,
    /// Template records read, refreshes included.
    pub templates: u64,
    /// Template records that were new or differed from the known one.
    pub templates_learned: u64,
    /// Templates that were forgotten since they were neither announced nor used for a day.
    pub templates_expired: u64,
    /// Withdrawals of templates that were obeyed, over a connection.
    pub withdrawals: u64,
    /// Withdrawals in datagrams, which mean nothing there (RFC 7011 section 8.4).
    pub ignored_withdrawals: u64,
    /// sFlow counter samples; they describe the exporter, not traffic.
    pub counter_samples: u64,
    /// sFlow notifications of packets that the exporter discarded.
    pub drop_events: u64,
    /// Records of sFlow samples that were stepped over because no column takes them.
    pub skipped_records: u64,
    /// Flows that began after they ended; their end is taken for both.
    pub reversed_flows: u64,
    /// Values of elements whose length in the template is none that the element can have.
    pub odd_length_values: u64,
    /// Values that are structured data (RFC 6313), which no column takes.
    pub list_values: u64,
    /// Values that the column `extra` had no room for.
    pub left_out_values: u64,
    /// Flows whose packet carries another one, by [`Tunnel`].
    pub tunnels: [u64; Tunnel::ALL.len()],
    dropped: [Dropped; REASONS],
}

impl Tally {
    /// Notes that `bytes` were not decoded.
    pub(crate) fn drop(&mut self, reason: DropReason, bytes: usize) {
        let dropped = &mut self.dropped[reason as usize];
        dropped.count += 1;
        dropped.bytes += bytes as u64;
    }

    /// Notes what lies behind the last record of a set: up to 3 bytes are padding, whatever they hold,
    /// and so are zeros.
    pub(crate) fn note_rest(&mut self, rest: &[u8]) {
        if rest.len() > PADDING_BYTES_MAX && rest.iter().any(|&byte| byte != 0) {
            self.drop(DropReason::TrailingBytes, rest.len());
        }
    }

    /// Notes what the sequence number of a message of `protocol` showed.
    pub(super) fn note_sequence(&mut self, protocol: Protocol, observed: Observed) {
        match protocol {
            Protocol::NetflowV9 | Protocol::Sflow => self.lost_datagrams += observed.lost,
            _ => self.lost_records += observed.lost,
        }
        self.late_datagrams += u64::from(observed.is_late);
        self.duplicate_datagrams += u64::from(observed.duplicates);
        self.restarts += u64::from(observed.is_restart);
    }

    /// What `reason` cost.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> Dropped {
        self.dropped[reason as usize]
    }

    /// Every reason that cost something.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, Dropped)> {
        DropReason::ALL
            .iter()
            .map(|&reason| (reason, self.dropped(reason)))
            .filter(|(_, d)| d.count > 0)
    }

    /// The same by label, for JSON.
    #[must_use]
    pub fn drops_by_label(&self) -> BTreeMap<&'static str, Dropped> {
        self.drops().map(|(reason, dropped)| (reason.label(), dropped)).collect()
    }

    /// Adds another tally.
    pub fn add(&mut self, other: &Self) {
        self.flows += other.flows;
        self.options_records += other.options_records;
        self.lost_records += other.lost_records;
        self.lost_datagrams += other.lost_datagrams;
        self.late_datagrams += other.late_datagrams;
        self.duplicate_datagrams += other.duplicate_datagrams;
        self.restarts += other.restarts;
        self.templates += other.templates;
        self.templates_learned += other.templates_learned;
        self.templates_expired += other.templates_expired;
        self.withdrawals += other.withdrawals;
        self.ignored_withdrawals += other.ignored_withdrawals;
        self.counter_samples += other.counter_samples;
        self.drop_events += other.drop_events;
        self.skipped_records += other.skipped_records;
        self.reversed_flows += other.reversed_flows;
        self.odd_length_values += other.odd_length_values;
        self.list_values += other.list_values;
        self.left_out_values += other.left_out_values;
        for (mine, theirs) in self.tunnels.iter_mut().zip(&other.tunnels) {
            *mine += theirs;
        }
        for (mine, theirs) in self.dropped.iter_mut().zip(&other.dropped) {
            mine.count += theirs.count;
            mine.bytes += theirs.bytes;
        }
    }
}
