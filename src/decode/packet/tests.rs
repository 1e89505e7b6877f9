//! Packet headers built by hand, layer by layer, and each of them cut at every length.

use super::*;

const TCP: [u8; 20] = [0x30, 0x39, 1, 0xbb, 0, 0, 0, 1, 0, 0, 0, 2, 0x51, 0x12, 0, 0, 0, 0, 0, 0];
const UDP: [u8; 8] = [0x30, 0x39, 0, 53, 0, 8, 0, 0];
const MACS: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];

fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    [&MACS[..], &kind.to_be_bytes(), payload].concat()
}

/// `fragment` is the whole field of flags and offset; `options` are words.
fn ipv4(protocol: u8, fragment: u16, options: u8, payload: &[u8]) -> Vec<u8> {
    let [high, low] = fragment.to_be_bytes();
    let head = [0x45 + options, 0xb8, 0, 99, 0, 7, high, low, 63, protocol, 0, 0];
    let options = vec![1; usize::from(options) * 4];
    [&head[..], &[192, 0, 2, 1], &[198, 51, 100, 2], &options, payload].concat()
}

fn ipv6(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x6b, 0x8a, 0xbc, 0xde, 0, 99, next_header, 62];
    bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    bytes.extend(payload);
    bytes
}

fn of(kind: u16, payload: &[u8]) -> Packet {
    Packet::parse(Link::Ethernet, &ethernet(kind, payload))
}

fn ports(packet: &Packet) -> (u8, u16, u16) {
    (packet.protocol, packet.src_port, packet.dst_port)
}

/// Every prefix says no more than the whole: each field is as in the whole packet, or unknown.
fn check_prefixes(link: Link, whole: &[u8]) {
    let full = Packet::parse(link, whole);
    for length in 0..=whole.len() {
        let packet = Packet::parse(link, &whole[..length]);
        let fields = |p: &Packet| {
            let known = [u64::from(p.vlan), u64::from(p.ip_version), u64::from(p.tos)];
            let more = [p.ttl.into(), p.flow_label.into(), p.src_port.into(), p.dst_port.into()];
            let rest = [p.tcp_flags.into(), p.icmp_type.into(), p.icmp_code.into()];
            [&[p.src_mac, p.dst_mac][..], &known, &more, &rest].concat()
        };
        for (cut, full) in fields(&packet).into_iter().zip(fields(&full)) {
            assert!(cut == 0 || cut == full, "{length} bytes: {packet:?}");
        }
        let addresses = [(packet.src_addr, full.src_addr), (packet.dst_addr, full.dst_addr)];
        for (cut, full) in addresses {
            assert!(cut == [0; 16] || cut == full, "{length} bytes: {packet:?}");
        }
    }
}

#[test]
fn ethernet_ipv4_and_tcp_are_read() {
    let packet = of(0x0800, &ipv4(6, 0x4000, 0, &TCP));
    assert_eq!((packet.src_mac, packet.dst_mac), (0x0200_0000_0001, 0x0200_0000_0002));
    assert_eq!(packet.src_addr[10..], [0xff, 0xff, 192, 0, 2, 1]);
    assert_eq!(packet.dst_addr[10..], [0xff, 0xff, 198, 51, 100, 2]);
    assert_eq!(ports(&packet), (6, 12_345, 443));
    assert_eq!((packet.ip_version, packet.tos, packet.ttl), (4, 0xb8, 63));
    assert_eq!(packet.tcp_flags, 0x112, "the data offset is no flag");
}

#[test]
fn ipv4_options_are_stepped_over() {
    assert_eq!(ports(&of(0x0800, &ipv4(17, 0, 3, &UDP))), (17, 12_345, 53));
    let mut short = ipv4(17, 0, 0, &UDP);
    short[0] = 0x44;
    assert_eq!(ports(&of(0x0800, &short)), (17, 0, 0), "a header below 20 bytes is none");
}

