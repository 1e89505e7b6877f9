//! NetFlow v9 and IPFIX messages, set by set.
//!
//! The builder fills in lengths, counts and padding, and lets a test spoil them: [`raw_set`] writes
//! any bytes and [`declare`] overrides what the header says.
//!
//! [`raw_set`]: MessageBuilder::raw_set
//! [`declare`]: MessageBuilder::declare

/// Set ids, RFC 3954 section 5.2 and 6.1; RFC 7011 section 3.3.2.
const V9_TEMPLATES: u16 = 0;
const V9_OPTIONS_TEMPLATES: u16 = 1;
const IPFIX_TEMPLATES: u16 = 2;
const IPFIX_OPTIONS_TEMPLATES: u16 = 3;
/// Marks an element with an enterprise number, RFC 7011 section 3.2.
const ENTERPRISE_BIT: u16 = 0x8000;
/// Where both headers hold what [`MessageBuilder::declare`] overrides: count or length.
const DECLARED: usize = 2;
/// Element and length of a template field in v9.
const V9_FIELD_BYTES: usize = 4;

/// A field of a template: RFC 3954 section 5.2, RFC 7011 section 3.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Number of the information element, without the enterprise bit.
    pub element: u16,
    /// Length in octets; 65535 announces variable length in IPFIX.
    pub octets: u16,
    /// Private enterprise number. NetFlow v9 has none, but some exporters send them all the same.
    pub enterprise: Option<u32>,
}

impl Field {
    /// An element of IANA's registry.
    #[must_use]
    pub const fn new(element: u16, octets: u16) -> Self {
        Self { element, octets, enterprise: None }
    }

    /// An element of an enterprise.
    #[must_use]
    pub const fn enterprise(enterprise: u32, element: u16, octets: u16) -> Self {
        Self { element, octets, enterprise: Some(enterprise) }
    }
}

/// Header of a NetFlow v9 export packet, RFC 3954 section 5.1.
#[derive(Debug, Clone, Copy, Default)]
pub struct V9Header {
    /// Milliseconds since the exporter started.
    pub uptime_ms: u32,
    /// Seconds since 1970 when the packet left the exporter.
    pub export_time_s: u32,
    /// Export packets sent before this one.
    pub sequence: u32,
    /// Observation domain of the exporter.
    pub source_id: u32,
}

/// Header of an IPFIX message, RFC 7011 section 3.1.
#[derive(Debug, Clone, Copy, Default)]
pub struct IpfixHeader {
    /// Seconds since 1970 when the message left the exporter.
    pub export_time_s: u32,
    /// Data records sent in this observation domain before this message.
    pub sequence: u32,
    /// Observation domain of the exporter.
    pub domain_id: u32,
}

/// A NetFlow v9 or IPFIX message under construction.
#[derive(Debug, Clone)]
pub struct MessageBuilder {
    bytes: Vec<u8>,
    is_v9: bool,
    /// Records so far, which a v9 header counts; an IPFIX header holds the length instead.
    records: u16,
    declared: Option<u16>,
}

impl MessageBuilder {
    /// Begins a NetFlow v9 message.
    #[must_use]
    pub fn v9(header: V9Header) -> Self {
        Self::v9_in(Vec::new(), header)
    }

    /// Begins an IPFIX message.
    #[must_use]
    pub fn ipfix(header: IpfixHeader) -> Self {
        Self::ipfix_in(Vec::new(), header)
    }

    /// As [`Self::v9`], in a buffer that is used again.
    #[must_use]
    pub fn v9_in(mut buffer: Vec<u8>, header: V9Header) -> Self {
        buffer.clear();
        buffer.extend_from_slice(&[0, 9, 0, 0]);
        let words = [header.uptime_ms, header.export_time_s, header.sequence, header.source_id];
        for word in words {
            buffer.extend_from_slice(&word.to_be_bytes());
        }
        Self { bytes: buffer, is_v9: true, records: 0, declared: None }
    }

