//! UDP payloads of a capture file, for `tidegate send`, `tidegate inspect` and the tests.
//!
//! A capture stands in for the network: what a socket would have handed to the decoder is what
//! comes out here, so IP fragments are put together again and link layers are taken off. Nothing
//! disappears silently: a packet that yields no datagram is counted in [`Skipped`] with its reason,
//! and a damaged file ends in an error that names the packet, after everything before it.
//!
//! File formats: pcap (draft-ietf-opsawg-pcap) and pcapng (draft-ietf-opsawg-pcapng).

mod interface;
mod packet;
mod reassembly;
mod skipped;
#[cfg(test)]
mod tests;

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader};

use self::interface::Interface;
pub use self::interface::LinkType;
use self::reassembly::Reassembly;
use self::skipped::Skip;
pub use self::skipped::Skipped;

/// First size of the read buffer. Grows only for a record that does not fit.
const BUFFER_BYTES: usize = 256 * 1024;
/// Longest record that is read. tcpdump's largest snaplen is 256 KiB; pcapng has longer blocks
/// (name resolution, secrets). A length beyond this is damage, not data.
const RECORD_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Interfaces of a pcapng section. Beyond it the file is damaged or made to exhaust memory.
const INTERFACES_MAX: usize = 65_536;
/// Obsolete Packet Block (draft-ietf-opsawg-pcapng appendix A), which is counted and not read.
const OBSOLETE_PACKET_BLOCK: u32 = 2;

/// One UDP payload as it was on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datagram {
    /// When it was captured; for fragments the time of the one that completed it.
    pub time_unix_ns: i64,
    /// The sender, for flow exports the exporter.
    pub source: SocketAddr,
    /// The receiver, for flow exports the collector.
    pub destination: SocketAddr,
    /// What follows the UDP header.
    pub payload: Vec<u8>,
}

