//! Abstract data types of information elements.

macro_rules! data_types {
    ($($(#[$doc:meta])* $variant:ident $name:literal,)*) => {
        /// The abstract data type of an information element: RFC 7011 section 6.1, the structured types of
        /// RFC 6313, and what IANA's registry of data types has added to them.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum DataType { $($(#[$doc])* $variant,)* }

        impl DataType {
            /// Every type.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its name in the registry.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

data_types! {
    /// Bytes without a meaning of their own.
    OctetArray "octetArray",
    /// 1 byte.
    Unsigned8 "unsigned8",
    /// Up to 2 bytes.
    Unsigned16 "unsigned16",
    /// Up to 4 bytes.
    Unsigned32 "unsigned32",
    /// Up to 8 bytes.
    Unsigned64 "unsigned64",
    /// Up to 32 bytes (RFC 9740).
    Unsigned256 "unsigned256",
    /// 1 byte, two's complement.
    Signed8 "signed8",
    /// Up to 2 bytes, two's complement.
    Signed16 "signed16",
    /// Up to 4 bytes, two's complement.
    Signed32 "signed32",
    /// Up to 8 bytes, two's complement.
    Signed64 "signed64",
    /// IEEE 754, 4 bytes.
    Float32 "float32",
    /// IEEE 754, 8 bytes, or 4.
    Float64 "float64",
    /// 1 is true, 2 is false.
    Boolean "boolean",
    /// 6 bytes.
    MacAddress "macAddress",
    /// UTF-8.
    String "string",
    /// Seconds since 1970.
    DateTimeSeconds "dateTimeSeconds",
    /// Milliseconds since 1970.
    DateTimeMilliseconds "dateTimeMilliseconds",
    /// NTP timestamp, read to the microsecond.
    DateTimeMicroseconds "dateTimeMicroseconds",
    /// NTP timestamp, read to the nanosecond.
    DateTimeNanoseconds "dateTimeNanoseconds",
    /// 4 bytes.
    Ipv4Address "ipv4Address",
    /// 16 bytes.
    Ipv6Address "ipv6Address",
    /// Values of one element.
    BasicList "basicList",
    /// Records of one template.
    SubTemplateList "subTemplateList",
    /// Records of several templates.
    SubTemplateMultiList "subTemplateMultiList",
}

impl DataType {
    /// The type of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|data_type| data_type.name() == name)
    }
}