#[test]
fn ports_are_in_the_first_fragment_only() {
    assert_eq!(ports(&of(0x0800, &ipv4(17, 0x2000, 0, &UDP))), (17, 12_345, 53));
    assert_eq!(ports(&of(0x0800, &ipv4(17, 0x2001, 0, &UDP))), (17, 0, 0));
    let first = [&[17, 0, 0, 1, 0, 0, 0, 9][..], &UDP].concat();
    assert_eq!(ports(&of(0x86dd, &ipv6(44, &first))), (17, 12_345, 53));
    let later = [&[17, 0, 0, 9, 0, 0, 0, 9][..], &UDP].concat();
    assert_eq!(ports(&of(0x86dd, &ipv6(44, &later))), (17, 0, 0));
}

#[test]
fn ipv6_and_its_extension_headers_are_read() {
    let packet = of(0x86dd, &ipv6(6, &TCP));
    assert_eq!((packet.ip_version, packet.tos, packet.flow_label), (6, 0xb8, 0xa_bcde));
    assert_eq!((packet.ttl, packet.src_addr[15], packet.dst_addr[15]), (62, 1, 2));
    assert_eq!(ports(&packet), (6, 12_345, 443));
    let hop_by_hop = [&[43, 0][..], &[0; 6]].concat();
    let routing = [&[51, 2][..], &[0; 22]].concat();
    let authentication = [&[60, 4][..], &[0; 22]].concat();
    let destination = [&[17, 1][..], &[0; 14]].concat();
    let chain = [&hop_by_hop[..], &routing, &authentication, &destination, &UDP].concat();
    assert_eq!(ports(&of(0x86dd, &ipv6(0, &chain))), (17, 12_345, 53));
}

#[test]
fn extension_headers_without_end_are_given_up() {
    let endless: Vec<u8> = [60, 0, 0, 0, 0, 0, 0, 0].repeat(100);
    assert_eq!(ports(&of(0x86dd, &ipv6(60, &endless))), (60, 0, 0));
}

#[test]
fn vlan_tags_are_stepped_over_and_the_outermost_id_is_kept() {
    let inner = ipv4(17, 0, 0, &UDP);
    let single = [&[0x60, 100, 8, 0][..], &inner].concat();
    assert_eq!(of(0x8100, &single).vlan, 100);
    let double = [&[0x20, 200, 0x81, 0][..], &single].concat();
    for outer in [0x88a8, 0x9100, 0x8100] {
        let packet = of(outer, &double);
        assert_eq!((packet.vlan, ports(&packet)), (200, (17, 12_345, 53)));
    }
    let priority = [&[0xe0, 0, 0x81, 0][..], &single].concat();
    assert_eq!(of(0x8100, &priority).vlan, 100, "id 0 is no VLAN");
    let endless: Vec<u8> = [0, 7, 0x81, 0].repeat(100);
    assert_eq!(of(0x8100, &endless).vlan, 7);
}

#[test]
fn mpls_labels_are_read_and_ip_is_found_behind_them() {
    let stack = [[0, 1, 0x20, 64], [0, 2, 0x21, 64]].concat();
    let v4 = [&stack[..], &ipv4(17, 0, 0, &UDP)].concat();
    let packet = of(0x8847, &v4);
    assert_eq!(*packet.labels(), [0x12, 0x22]);
    assert_eq!(ports(&packet), (17, 12_345, 53));
    let packet = Packet::parse(Link::Mpls, &[&stack[..], &ipv6(6, &TCP)].concat());
    assert_eq!((packet.ip_version, packet.dst_port), (6, 443));
    let pseudowire = [&stack[..], &[0; 4], &ethernet(0x0800, &ipv4(17, 0, 0, &UDP))].concat();
    assert_eq!(of(0x8847, &pseudowire).ip_version, 0);
    let endless: Vec<u8> = [0, 1, 0x20, 64].repeat(50);
    assert_eq!(usize::from(of(0x8847, &endless).mpls_label_count), MPLS_LABELS_MAX);
}

