//! Captures written by hand: every file format, link type and kind of damage that is read.

use std::net::Ipv6Addr;

use etherparse::PacketBuilder;

use super::*;

const PAYLOAD: &[u8] = b"\x00\x05 a datagram";

/// An IPv4 packet with `payload` in UDP from 192.0.2.1:4000 to 192.0.2.2:2055.
fn ipv4(payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    PacketBuilder::ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64)
        .udp(4000, 2055)
        .write(&mut packet, payload)
        .unwrap();
    packet
}

fn ipv6(payload: &[u8]) -> Vec<u8> {
    let address = |last| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last).octets();
    let mut packet = Vec::new();
    PacketBuilder::ipv6(address(1), address(2), 64)
        .udp(4000, 2055)
        .write(&mut packet, payload)
        .unwrap();
    packet
}

fn ethernet(tags: &[u16], ether_type: u16, ip: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    for tag in tags {
        frame.extend(tag.to_be_bytes());
        frame.extend([0, 7]);
    }
    frame.extend(ether_type.to_be_bytes());
    frame.extend(ip);
    // Ethernet pads short frames: nothing of it may reach the payload.
    frame.resize(frame.len().max(60), 0xee);
    frame
}

#[derive(Clone, Copy)]
enum Endian {
    Big,
    Little,
}

impl Endian {
    fn u32(self, value: u32) -> [u8; 4] {
        match self {
            Self::Big => value.to_be_bytes(),
            Self::Little => value.to_le_bytes(),
        }
    }

    fn u16(self, value: u16) -> [u8; 2] {
        match self {
            Self::Big => value.to_be_bytes(),
            Self::Little => value.to_le_bytes(),
        }
    }
}

fn pcap_with(endian: Endian, magic: u32, link: u32, frames: &[&[u8]]) -> Vec<u8> {
    let mut file = endian.u32(magic).to_vec();
    file.extend(endian.u16(2));
    file.extend(endian.u16(4));
    for value in [0, 0, 65_535, link] {
        file.extend(endian.u32(value));
    }
    for frame in frames {
        let length = u32::try_from(frame.len()).unwrap();
        for value in [1_700_000_000, 250, length, length] {
            file.extend(endian.u32(value));
        }
        file.extend(*frame);
    }
    file
}

fn pcap(link: u32, frames: &[&[u8]]) -> Vec<u8> {
    pcap_with(Endian::Little, 0xa1b2_c3d4, link, frames)
}

fn block(endian: Endian, kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().div_ceil(4) * 4;
    let length = u32::try_from(12 + padded).unwrap();
    let mut block = endian.u32(kind).to_vec();
    block.extend(endian.u32(length));
    block.extend(body);
    block.resize(8 + padded, 0);
    block.extend(endian.u32(length));
    block
}

fn section(endian: Endian) -> Vec<u8> {
    let mut body = endian.u32(0x1a2b_3c4d).to_vec();
    body.extend(endian.u16(1));
    body.extend(endian.u16(0));
    body.extend([0xff; 8]);
    block(endian, 0x0a0d_0d0a, &body)
}

fn described(endian: Endian, link: u16, options: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = endian.u16(link).to_vec();
    body.extend(endian.u16(0));
    body.extend(endian.u32(0));
    for (code, value) in options {
        body.extend(endian.u16(*code));
        body.extend(endian.u16(u16::try_from(value.len()).unwrap()));
        body.extend(*value);
        body.resize(body.len().div_ceil(4) * 4, 0);
    }
    body.extend([0; 4]);
    block(endian, 1, &body)
}

fn enhanced(endian: Endian, interface: u32, time: u64, frame: &[u8]) -> Vec<u8> {
    let length = u32::try_from(frame.len()).unwrap();
    let mut body = Vec::new();
    let (high, low) = ((time >> 32) as u32, (time & 0xffff_ffff) as u32);
    for value in [interface, high, low, length, length] {
        body.extend(endian.u32(value));
    }
    body.extend(frame);
    block(endian, 6, &body)
}

/// All datagrams, the error that ended them, and what was skipped.
fn read(file: Vec<u8>) -> (Vec<Datagram>, Option<CaptureError>, Skipped) {
    let mut capture = Capture::from_reader(io::Cursor::new(file)).unwrap();
    let mut datagrams = Vec::new();
    let mut error = None;
    for item in capture.by_ref() {
        match item {
            Ok(datagram) => datagrams.push(datagram),
            Err(failure) => error = Some(failure),
        }
    }
    (datagrams, error, *capture.skipped())
}

