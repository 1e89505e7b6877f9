//! The headers of export messages, as text. What a header says is shown, whether it is right or not.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::decode::Protocol;

use crate::flow::utc;

use super::count;

/// RFC 3954 section 5.1 and RFC 7011 section 3.1.
const NETFLOW_V9_HEADER_BYTES: usize = 20;
const IPFIX_HEADER_BYTES: usize = 16;

/// One export message of a datagram.
#[derive(Debug)]
pub(super) struct Message<'a> {
    pub(super) protocol: Protocol,
    /// Where it begins in the datagram.
    pub(super) offset: usize,
    /// The bytes of its header; empty when they are not all there.
    pub(super) header: &'a [u8],
    /// Observation domain or source id; 0 for protocols without.
    pub(super) domain_id: u32,
    /// Its length: IPFIX says it, the others end with their datagram.
    length: usize,
    /// What else its header says.
    details: String,
}

/// The messages of a datagram: several in IPFIX only; none when its protocol is not known.
pub(super) fn messages(payload: &[u8]) -> Vec<Message<'_>> {
    let mut messages = Vec::new();
    let Some(protocol) = Protocol::of(payload) else { return messages };
    let mut offset = 0;
    loop {
        let message = Message::read(protocol, &payload[offset..], offset);
        let length = message.length;
        messages.push(message);
        let behind = payload.get(offset + length..).unwrap_or_default();
        let is_next = behind.len() >= IPFIX_HEADER_BYTES
            && length >= IPFIX_HEADER_BYTES
            && Protocol::of(behind) == Some(Protocol::Ipfix);
        if protocol != Protocol::Ipfix || !is_next {
            return messages;
        }
        offset += length;
    }
}

impl<'a> Message<'a> {
    fn read(protocol: Protocol, bytes: &'a [u8], offset: usize) -> Self {
        let mut message = Self {
            protocol,
            offset,
            header: &[],
            domain_id: 0,
            length: bytes.len(),
            details: String::new(),
        };
        message.details = message.read_header(bytes).unwrap_or_else(|| ", cut".to_owned());
        message
    }

    /// What the header says beside the protocol, or nothing when it is cut.
    fn read_header(&mut self, bytes: &'a [u8]) -> Option<String> {
        let word = |at: usize| bytes.get(at..)?.first_chunk().map(|word| u32::from_be_bytes(*word));
        let half = |at: usize| bytes.get(at..)?.first_chunk().map(|half| u16::from_be_bytes(*half));
        let exported = |seconds: u32| utc(i64::from(seconds) * 1_000);
        Some(match self.protocol {
            Protocol::NetflowV1 => {
                let (count, uptime, seconds) = (half(2)?, word(4)?, word(8)?);
                let exported = exported(seconds);
                format!(", count {count}, uptime {uptime} ms, exported {exported}")
            }
            Protocol::NetflowV5 | Protocol::NetflowV7 => {
                let (count, uptime, seconds) = (half(2)?, word(4)?, word(8)?);
                let (sequence, exported) = (word(16)?, exported(seconds));
                let text = format!(
                    ", sequence {sequence}, count {count}, uptime {uptime} ms, exported {exported}"
                );
                let [.., engine_type, engine_id, high, low] = *bytes.first_chunk::<24>()?;
                let sampling = u16::from_be_bytes([high, low]);
                match self.protocol {
                    Protocol::NetflowV5 => format!(
                        "{text}, engine {engine_type}/{engine_id}, sampling mode {} interval {}",
                        sampling >> 14,
                        sampling & 0x3fff
                    ),
                    _ => text,
                }
            }
            Protocol::NetflowV9 => {
                self.header = bytes.get(..NETFLOW_V9_HEADER_BYTES)?;
                self.domain_id = word(16)?;
                let (count, uptime, sequence) = (half(2)?, word(4)?, word(12)?);
                let (domain, exported) = (self.domain_id, exported(word(8)?));
                format!(
                    ", domain {domain}, sequence {sequence}, count {count}, uptime {uptime} ms, exported {exported}"
                )
            }
            Protocol::Ipfix => {
                self.header = bytes.get(..IPFIX_HEADER_BYTES)?;
                (self.length, self.domain_id) = (half(2)?.into(), word(12)?);
                let (domain, exported) = (self.domain_id, exported(word(4)?));
                format!(", domain {domain}, sequence {}, exported {exported}", word(8)?)
            }
            // sflow_version_5.txt section 5: the agent address, then sub-agent, sequence and uptime.
            Protocol::Sflow => {
                let (agent, at) = match word(4)? {
                    1 => (Ipv4Addr::from(word(8)?).to_string(), 12),
                    2 => (Ipv6Addr::from(*bytes.get(8..)?.first_chunk::<16>()?).to_string(), 24),
                    other => return Some(format!(", agent address of type {other}")),
                };
                let (domain, sequence, uptime) = (word(at)?, word(at + 4)?, word(at + 8)?);
                format!(
                    ", agent {agent}, sub-agent {domain}, sequence {sequence}, samples {}, uptime {uptime} ms",
                    word(at + 12)?
                )
            }
        })
    }
}

impl fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}{}", self.protocol.label(), count(self.length, "byte"), self.details)
    }
}
