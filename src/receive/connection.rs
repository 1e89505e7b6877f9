//! One connection of an exporter: its bytes, its templates, and how it ends.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use socket2::{SockRef, TcpKeepalive};

use crate::decode::{Datagram, Decoder, DecoderOptions};
use crate::telemetry::unix_ms;

use super::intake::Intake;
use super::stream::{Frame, StreamReader};

/// A host that is gone shows after about two minutes: this time, and six probes.
const KEEPALIVE_TIME: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 6;

/// An open connection.
///
/// Its memory is bounded: 64 KiB of [`StreamReader`], templates and waiting sets within the limits of its
/// exporter, tables and sequence numbers of at most 1,024 observation domains, below 1 MiB. Rows are in the
/// chunks of the reader, which all its connections share.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    exporter: IpAddr,
    reader: StreamReader,
    decoder: Decoder,
    /// When its last byte was received.
    heard: Instant,
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(usize)]
pub(super) enum CloseReason {
    Exporter,
    Garbage,
    Idle,
    Error,
    Stop,
}

impl CloseReason {
    pub(super) const ALL: [Self; 5] =
        [Self::Exporter, Self::Garbage, Self::Idle, Self::Error, Self::Stop];

    /// The metric label.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Exporter => "exporter",
            Self::Garbage => "garbage",
            Self::Idle => "idle",
            Self::Error => "error",
            Self::Stop => "stop",
        }
    }
}

/// What one read gave.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Received {
    Nothing,
    Bytes,
    /// No more: what is decoded was the last.
    End(CloseReason),
}

impl Connection {
    /// Takes an accepted connection.
    ///
    /// # Errors
    ///
    /// It is gone already.
    pub(super) fn new(
        stream: TcpStream,
        peer: SocketAddr,
        decoder: Decoder,
        now: Instant,
    ) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        SockRef::from(&stream).set_tcp_keepalive(
            &TcpKeepalive::new()
                .with_time(KEEPALIVE_TIME)
                .with_interval(KEEPALIVE_INTERVAL)
                .with_retries(KEEPALIVE_PROBES),
        )?;
        let exporter = peer.ip().to_canonical();
        Ok(Self { stream, exporter, reader: StreamReader::new(), decoder, heard: now })
    }

    /// Whose it is.
    pub(super) fn exporter(&self) -> IpAddr {
        self.exporter
    }

    /// Decodes its further messages so.
    pub(super) fn use_options(&mut self, options: &DecoderOptions) {
        self.decoder.use_options(options.clone());
    }

    /// How long it has been quiet.
    pub(super) fn idle_time(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.heard)
    }

    /// Reads once and decodes the messages that are whole; `push` takes rows after each.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        intake: &mut Intake,
        mut push: impl FnMut(&mut Intake),
    ) -> Received {
        match self.reader.fill(&mut self.stream) {
            Ok(0) => return Received::End(CloseReason::Exporter),
            Ok(_) => self.heard = now,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                return Received::Nothing;
            }
            Err(_) => return Received::End(CloseReason::Error),
        }
        let received_ms = unix_ms();
        while let Some(frame) = self.reader.next() {
            let (payload, is_message) = match frame {
                Frame::Message(bytes) => (bytes, true),
                // The decoder says what is wrong with it.
                Frame::Garbage(bytes) => (bytes, false),
            };
            let exporter = self.exporter;
            let datagram = Datagram { exporter, source_port: 0, received_ms, payload };
            intake.decode(&mut self.decoder, &datagram, now);
            push(intake);
            if !is_message {
                return Received::End(CloseReason::Garbage);
            }
        }
        Received::Bytes
    }

    /// Drops sets that have waited too long for their template.
    pub(super) fn expire(&self, intake: &Intake) {
        self.decoder.expire(unix_ms(), |protocol, it| intake.count_more(protocol, it));
    }

    /// Ends it: a message that is not whole and sets that wait for a template are dropped and counted.
    pub(super) fn end(mut self, intake: &mut Intake) {
        let payload = self.reader.take_rest();
        if !payload.is_empty() {
            let (exporter, received_ms) = (self.exporter, unix_ms());
            let datagram = Datagram { exporter, source_port: 0, received_ms, payload };
            intake.decode(&mut self.decoder, &datagram, Instant::now());
        }
        self.decoder.end_waiting(|protocol, tally| intake.count_more(protocol, tally));
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