fn payloads(file: Vec<u8>) -> Vec<Vec<u8>> {
    let (datagrams, error, skipped) = read(file);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(skipped.total(), 0, "{skipped}");
    datagrams.into_iter().map(|datagram| datagram.payload).collect()
}

#[test]
fn a_pcap_is_read_in_both_byte_orders_and_time_units() {
    for endian in [Endian::Big, Endian::Little] {
        for (magic, fraction_ns) in [(0xa1b2_c3d4, 250_000), (0xa1b2_3c4d, 250)] {
            let (datagrams, error, _) = read(pcap_with(endian, magic, 101, &[&ipv4(PAYLOAD)]));
            assert!(error.is_none());
            assert_eq!(
                datagrams,
                [Datagram {
                    time_unix_ns: 1_700_000_000_000_000_000 + fraction_ns,
                    source: "192.0.2.1:4000".parse().unwrap(),
                    destination: "192.0.2.2:2055".parse().unwrap(),
                    payload: PAYLOAD.to_vec(),
                }]
            );
        }
    }
}

#[test]
fn every_link_type_gives_the_same_payload() {
    let sll = [&[0, 0, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0, 8, 0][..], &ipv4(PAYLOAD)].concat();
    let sll2 = [&[0x86, 0xdd][..], &[0; 18], &ipv6(PAYLOAD)].concat();
    let null = [&[2, 0, 0, 0][..], &ipv4(PAYLOAD)].concat();
    let looped = [&[0, 0, 0, 30][..], &ipv6(PAYLOAD)].concat();
    let cases: [(u32, Vec<u8>); 13] = [
        (1, ethernet(&[], 0x0800, &ipv4(PAYLOAD))),
        (1, ethernet(&[0x8100], 0x86dd, &ipv6(PAYLOAD))),
        (1, ethernet(&[0x88a8, 0x8100], 0x0800, &ipv4(PAYLOAD))),
        // The upper bits announce a frame check sequence of four bytes.
        (0x5400_0001, ethernet(&[0x9100, 0x8100], 0x0800, &ipv4(PAYLOAD))),
        (113, sll),
        (276, sll2),
        (12, ipv4(PAYLOAD)),
        (14, ipv4(PAYLOAD)),
        (101, ipv6(PAYLOAD)),
        (228, ipv4(PAYLOAD)),
        (229, ipv6(PAYLOAD)),
        (0, null),
        (108, looped),
    ];
    for (link, frame) in cases {
        assert_eq!(payloads(pcap(link, &[&frame])), [PAYLOAD], "link type {link}");
    }
}

#[test]
fn a_pcapng_is_read_in_both_byte_orders_with_sections_of_their_own() {
    let mut file = Vec::new();
    for endian in [Endian::Big, Endian::Little] {
        let offset = match endian {
            Endian::Big => 1_600_000_000_i64.to_be_bytes(),
            Endian::Little => 1_600_000_000_i64.to_le_bytes(),
        };
        file.extend(section(endian));
        file.extend(described(endian, 1, &[]));
        // 2^-10 seconds since 2020-09-13.
        file.extend(described(endian, 101, &[(9, &[0x8a]), (14, &offset)]));
        file.extend(enhanced(endian, 1, 3 * 1024 + 512, &ipv4(PAYLOAD)));
        file.extend(enhanced(endian, 0, 5_000_001, &ethernet(&[], 0x0800, &ipv4(b"two"))));
    }
    let (datagrams, error, skipped) = read(file);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(skipped.total(), 0);
    let seen: Vec<_> = datagrams.iter().map(|d| (d.time_unix_ns, &d.payload[..])).collect();
    let half = [(1_600_000_003_500_000_000, PAYLOAD), (5_000_001_000, &b"two"[..])];
    assert_eq!(seen, [half, half].concat());
}

#[test]
fn a_simple_packet_block_and_an_obsolete_one() {
    let endian = Endian::Little;
    let packet = ipv4(PAYLOAD);
    let mut simple = endian.u32(u32::try_from(packet.len()).unwrap()).to_vec();
    simple.extend(&packet);
    let file = [
        section(endian),
        described(endian, 101, &[]),
        block(endian, 3, &simple),
        block(endian, 2, &[0; 20]),
        block(endian, 5, &[0; 12]),
    ];
    let (datagrams, error, skipped) = read(file.concat());
    assert!(error.is_none(), "{error:?}");
    assert_eq!(datagrams[0].payload, PAYLOAD);
    assert_eq!(skipped, Skipped { record_type: 1, ..Skipped::default() });
}

