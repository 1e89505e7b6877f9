//! Where the crate and tidegate are known to differ.

/// What differs.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Kind {
    /// Records of a datagram of NetFlow v5 or v7.
    FixedRecords,
    /// The crate gives fewer sets than the datagram has.
    Sets,
    /// Templates of a set.
    Templates,
    /// Options records of a set.
    OptionsRecords,
    /// Flow records of a set.
    Records,
    /// The crate reads more of a set than tidegate.
    OnlyTheirs,
    /// A set that waited for its template was decoded with it.
    DataBeforeTemplate,
    /// The value of this column.
    Value(&'static str),
}

/// One way in which they differ.
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Why.
    pub(crate) reason: &'static str,
    /// Where it shows; it must in each.
    pub(crate) captures: &'static [&'static str],
}

pub(crate) const KNOWN: &[Known] = &[
    Known {
        name: "an empty value of variable length ends its set",
        kind: Kind::Records,
        reason: "the crate takes a length of 0 for an error, and says nothing",
        captures: &[
            "106-ipfixv10-huawei-vrf-name-traffic-00",
            "basic-one-input-file-expected",
            "basic-two-input-files-expected",
            "codecs-ipfix-test-ixia-tpldata271",
            "exporter-ovs-ipfix",
            "ipfix-data-01-odid4",
            "ipfix-data-02-odid0",
            "ipfix-data-02-odid4",
            "ipfix-data-03-odid0-a",
            "ipfix-data-03-odid0-b",
            "telegraf-ipfix-pen-35632",
            "telegraf-issue-13305",
            "two-inputs-filter-by-ipversion-expected",
            "vendor-ipfix-from-ixia-something-something",
            "vendor-ipfix-procera",
        ],
    },
    Known {
        name: "zeros behind the last set cost the packet of NetFlow v9",
        kind: Kind::Sets,
        reason: "the crate takes them for a set of length 0",
        captures: &[
            "vendor-netflow-9-cisco-aci",
            "vendor-netflow-9-palo-alto-1-flowset-in-large-zero-filled-packet",
        ],
    },
    Known {
        name: "a second message in a datagram costs both of NetFlow v9",
        kind: Kind::Sets,
        reason: "the crate takes its header for a set; tidegate too, but keeps the sets before it",
        captures: &["netflow-data-netflow-v9-1"],
    },
    Known {
        name: "a bad template set takes the sets behind it along",
        kind: Kind::Sets,
        reason: "the crate ends the message of IPFIX, and says nothing; tidegate goes on with the next set",
        captures: &["ipfix-data-bad-template-field-count", "ipfix-data-enterprise-from-nfv9"],
    },
    Known {
        name: "a set without a byte ends its message",
        kind: Kind::Sets,
        reason: "the crate takes a template set of its header alone for an error",
        captures: &["telegraf-ipfix-example"],
    },
    Known {
        name: "a template of IPFIX with a field of length 0 is refused",
        kind: Kind::Sets,
        reason: "nothing forbids it; the crate ends the message, and data of the template has none",
        captures: &["telegraf-issue-14370"],
    },
    Known {
        name: "a template of NetFlow v9 with a field of length 65535 is refused",
        kind: Kind::Sets,
        reason: "RFC 3954 knows no variable length, exporters use it all the same; too long for the crate",
        captures: &["vendor-netflow-9-h3c-netstream-with-varstring"],
    },
    Known {
        name: "data of a refused template of NetFlow v9 has none",
        kind: Kind::Records,
        reason: "its template has a field of length 65535",
        captures: &["vendor-netflow-9-h3c-netstream-with-varstring"],
    },
    Known {
        name: "data before its template",
        kind: Kind::DataBeforeTemplate,
        reason: "the crate would read it with the times of a later message, so it is not asked to keep it",
        captures: &[
            "netflow-data-nprobe-netflow9-4",
            "vendor-ipfix-netscaler-with-variable-length-fields-2",
        ],
    },
];
