//! sFlow datagrams with samples and records of every kind.

/// Of agent 10.1.2.3, sub-agent 7.
pub fn datagram(samples: &[Vec<u8>]) -> Vec<u8> {
    let count = u32::try_from(samples.len()).unwrap();
    [&words(&[5, 1, 0x0a01_0203, 7, 1, 60_000, count])[..], &samples.concat()].concat()
}

pub fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A sample or a record: format, length, content, padding.
pub fn opaque(format: u32, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap();
    let mut bytes = [&words(&[format, length])[..], content].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

pub fn flow_sample(records: &[Vec<u8>]) -> Vec<u8> {
    let count = u32::try_from(records.len()).unwrap();
    let head = words(&[1, 3, 512, 1_000, 0, 3, 4, count]);
    opaque(1, &[&head[..], &records.concat()].concat())
}

/// The header of a packet, of a link layer that section 5 numbers.
pub fn packet(link: u32, header: &[u8]) -> Vec<u8> {
    let length = u32::try_from(header.len()).unwrap();
    opaque(1, &[&words(&[link, 117, 4, length])[..], header].concat())
}

/// The counters of one interface.
pub fn counter_sample(if_index: u32) -> Vec<u8> {
    let mut counters = words(&[if_index, 6, 0, 1_000_000_000, 1, 3, 0, 99]);
    counters.extend(words(&[10, 11, 12, 13, 14, u32::MAX, 0, 77, 20, 21, 22, 23, 24, 0]));
    let other = opaque(2, &[0; 52]);
    opaque(2, &[&words(&[1, 3, 2])[..], &opaque(1, &counters), &other].concat())
}

/// UDP from 192.0.2.1 to 198.51.100.2 in VLAN 9.
pub fn udp_frame() -> Vec<u8> {
    let macs = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    let ip = [0x45, 0, 0, 99, 0, 0, 0, 0, 63, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2];
    [&macs[..], &[0x81, 0, 0, 9, 8, 0], &ip, &[0x30, 0x39, 0, 53, 0, 10, 0, 0, 1, 2]].concat()
}

/// IPv6 with `extensions` extension headers, then TCP.
pub fn extended_packet(extensions: usize) -> Vec<u8> {
    let destination = 60;
    let mut bytes = vec![0x60, 0, 0, 0, 0, 99, destination, 64];
    bytes.extend([0x20; 32]);
    for index in 1..=extensions {
        let next = if index == extensions { 6 } else { destination };
        bytes.extend([next, 0, 1, 4, 0, 0, 0, 0]);
    }
    bytes.extend([0, 80, 0x30, 0x39, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x02, 0, 0]);
    bytes
}

/// As many MPLS labels, then IPv4.
pub fn labelled_packet(labels: usize) -> Vec<u8> {
    let label = |index| [0, 1, if index == labels { 0x11 } else { 0x10 }, 64];
    let stack: Vec<u8> = (1..=labels).flat_map(label).collect();
    [&stack[..], &udp_frame()[18..]].concat()
}

pub fn datagrams() -> Vec<Vec<u8>> {
    let ethernet = opaque(2, &words(&[100, 0x0200, 0x0001_0000, 0x0200, 0x0002_0000, 0x0800]));
    let ipv4 = opaque(3, &words(&[100, 6, 0xc000_0201, 0xc633_6402, 80, 12_345, 2, 0]));
    let ipv6 = opaque(4, &words(&[100, 6, 1, 2, 3, 4, 5, 6, 7, 8, 80, 12_345, 2, 0]));
    let switch = opaque(1001, &words(&[9, 0, 10, 0]));
    let router = opaque(1002, &words(&[1, 0x0a00_0001, 24, 16]));
    let gateway = words(&[1, 0x0a00_0001, 64_500, 64_501, 64_502, 1, 2, 2, 64_503, 64_504, 0, 0]);
    let nat = opaque(1007, &words(&[1, 0x0a00_0001, 1, 0x0a00_0002]));
    let ports = opaque(1020, &words(&[80, 8_080]));
    let expanded = words(&[1, 0, 3, 512, 1_000, 0, 0, 3, 0, 4, 1]);
    let udp = packet(1, &udp_frame());
    vec![
        datagram(&[flow_sample(std::slice::from_ref(&udp)), counter_sample(3), counter_sample(4)]),
        datagram(&[flow_sample(&[ethernet, ipv4, switch, router]), flow_sample(&[ipv6, nat])]),
        datagram(&[flow_sample(&[opaque(1003, &gateway), udp.clone(), ports])]),
        datagram(&[opaque(3, &[expanded, udp].concat()), opaque(5, &[0; 40])]),
        datagram(&[flow_sample(&[packet(12, &extended_packet(3))])]),
        datagram(&[flow_sample(&[packet(13, &labelled_packet(4))])]),
    ]
}