/// Splits an IPv4 packet without options into fragments of `step` bytes.
fn fragments_v4(packet: &[u8], identification: u16, step: usize) -> Vec<Vec<u8>> {
    let (header, body) = packet.split_at(20);
    let count = body.len().div_ceil(step);
    body.chunks(step)
        .enumerate()
        .map(|(index, chunk)| {
            let mut fragment = header.to_vec();
            let length = u16::try_from(20 + chunk.len()).unwrap();
            fragment[2..4].copy_from_slice(&length.to_be_bytes());
            fragment[4..6].copy_from_slice(&identification.to_be_bytes());
            let flags = if index + 1 < count { 0x2000 } else { 0 };
            let offset = flags | u16::try_from(index * step / 8).unwrap();
            fragment[6..8].copy_from_slice(&offset.to_be_bytes());
            fragment.extend(chunk);
            fragment
        })
        .collect()
}

fn fragments_v6(packet: &[u8], identification: u32, step: usize) -> Vec<Vec<u8>> {
    let (header, body) = packet.split_at(40);
    let count = body.len().div_ceil(step);
    body.chunks(step)
        .enumerate()
        .map(|(index, chunk)| {
            let mut fragment = header.to_vec();
            let length = u16::try_from(8 + chunk.len()).unwrap();
            fragment[4..6].copy_from_slice(&length.to_be_bytes());
            fragment[6] = 44;
            let more = u16::from(index + 1 < count);
            let offset = u16::try_from(index * step).unwrap() | more;
            fragment.extend([17, 0]);
            fragment.extend(offset.to_be_bytes());
            fragment.extend(identification.to_be_bytes());
            fragment.extend(chunk);
            fragment
        })
        .collect()
}

#[test]
fn fragments_are_put_together_in_any_order() {
    let long: Vec<u8> = (0..4000_u32).map(|value| (value % 251) as u8).collect();
    let mut packets = fragments_v4(&ipv4(&long), 1, 1480);
    packets.extend(fragments_v6(&ipv6(&long), 1, 1448));
    packets.extend(fragments_v4(&ipv4(PAYLOAD), 2, 16));
    packets.reverse();
    let frames: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    assert_eq!(payloads(pcap(101, &frames)), [PAYLOAD.to_vec(), long.clone(), long]);
}

#[test]
fn fragments_without_the_rest_are_counted_and_bounded() {
    let packets: Vec<Vec<u8>> = (0..3000)
        .flat_map(|id| fragments_v4(&ipv4(&[0; 64]), id, 32).into_iter().take(1))
        .collect();
    let frames: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    let (datagrams, error, skipped) = read(pcap(101, &frames));
    assert!(datagrams.is_empty() && error.is_none());
    assert_eq!(skipped, Skipped { fragments_incomplete: 3000, ..Skipped::default() });
}

/// The headers of RFC 8200 section 4 in a row, each as long as it says; a captured packet may end in any.
#[test]
fn extension_headers_may_be_cut_anywhere() {
    let headers = [(0, 2), (43, 1), (60, 1), (51, 4), (44, 0)];
    let mut packet = ipv6(PAYLOAD);
    let udp = packet.split_off(40);
    packet[6] = headers[0].0;
    for (index, (_, length)) in headers.iter().enumerate() {
        let next = headers.get(index + 1).map_or(17, |header| header.0);
        let bytes = if next == 44 { (length + 2) * 4 } else { (length + 1) * 8 };
        packet.extend([next, *length]);
        packet.resize(packet.len() + usize::from(bytes) - 2, 0);
    }
    packet.extend(&udp);
    let length = u16::try_from(packet.len() - 40).unwrap();
    packet[4..6].copy_from_slice(&length.to_be_bytes());
    assert_eq!(payloads(pcap(101, &[&packet])), [PAYLOAD], "whole: the only fragment");
    for length in 40..packet.len() {
        let (datagrams, _, skipped) = read(pcap(101, &[&packet[..length]]));
        assert!(datagrams.is_empty(), "{length} bytes: {skipped:?}");
    }
}