/// Why a capture could not be opened or read to its end. Packets are numbered from 1 as in Wireshark.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The file cannot be opened.
    #[error("cannot open capture {path}")]
    Open {
        /// The file asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Neither magic number matches, or the file is empty.
    #[error("{path} is neither a pcap nor a pcapng file")]
    NotACapture {
        /// The file asked for, or `stream`.
        path: PathBuf,
    },
    /// A pcap file has one link type for all packets, and this one is not read.
    #[error("link type {0} is not supported")]
    LinkType(LinkType),
    /// The file stops inside a record: a capture that was interrupted or copied in part.
    #[error("capture ends in the middle of packet {packet}")]
    EndsInside {
        /// The packet that is incomplete.
        packet: u64,
    },
    /// A record that cannot be parsed; what follows it has no known start.
    #[error("capture is damaged at packet {packet}: {what}")]
    Damaged {
        /// The packet at or before which reading stopped.
        packet: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Reading failed, for example the disk.
    #[error("cannot read packet {packet}")]
    Read {
        /// The packet that would have been read next.
        packet: u64,
    },
}

/// A capture file being read; iterate over it for its datagrams.
pub struct Capture {
    reader: Box<dyn PcapReaderIterator + Send>,
    /// The interfaces of the current section; a pcap file has exactly one.
    interfaces: Vec<Interface>,
    reassembly: Reassembly,
    skipped: Skipped,
    /// Number of the packet read last.
    packet: u64,
    /// Set at the end and after an error: the iterator stays empty.
    finished: bool,
}

impl Capture {
    /// Opens a pcap or pcapng file.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened, is no capture, or is a pcap of a link type that is not read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CaptureError> {
        let path = path.as_ref();
        let file = File::open(path)
            .map_err(|source| CaptureError::Open { path: path.to_owned(), source })?;
        Self::start(file, path)
    }

    /// Reads a capture from any source of bytes.
    ///
    /// # Errors
    ///
    /// When the bytes are no capture, or a pcap of a link type that is not read.
    pub fn from_reader(reader: impl Read + Send + 'static) -> Result<Self, CaptureError> {
        Self::start(reader, Path::new("stream"))
    }

    /// What was passed over up to here. Complete once the iterator has ended.
    #[must_use]
    pub fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    /// Packets read up to here, whether they held a datagram or not.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.packet
    }

    fn start(reader: impl Read + Send + 'static, path: &Path) -> Result<Self, CaptureError> {
        let mut reader = create_reader(BUFFER_BYTES, reader)
            .map_err(|_| CaptureError::NotACapture { path: path.to_owned() })?;
        // The first record is a header in both formats; pcap's is the only place of its link type.
        let mut interfaces = Vec::new();
        if let Ok((_, PcapBlockOwned::LegacyHeader(header))) = reader.next() {
            let interface = Interface::of_pcap(&header);
            if !interface.link.is_supported() {
                return Err(CaptureError::LinkType(interface.link));
            }
            interfaces.push(interface);
        }
        Ok(Self {
            reader,
            interfaces,
            reassembly: Reassembly::default(),
            skipped: Skipped::default(),
            packet: 0,
            finished: false,
        })
    }

    /// Reads records until one completes a datagram. `None` at the end of the file.
    fn advance(&mut self) -> Result<Option<Datagram>, CaptureError> {
        loop {
            let next = self.packet + 1;
            let record = match self.reader.next() {
                Ok((length, block)) => {
                    let record = Record::of(&block, &mut self.interfaces, next)?;
                    let datagram = match record {
                        Record::Packet(packet) => {
                            self.packet = next;
                            take(&packet, &mut self.reassembly, &mut self.skipped)
                        }
                        Record::Unreadable(skip) => {
                            self.packet = next;
                            self.skipped.count(skip);
                            None
                        }
                        Record::Other => None,
                    };
                    self.reader.consume(length);
                    match datagram {
                        Some(datagram) => return Ok(Some(datagram)),
                        None => continue,
                    }
                }
                Err(error) => Trouble::of(&error),
            };
            match record {
                Trouble::End => return Ok(None),
                Trouble::NeedsData => {
                    if self.reader.refill().is_err() {
                        return Err(CaptureError::Read { packet: next });
                    }
                }
                Trouble::NeedsSpace => self.grow(next)?,
                Trouble::EndsInside => return Err(CaptureError::EndsInside { packet: next }),
                Trouble::Damaged => {
                    return Err(CaptureError::Damaged { packet: next, what: "not a valid record" });
                }
            }
        }
    }

    /// Doubles the read buffer for a record that does not fit.
    fn grow(&mut self, packet: u64) -> Result<(), CaptureError> {
        let size = (self.reader.data().len() * 2).clamp(BUFFER_BYTES * 2, RECORD_BYTES_MAX * 2);
        if self.reader.data().len() >= RECORD_BYTES_MAX || !self.reader.grow(size) {
            return Err(CaptureError::Damaged { packet, what: "the record is too long" });
        }
        if self.reader.refill().is_err() {
            return Err(CaptureError::Read { packet });
        }
        Ok(())
    }
}

impl Iterator for Capture {
    type Item = Result<Datagram, CaptureError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        let step = self.advance().transpose();
        if !matches!(step, Some(Ok(_))) {
            self.finished = true;
            self.skipped.fragments_incomplete += self.reassembly.abandon();
        }
        step
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Capture")
            .field("interfaces", &self.interfaces)
            .field("packet", &self.packet)
            .field("skipped", &self.skipped)
            .finish_non_exhaustive()
    }
}

/// A packet record: the bytes of one frame and where it was seen.
struct Packet<'a> {
    link: LinkType,
    time_unix_ns: i64,
    frame: &'a [u8],
    /// Whether the snaplen cut the frame.
    is_cut: bool,
}

/// What a record of the file means here.
enum Record<'a> {
    Packet(Packet<'a>),
    Unreadable(Skip),
    Other,
}

