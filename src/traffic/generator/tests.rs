//! Determinism, exact totals, and what the RFCs ask of the headers.

use super::*;

/// 2026-01-01, half a second past a full one.
const NOW_MS: u64 = 1_767_225_600_500;

fn spec(protocol: Protocol, exporters: usize, flows: u64) -> Spec {
    Spec { protocol, exporters, seed: 42, flows: Some(flows), ..Spec::default() }
}

/// All datagrams, one every 10 ms.
fn all(spec: &Spec) -> Vec<Emission> {
    let mut generator = Generator::new(spec);
    let mut now = NOW_MS;
    std::iter::from_fn(|| {
        now += 10;
        generator.next(now).cloned()
    })
    .collect()
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(bytes[at..at + 2].try_into().unwrap())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Set id and body of every set after the header.
fn sets(payload: &[u8]) -> Vec<(u16, &[u8])> {
    let mut rest = &payload[if u16_at(payload, 0) == 9 { 20 } else { 16 }..];
    let mut sets = Vec::new();
    while !rest.is_empty() {
        let (set, after) = rest.split_at(usize::from(u16_at(rest, 2)));
        sets.push((u16_at(set, 0), &set[4..]));
        rest = after;
    }
    sets
}

#[test]
fn equal_specifications_give_equal_datagrams() {
    for protocol in [Protocol::V5, Protocol::V9, Protocol::Ipfix, Protocol::Sflow, Protocol::Mixed]
    {
        let spec = spec(protocol, 7, 2_000);
        assert_eq!(all(&spec), all(&spec));
        assert_ne!(all(&spec), all(&Spec { seed: 43, ..spec.clone() }));
    }
}

#[test]
fn v5_datagrams_are_full_but_the_last_and_add_up() {
    let emissions = all(&spec(Protocol::V5, 2, 100));
    let counts: Vec<u64> = emissions.iter().map(|emission| emission.flows).collect();
    assert_eq!(counts, [30, 30, 30, 10]);
    let sequences: Vec<u32> = emissions.iter().map(|e| u32_at(&e.payload, 16)).collect();
    assert_eq!(sequences, [0, 0, 30, 30], "flows of the exporter before this datagram");
    for emission in &emissions {
        let payload = &emission.payload;
        assert_eq!(payload.len() as u64, 24 + 48 * emission.flows);
        assert_eq!(u64::from(u16_at(payload, 2)), emission.flows);
        let records = payload[24..].chunks(48);
        let sum = |at| records.clone().map(|r| u64::from(u32_at(r, at))).sum::<u64>();
        assert_eq!((sum(16), sum(20)), (emission.packets, emission.bytes));
        let uptime = u32_at(payload, 4);
        for record in records.clone() {
            let (first, last) = (u32_at(record, 24), u32_at(record, 28));
            assert!(first <= last && last <= uptime);
        }
    }
    assert_eq!(u32_at(&emissions[0].payload, 8), 1_767_225_600);
    assert_eq!(u32_at(&emissions[0].payload, 12), 510_000_000);
    let elapsed = u32_at(&emissions[2].payload, 4) - u32_at(&emissions[0].payload, 4);
    assert_eq!(elapsed, 20);
}

/// Checks messages of one protocol against their own templates and the totals beside them.
fn check_templated(protocol: Protocol, version: u16, sequence_at: usize) {
    let emissions = all(&spec(protocol, 8, 10_000));
    assert_eq!(emissions.iter().map(|e| e.flows).sum::<u64>(), 10_000);
    let mut templates = std::collections::HashMap::new();
    let mut templates_unix_ms = std::collections::HashMap::new();
    let mut sequences = [0_u32; 8];
    let mut ipv6_exporters = std::collections::BTreeSet::new();
    for (index, emission) in emissions.iter().enumerate() {
        let now = NOW_MS + 10 * (index as u64 + 1);
        let (payload, exporter) = (&emission.payload, emission.exporter);
        assert!(payload.len() <= 1472, "{} bytes do not fit an MTU", payload.len());
        assert_eq!(u16_at(payload, 0), version);
        assert_eq!(u32_at(payload, sequence_at), sequences[exporter]);
        let is_v9 = version == 9;
        let export_time_at = if is_v9 { 8 } else { 4 };
        assert_eq!(u64::from(u32_at(payload, export_time_at)), now / 1_000);
        sequences[exporter] += if is_v9 { 1 } else { u32::try_from(emission.flows).unwrap() };
        let records = u16::try_from(emission.flows.max(1)).unwrap();
        let declared = if is_v9 { records } else { u16::try_from(payload.len()).unwrap() };
        assert_eq!(u16_at(payload, 2), declared);
        let (set, body) = sets(payload)[0];
        if emission.flows == 0 {
            assert_eq!(set, if is_v9 { 0 } else { 2 });
            let fields: Vec<(u16, usize)> = body[4..]
                .chunks(4)
                .map(|field| (u16_at(field, 0), usize::from(u16_at(field, 2))))
                .collect();
            assert_eq!(fields.len(), usize::from(u16_at(body, 2)));
            if fields[0].0 == 27 {
                ipv6_exporters.insert(exporter);
            }
            templates.insert((exporter, u16_at(body, 0)), fields);
            if let Some(before) = templates_unix_ms.insert(exporter, now) {
                assert!((1_000..1_200).contains(&(now - before)), "{}", now - before);
            }
            continue;
        }
        let fields = &templates[&(exporter, set)];
        let length: usize = fields.iter().map(|field| field.1).sum();
        assert_eq!((body.len() / length) as u64, emission.flows);
        assert!(body.len() % length < 4, "padding");
        let sum = |element| {
            let at: usize = fields.iter().take_while(|f| f.0 != element).map(|f| f.1).sum();
            let octets = fields.iter().find(|field| field.0 == element).unwrap().1;
            body.chunks_exact(length)
                .map(|record| {
                    record[at..at + octets].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
                })
                .sum::<u64>()
        };
        assert_eq!((sum(1), sum(2)), (emission.bytes, emission.packets));
    }
    assert!(ipv6_exporters.iter().eq(&[3, 7]), "{ipv6_exporters:?}");
}

#[test]
fn v9_follows_rfc_3954() {
    check_templated(Protocol::V9, 9, 12);
}

#[test]
fn ipfix_follows_rfc_7011() {
    check_templated(Protocol::Ipfix, 10, 8);
}

#[test]
fn templates_are_announced_once_over_tcp() {
    let spec = Spec { transport: Transport::Tcp, ..spec(Protocol::Ipfix, 8, 10_000) };
    assert_eq!(all(&spec).iter().filter(|emission| emission.flows == 0).count(), 8);
}

#[test]
fn sflow_datagrams_hold_seven_samples_and_add_up() {
    let emissions = all(&spec(Protocol::Sflow, 8, 1_000));
    assert_eq!(emissions.iter().map(|e| e.flows).sum::<u64>(), 1_000);
    let mut sequences = [0_u32; 8];
    for emission in &emissions {
        let payload = &emission.payload;
        assert!(payload.len() <= 1472, "{} bytes do not fit an MTU", payload.len());
        assert_eq!((u32_at(payload, 0), emission.packets), (5, emission.flows));
        let is_v6 = u32_at(payload, 4) == 2;
        assert_eq!(is_v6, emission.exporter % 4 == 3);
        let header = &payload[if is_v6 { 24 } else { 12 }..];
        assert_eq!(u32_at(header, 4), sequences[emission.exporter]);
        sequences[emission.exporter] += 1;
        assert_eq!(u64::from(u32_at(header, 12)), emission.flows);
        let samples: Vec<&[u8]> = header[16..].chunks(192).collect();
        assert_eq!(samples.len() as u64, emission.flows);
        // The length of the frame is the second word of the sampled header.
        let bytes = samples.iter().map(|sample| u64::from(u32_at(sample, 52))).sum::<u64>();
        assert_eq!(bytes, emission.bytes);
    }
}

#[test]
fn mixed_exporters_speak_one_protocol_each() {
    for emission in all(&spec(Protocol::Mixed, 8, 3_000)) {
        let expected: &[u8] =
            [&[0, 5][..], &[0, 9], &[0, 10], &[0, 0, 0, 5]][emission.exporter % 4];
        assert!(emission.payload.starts_with(expected));
    }
}

#[test]
fn nothing_follows_the_last_flow() {
    let mut generator = Generator::new(&spec(Protocol::V9, 1, 1));
    assert_eq!(generator.next(NOW_MS).unwrap().flows, 0);
    assert_eq!(generator.next(NOW_MS).unwrap().flows, 1);
    assert_eq!(generator.next(NOW_MS + 5_000), None);
    assert_eq!(Generator::new(&spec(Protocol::V9, 1, 0)).next(NOW_MS), None);
}
