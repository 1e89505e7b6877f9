//! Ports, TCP flags, ICMP type and code, and the tunnels that are only recognised.

use super::{Packet, Tunnel, u8_at, u16_at};

/// IANA protocol numbers.
mod protocol {
    pub(super) const ICMP: u8 = 1;
    pub(super) const IPV4: u8 = 4;
    pub(super) const TCP: u8 = 6;
    pub(super) const UDP: u8 = 17;
    pub(super) const DCCP: u8 = 33;
    pub(super) const IPV6: u8 = 41;
    pub(super) const GRE: u8 = 47;
    pub(super) const ICMPV6: u8 = 58;
    pub(super) const SCTP: u8 = 132;
    pub(super) const UDP_LITE: u8 = 136;
}

/// Where every protocol with ports has them: RFC 9293 section 3.1, RFC 768, RFC 9260 section 3.1,
/// RFC 4340 section 5.1, RFC 3828 section 3.1.
const SOURCE_PORT: usize = 0;
const DESTINATION_PORT: usize = 2;

/// RFC 9293 section 3.1: four bits data offset, four reserved, eight flags. All but the data offset
/// are what tcpControlBits has (RFC 7125 section 3).
const TCP_FLAGS: usize = 12;
const TCP_FLAGS_MASK: u16 = 0x0fff;

/// RFC 792, RFC 4443 section 2.1.
const ICMP_TYPE: usize = 0;
const ICMP_CODE: usize = 1;

/// RFC 7348 section 5.
const VXLAN_PORT: u16 = 4789;

impl Packet {
    /// Reads what begins behind the IP header of the first fragment.
    pub(super) fn transport(&mut self, bytes: &[u8]) {
        match self.protocol {
            protocol::TCP => {
                self.ports(bytes);
                self.tcp_flags = u16_at(bytes, TCP_FLAGS).unwrap_or(0) & TCP_FLAGS_MASK;
            }
            protocol::UDP => {
                self.ports(bytes);
                if self.dst_port == VXLAN_PORT {
                    self.tunnel = Some(Tunnel::Vxlan);
                }
            }
            protocol::SCTP | protocol::DCCP | protocol::UDP_LITE => self.ports(bytes),
            protocol::ICMP | protocol::ICMPV6 => {
                self.icmp_type = u8_at(bytes, ICMP_TYPE).unwrap_or(0);
                self.icmp_code = u8_at(bytes, ICMP_CODE).unwrap_or(0);
            }
            protocol::GRE => self.tunnel = Some(Tunnel::Gre),
            protocol::IPV4 | protocol::IPV6 => self.tunnel = Some(Tunnel::IpIp),
            _ => {}
        }
    }

    fn ports(&mut self, bytes: &[u8]) {
        self.src_port = u16_at(bytes, SOURCE_PORT).unwrap_or(0);
        self.dst_port = u16_at(bytes, DESTINATION_PORT).unwrap_or(0);
    }
}