impl<'a> Record<'a> {
    fn of(
        block: &'a PcapBlockOwned<'_>,
        interfaces: &mut Vec<Interface>,
        packet: u64,
    ) -> Result<Self, CaptureError> {
        let undescribed =
            CaptureError::Damaged { packet, what: "its interface is not described in the file" };
        match block {
            PcapBlockOwned::Legacy(record) => {
                let interface = interfaces.first().ok_or(undescribed)?;
                Ok(Self::Packet(Packet {
                    link: interface.link,
                    time_unix_ns: interface.pcap_time(record.ts_sec, record.ts_usec),
                    frame: record.data,
                    is_cut: record.caplen < record.origlen,
                }))
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(record)) => {
                let interface = usize::try_from(record.if_id)
                    .ok()
                    .and_then(|index| interfaces.get(index))
                    .ok_or(undescribed)?;
                Ok(Self::Packet(Packet {
                    link: interface.link,
                    time_unix_ns: interface.pcapng_time(record.ts_high, record.ts_low),
                    frame: unpadded(record.data, record.caplen),
                    is_cut: record.caplen < record.origlen,
                }))
            }
            PcapBlockOwned::NG(Block::SimplePacket(record)) => {
                // Section 4.4: belongs to interface 0, has no time, and is cut at its snaplen.
                let interface = interfaces.first().ok_or(undescribed)?;
                let captured = interface.captured(record.origlen);
                Ok(Self::Packet(Packet {
                    link: interface.link,
                    time_unix_ns: 0,
                    frame: unpadded(record.data, captured),
                    is_cut: captured < record.origlen,
                }))
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(description)) => {
                if interfaces.len() >= INTERFACES_MAX {
                    return Err(CaptureError::Damaged { packet, what: "too many interfaces" });
                }
                interfaces.push(Interface::of_pcapng(description));
                Ok(Self::Other)
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                // Interface numbers start again in every section.
                interfaces.clear();
                Ok(Self::Other)
            }
            PcapBlockOwned::NG(Block::Unknown(block)) => {
                let kind = [block.block_type, block.block_type.swap_bytes()];
                let is_packet = kind.contains(&OBSOLETE_PACKET_BLOCK);
                Ok(if is_packet { Self::Unreadable(Skip::RecordType) } else { Self::Other })
            }
            PcapBlockOwned::NG(_) | PcapBlockOwned::LegacyHeader(_) => Ok(Self::Other),
        }
    }
}

/// The frame without the padding to 32 bits that pcapng adds.
fn unpadded(data: &[u8], length: u32) -> &[u8] {
    usize::try_from(length).ok().and_then(|length| data.get(..length)).unwrap_or(data)
}

/// Takes the datagram out of a packet, directly or as the last fragment of it.
fn take(
    packet: &Packet<'_>,
    reassembly: &mut Reassembly,
    skipped: &mut Skipped,
) -> Option<Datagram> {
    let found =
        packet::parse(packet.link, packet.frame, packet.is_cut).and_then(|content| match content {
            packet::Content::Udp(udp) => Ok(Some(udp.to_datagram(packet.time_unix_ns))),
            packet::Content::Fragment(fragment) => {
                reassembly.add(&fragment, packet.time_unix_ns, skipped)
            }
        });
    found.unwrap_or_else(|skip| {
        skipped.count(skip);
        None
    })
}

/// The reader's errors, without the borrow of its buffer.
enum Trouble {
    End,
    NeedsData,
    NeedsSpace,
    EndsInside,
    Damaged,
}

impl Trouble {
    fn of<I>(error: &PcapError<I>) -> Self {
        match error {
            PcapError::Eof => Self::End,
            PcapError::Incomplete(_) => Self::NeedsData,
            PcapError::BufferTooSmall => Self::NeedsSpace,
            PcapError::UnexpectedEof => Self::EndsInside,
            _ => Self::Damaged,
        }
    }
}