#[test]
fn snap_frames_are_ip_too_and_other_frames_only_have_macs() {
    let snap = [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &ipv4(17, 0, 0, &UDP)].concat();
    assert_eq!(ports(&of(120, &snap)), (17, 12_345, 53));
    let arp = of(0x0806, &[0, 1, 8, 0, 6, 4, 0, 1]);
    assert_eq!((arp.ip_version, arp.src_mac), (0, 0x0200_0000_0001));
    assert_eq!(of(0x0800, &ipv6(6, &TCP)).ip_version, 0, "the version contradicts the type");
}

#[test]
fn icmp_has_type_and_code_and_no_ports() {
    let v4 = of(0x0800, &ipv4(1, 0, 0, &[3, 13, 0, 0]));
    let v6 = of(0x86dd, &ipv6(58, &[1, 4, 0, 0]));
    assert_eq!((v4.icmp_type, v4.icmp_code, ports(&v4)), (3, 13, (1, 0, 0)));
    assert_eq!((v6.icmp_type, v6.icmp_code, ports(&v6)), (1, 4, (58, 0, 0)));
}

#[test]
fn sctp_has_ports() {
    assert_eq!(ports(&of(0x0800, &ipv4(132, 0, 0, &UDP))), (132, 12_345, 53));
}

#[test]
fn tunnels_are_recognised_and_the_row_is_the_outer_packet() {
    let inner = ipv4(6, 0, 0, &TCP);
    let gre = of(0x0800, &ipv4(47, 0, 0, &[&[0, 0, 8, 0][..], &inner].concat()));
    assert_eq!((gre.tunnel, ports(&gre)), (Some(Tunnel::Gre), (47, 0, 0)));
    let ipip = of(0x86dd, &ipv6(4, &inner));
    assert_eq!((ipip.tunnel, ports(&ipip)), (Some(Tunnel::IpIp), (4, 0, 0)));
    let vxlan = [&[0x30, 0x39, 0x12, 0xb5, 0, 0, 0, 0][..], &[8, 0, 0, 0, 0, 0, 7, 0]].concat();
    let vxlan = of(0x0800, &ipv4(17, 0, 0, &vxlan));
    assert_eq!((vxlan.tunnel, ports(&vxlan)), (Some(Tunnel::Vxlan), (17, 12_345, 4789)));
}

#[test]
fn a_packet_cut_anywhere_says_what_is_there() {
    let extensions = [&[60, 0][..], &[0; 6], &[44, 0], &[0; 6], &[6, 0, 0, 1, 0, 0, 0, 9], &TCP];
    let tagged = [&[0, 100, 0x81, 0, 0, 200, 8, 0][..], &ipv4(6, 0, 2, &TCP)].concat();
    let labels = [[0, 1, 0x20, 64], [0, 2, 0x21, 64]].concat();
    check_prefixes(Link::Ethernet, &ethernet(0x88a8, &tagged));
    check_prefixes(Link::Ethernet, &ethernet(0x86dd, &ipv6(0, &extensions.concat())));
    check_prefixes(Link::Mpls, &[&labels[..], &ipv4(17, 0, 0, &UDP)].concat());
    check_prefixes(Link::Ipv4, &ipv4(1, 0, 0, &[3, 13, 0, 0]));
    check_prefixes(Link::Ipv6, &ipv6(58, &[1, 4, 0, 0]));
    let snap = [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &ipv4(17, 0, 0, &UDP)].concat();
    check_prefixes(Link::Ethernet, &ethernet(60, &snap));
}

/// Bytes without a meaning: nothing panics, whatever they claim.
#[test]
fn random_bytes_are_survived() {
    let mut rng = fastrand::Rng::with_seed(7);
    for _ in 0..200_000 {
        let mut bytes: Vec<u8> = (0..rng.usize(..96)).map(|_| rng.u8(..)).collect();
        if bytes.len() > 14 && rng.bool() {
            let kinds = [[8, 0], [0x86, 0xdd], [0x81, 0], [0x88, 0x47]];
            bytes[12..14].copy_from_slice(&kinds[rng.usize(..kinds.len())]);
            bytes[14] = [0x45, 0x60, 0x4f, 0x00][rng.usize(..4)];
        }
        for link in [Link::Ethernet, Link::Ipv4, Link::Ipv6, Link::Mpls] {
            Packet::parse(link, &bytes);
        }
    }
}