    /// As [`Self::ipfix`], in a buffer that is used again.
    #[must_use]
    pub fn ipfix_in(mut buffer: Vec<u8>, header: IpfixHeader) -> Self {
        buffer.clear();
        buffer.extend_from_slice(&[0, 10, 0, 0]);
        for word in [header.export_time_s, header.sequence, header.domain_id] {
            buffer.extend_from_slice(&word.to_be_bytes());
        }
        Self { bytes: buffer, is_v9: false, records: 0, declared: None }
    }

    /// A template set with one template. No fields in IPFIX withdraw it (RFC 7011 section 8.1).
    #[must_use]
    pub fn template(self, id: u16, fields: &[Field]) -> Self {
        self.templates(&[(id, fields)])
    }

    /// A template set with several templates.
    #[must_use]
    pub fn templates(self, templates: &[(u16, &[Field])]) -> Self {
        let set = if self.is_v9 { V9_TEMPLATES } else { IPFIX_TEMPLATES };
        self.set(set, saturated(templates.len()), None, |bytes| {
            for (id, fields) in templates {
                put(bytes, *id);
                put(bytes, saturated(fields.len()));
                put_fields(bytes, fields);
            }
        })
    }

    /// An options template set with one template: scope fields first, RFC 3954 section 6.1 and
    /// RFC 7011 section 3.4.2.2. In v9 scope fields are numbered by scope type.
    #[must_use]
    pub fn options_template(self, id: u16, scope: &[Field], options: &[Field]) -> Self {
        let is_v9 = self.is_v9;
        let set = if is_v9 { V9_OPTIONS_TEMPLATES } else { IPFIX_OPTIONS_TEMPLATES };
        self.set(set, 1, None, |bytes| {
            put(bytes, id);
            if is_v9 {
                // v9 gives lengths in octets of the two lists, IPFIX the number of fields.
                put(bytes, saturated(scope.len() * V9_FIELD_BYTES));
                put(bytes, saturated(options.len() * V9_FIELD_BYTES));
            } else {
                put(bytes, saturated(scope.len() + options.len()));
                put(bytes, saturated(scope.len()));
            }
            put_fields(bytes, scope);
            put_fields(bytes, options);
        })
    }

    /// A data set of the records given, padded to a multiple of four.
    #[must_use]
    pub fn data_set<R: AsRef<[u8]>>(self, template: u16, records: &[R]) -> Self {
        self.set(template, saturated(records.len()), None, |bytes| {
            records.iter().for_each(|record| bytes.extend_from_slice(record.as_ref()));
        })
    }

    /// A data set with `padding` zero octets after its records, which may be none.
    #[must_use]
    pub fn data_set_padded<R: AsRef<[u8]>>(
        self,
        template: u16,
        records: &[R],
        padding: usize,
    ) -> Self {
        self.set(template, saturated(records.len()), Some(padding), |bytes| {
            records.iter().for_each(|record| bytes.extend_from_slice(record.as_ref()));
        })
    }

    /// A data set whose `count` records are written in place, padded to a multiple of four.
    #[must_use]
    pub fn data_set_with(
        self,
        template: u16,
        count: u16,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Self {
        self.set(template, count, None, write)
    }

    /// A set of any id and content, neither padded nor counted as records.
    #[must_use]
    pub fn raw_set(self, id: u16, body: &[u8]) -> Self {
        self.set(id, 0, Some(0), |bytes| bytes.extend_from_slice(body))
    }

    /// Bytes outside of any set: trailing garbage, or a set with a header of its own.
    #[must_use]
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Overrides the record count of a v9 header or the length of an IPFIX header.
    #[must_use]
    pub fn declare(mut self, value: u16) -> Self {
        self.declared = Some(value);
        self
    }

    /// The message with its header completed.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        let actual = if self.is_v9 { self.records } else { saturated(self.bytes.len()) };
        let declared = self.declared.unwrap_or(actual);
        patch(&mut self.bytes, DECLARED, declared);
        self.bytes
    }

