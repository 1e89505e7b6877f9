//! One connection through the proxy.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use socket2::SockRef;

use super::{Fault, POLL_INTERVAL, Shared};

/// The end of a chunked body.
const BODY_END: &[u8] = b"0\r\n\r\n";

/// One connection and its continuation to ClickHouse.
pub(super) struct Passage<'a> {
    client: TcpStream,
    upstream: TcpStream,
    shared: &'a Shared,
    /// The answer to what passed last is not to come back.
    is_cut: AtomicBool,
    is_closed: AtomicBool,
}

impl<'a> Passage<'a> {
    pub(super) fn open(client: TcpStream, shared: &'a Shared) {
        // Without a server behind it the connection is closed; a client sees that it has no answer.
        let Ok(upstream) = TcpStream::connect(shared.upstream) else { return };
        let (is_cut, is_closed) = (AtomicBool::default(), AtomicBool::default());
        let passage = Self { client, upstream, shared, is_cut, is_closed };
        std::thread::scope(|scope| {
            scope.spawn(|| passage.pass_answers());
            scope.spawn(|| passage.watch());
            passage.pass_requests();
        });
    }

    /// Ends the connection when nobody listens any more, or the proxy is gone.
    fn watch(&self) {
        while !self.is_closed.load(Ordering::Relaxed) {
            if self.shared.is_over() {
                self.close();
            } else if self.shared.is_refused() {
                self.shared.note_hurt();
                self.reset();
            }
            sleep(POLL_INTERVAL);
        }
    }

    fn pass_answers(&self) {
        let mut buffer = [0; 65_536];
        while let Ok(length @ 1..) = (&self.upstream).read(&mut buffer) {
            if self.is_cut.load(Ordering::Relaxed) {
                return self.reset();
            }
            if let Some(Fault::Slow(pause)) = self.shared.fault() {
                self.shared.note_hurt();
                sleep(pause);
            }
            if (&self.client).write_all(&buffer[..length]).is_err() {
                break;
            }
        }
        self.close();
    }

    fn pass_requests(&self) {
        let mut buffer = [0; 65_536];
        let mut fault = None;
        let mut request = 0;
        while let Ok(length @ 1..) = (&self.client).read(&mut buffer) {
            let part = &mut buffer[..length];
            // A new request begins with its method; bodies are frames.
            let is_head = part.starts_with(b"POST ") || part.starts_with(b"GET ");
            if is_head {
                (fault, request) = (self.fault_of(part), 0);
            }
            request += length;
            let is_end = part.ends_with(BODY_END);
            match fault {
                Some(Fault::Reword(from, to) | Fault::RewordOfFlows(from, to)) if is_head => {
                    self.shared.note_hurt();
                    reword(part, from, to);
                }
                Some(Fault::ResetInBody(at)) if request >= at => {
                    self.shared.note_hurt();
                    return self.reset();
                }
                Some(Fault::ResetAfterBody) if is_end => {
                    self.shared.note_hurt();
                    self.is_cut.store(true, Ordering::Relaxed);
                }
                Some(Fault::Hang) => {
                    if is_end {
                        self.shared.note_hurt();
                    }
                    continue;
                }
                Some(Fault::Answer(head, body) | Fault::AnswerOfFlows(head, body)) => {
                    if is_end {
                        self.shared.note_hurt();
                        self.answer(head, body);
                        break;
                    }
                    continue;
                }
                _ => {}
            }
            if (&self.upstream).write_all(part).is_err() {
                break;
            }
        }
        self.close();
    }

    /// What is to happen to a request that begins so. Probes and statements pass.
    fn fault_of(&self, head: &[u8]) -> Option<Fault> {
        let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let is_letters = line.contains("flows_dead_letter");
        self.shared
            .fault()
            .filter(|fault| line.contains("INSERT") && !(is_letters && fault.is_of_flows()))
    }

    fn answer(&self, head: &str, body: &str) {
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        drop((&self.client).write_all(answer.as_bytes()));
    }

    fn close(&self) {
        drop(self.client.shutdown(Shutdown::Both));
        self.leave();
    }

    /// What is closed with a linger time of zero is reset.
    fn reset(&self) {
        drop(SockRef::from(&self.client).set_linger(Some(Duration::ZERO)));
        drop(self.client.shutdown(Shutdown::Read));
        self.leave();
    }

    /// Wakes the other threads.
    fn leave(&self) {
        drop(self.upstream.shutdown(Shutdown::Both));
        self.is_closed.store(true, Ordering::Relaxed);
    }
}

fn reword(head: &mut [u8], from: &str, to: &str) {
    let at = head.windows(from.len()).position(|part| part == from.as_bytes()).unwrap();
    head[at..at + from.len()].copy_from_slice(to.as_bytes());
}