#[test]
fn what_is_no_datagram_is_counted_by_reason() {
    let mut tcp = Vec::new();
    PacketBuilder::ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64)
        .tcp(1, 2, 3, 4)
        .write(&mut tcp, b"")
        .unwrap();
    let whole = ethernet(&[], 0x0800, &ipv4(&[7; 100]));
    let frames = [
        ethernet(&[], 0x0806, &[0; 28]),
        ethernet(&[], 0x88cc, &[0; 20]),
        ethernet(&[], 0x0800, &tcp),
        whole[..80].to_vec(),
        ethernet(&[], 0x0800, &[0x41; 30]),
        whole,
    ];
    let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    let (datagrams, error, skipped) = read(pcap(1, &frames));
    assert!(error.is_none());
    assert_eq!(datagrams.len(), 1);
    assert_eq!(skipped.to_string(), "skipped not_ip=2 not_udp=1 truncated=1 malformed=1");
}

#[test]
fn a_damaged_file_yields_what_came_before_and_names_the_packet() {
    let packet = ipv4(PAYLOAD);
    let whole = pcap(101, &[&packet, &packet, &packet]);
    let last = 24 + 2 * (16 + packet.len());

    let (datagrams, error, _) = read(whole[..whole.len() - 3].to_vec());
    assert_eq!(datagrams.len(), 2);
    assert_eq!(error.unwrap().to_string(), "capture ends in the middle of packet 3");

    let mut huge = whole;
    huge[last + 8..last + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    huge.resize(40 * 1024 * 1024, 0);
    let (datagrams, error, _) = read(huge);
    assert_eq!(datagrams.len(), 2);
    let error = error.unwrap().to_string();
    assert_eq!(error, "capture is damaged at packet 3: the record is too long");

    let endian = Endian::Little;
    let mut ng = [section(endian), described(endian, 101, &[]), enhanced(endian, 0, 0, &packet)];
    let undescribed = [ng.concat(), enhanced(endian, 9, 0, &packet)].concat();
    let (datagrams, error, _) = read(undescribed);
    assert_eq!(datagrams.len(), 1);
    let error = error.unwrap().to_string();
    assert_eq!(error, "capture is damaged at packet 2: its interface is not described in the file");

    ng[2][4] = 3;
    let (datagrams, error, _) = read(ng.concat());
    assert!(datagrams.is_empty());
    let error = error.unwrap().to_string();
    assert_eq!(error, "capture is damaged at packet 1: not a valid record");
}

#[test]
fn no_byte_of_a_file_makes_reading_panic_or_hang() {
    let endian = Endian::Big;
    let small = fragments_v6(&ipv6(PAYLOAD), 1, 16);
    let ng = [
        section(endian),
        described(endian, 1, &[(9, &[6])]),
        enhanced(endian, 0, 1, &ethernet(&[0x8100], 0x0800, &ipv4(PAYLOAD))),
        enhanced(endian, 0, 2, &ethernet(&[], 0x86dd, &small[0])),
        enhanced(endian, 0, 3, &ethernet(&[], 0x86dd, &small[1])),
    ]
    .concat();
    let legacy = pcap(113, &[&[&[0; 14][..], &[8, 0], &ipv4(PAYLOAD)].concat()]);
    for file in [ng, legacy] {
        for index in 0..file.len() {
            for value in [0x00, 0x01, 0x7f, 0x80, 0xff] {
                let mut damaged = file.clone();
                damaged[index] = value;
                if let Ok(capture) = Capture::from_reader(io::Cursor::new(damaged)) {
                    assert!(capture.count() <= 4);
                }
            }
            if let Ok(capture) = Capture::from_reader(io::Cursor::new(file[..index].to_vec())) {
                assert!(capture.count() <= 4);
            }
        }
    }
}

#[test]
fn a_file_that_is_no_capture_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes.txt");
    std::fs::write(&path, "not a capture").unwrap();
    let error = Capture::open(&path).unwrap_err().to_string();
    assert!(error.ends_with("notes.txt is neither a pcap nor a pcapng file"), "{error}");
    let error = Capture::open(directory.path().join("none")).unwrap_err();
    assert!(matches!(error, CaptureError::Open { .. }));
    let error = Capture::from_reader(io::Cursor::new(pcap(147, &[]))).unwrap_err().to_string();
    assert_eq!(error, "link type 147 is not supported");
    assert!(payloads(pcap(1, &[])).is_empty());
}