    fn set(
        mut self,
        id: u16,
        records: u16,
        padding: Option<usize>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Self {
        let start = self.bytes.len();
        put(&mut self.bytes, id);
        put(&mut self.bytes, 0);
        write(&mut self.bytes);
        let length = self.bytes.len() - start;
        let padding = padding.unwrap_or_else(|| length.next_multiple_of(4) - length);
        self.bytes.resize(self.bytes.len() + padding, 0);
        patch(&mut self.bytes, start + 2, saturated(length + padding));
        self.records = self.records.saturating_add(records);
        self
    }
}

/// A value of variable length with its length before it, RFC 7011 section 7.
#[must_use]
pub fn variable_length(value: &[u8]) -> Vec<u8> {
    let mut bytes = match u8::try_from(value.len()) {
        Ok(short) if short < u8::MAX => vec![short],
        _ => {
            let [high, low] = saturated(value.len()).to_be_bytes();
            vec![u8::MAX, high, low]
        }
    };
    bytes.extend_from_slice(value);
    bytes
}

fn put(bytes: &mut Vec<u8>, value: u16) {
    bytes.extend_from_slice(&value.to_be_bytes());
}

fn put_fields(bytes: &mut Vec<u8>, fields: &[Field]) {
    for field in fields {
        match field.enterprise {
            None => {
                put(bytes, field.element);
                put(bytes, field.octets);
            }
            Some(enterprise) => {
                put(bytes, field.element | ENTERPRISE_BIT);
                put(bytes, field.octets);
                bytes.extend_from_slice(&enterprise.to_be_bytes());
            }
        }
    }
}

fn patch(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

/// Lengths and counts on the wire have 16 bits; a message beyond them cannot be sent anyway.
fn saturated(value: usize) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_v9_message_counts_records_and_pads_sets() {
        let header = V9Header { uptime_ms: 1, export_time_s: 2, sequence: 3, source_id: 4 };
        let message = MessageBuilder::v9(header)
            .template(256, &[Field::new(8, 4), Field::new(4, 1)])
            .options_template(257, &[Field::new(1, 4)], &[Field::new(34, 4)])
            .data_set(256, &[[1, 2, 3, 4, 6], [5, 6, 7, 8, 17]])
            .finish();
        let expected = [
            &[0, 9, 0, 4, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4][..],
            &[0, 0, 0, 16, 1, 0, 0, 2, 0, 8, 0, 4, 0, 4, 0, 1],
            &[0, 1, 0, 20, 1, 1, 0, 4, 0, 4, 0, 1, 0, 4, 0, 34, 0, 4, 0, 0],
            &[1, 0, 0, 16, 1, 2, 3, 4, 6, 5, 6, 7, 8, 17, 0, 0],
        ];
        assert_eq!(message, expected.concat());
    }

    #[test]
    fn an_ipfix_message_has_its_length_and_enterprise_fields() {
        let header = IpfixHeader { export_time_s: 1, sequence: 2, domain_id: 3 };
        let message = MessageBuilder::ipfix(header)
            .template(300, &[Field::enterprise(29305, 1, 8), Field::new(82, 65_535)])
            .options_template(301, &[Field::new(149, 4)], &[])
            .data_set_padded(300, &[[&[0; 8][..], &variable_length(b"eth0")].concat()], 1)
            .finish();
        let expected = [
            &[0, 10, 0, 68, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3][..],
            &[0, 2, 0, 20, 1, 44, 0, 2, 128, 1, 0, 8, 0, 0, 114, 121, 0, 82, 255, 255],
            &[0, 3, 0, 16, 1, 45, 0, 1, 0, 1, 0, 149, 0, 4, 0, 0],
            &[1, 44, 0, 18, 0, 0, 0, 0, 0, 0, 0, 0, 4, b'e', b't', b'h', b'0', 0],
        ];
        let mut expected = expected.concat();
        expected[3] = u8::try_from(expected.len()).unwrap();
        assert_eq!(message, expected);
    }

    #[test]
    fn a_test_can_lie() {
        let message =
            MessageBuilder::v9(V9Header::default()).raw_set(9, &[1]).raw(&[7]).declare(99).finish();
        assert_eq!(message[2..4], [0, 99]);
        assert_eq!(message[20..], [0, 9, 0, 5, 1, 7]);
        assert_eq!(variable_length(&[0; 255])[..4], [255, 0, 255, 0]);
    }
}
