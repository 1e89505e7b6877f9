//! Agents of v2c that do wrong, by the library's own encoding.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use async_snmp::message::CommunityMessage;
use async_snmp::{Community, DecodeConfig, Oid, ResponsePdu, Value, VarBind, Version};

/// What an agent answers to the request for what follows an object identifier.
pub type Answer = fn(&Oid, u32) -> Vec<VarBind>;

/// An agent in a thread, until it is dropped.
pub struct Fake {
    pub port: u16,
    is_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Fake {
    /// Starts it; `cut` bytes are missing at the end of each answer.
    pub fn start(address: &str, answer: Answer, cut: usize) -> Self {
        let socket = UdpSocket::bind((address, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let port = socket.local_addr().unwrap().port();
        let is_ended = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&is_ended);
        let thread = std::thread::spawn(move || {
            let mut request = [0; 65_536];
            while !ended.load(Ordering::Relaxed) {
                let Ok((length, client)) = socket.recv_from(&mut request) else { continue };
                let bytes = answer_to(&request[..length], answer);
                socket.send_to(&bytes[..bytes.len() - cut], client).unwrap();
            }
        });
        Self { port, is_ended, thread: Some(thread) }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.is_ended.store(true, Ordering::Relaxed);
        drop(self.thread.take().unwrap().join());
    }
}

fn answer_to(request: &[u8], answer: Answer) -> Vec<u8> {
    let request =
        CommunityMessage::decode(request.to_vec().into(), DecodeConfig::default()).unwrap();
    let (_, _, pdu) = request.value.into_parts();
    let pdu = pdu.standard().unwrap().clone();
    let (_, repetitions) = pdu.get_bulk_fields().unwrap();
    let rows = answer(&pdu.varbinds()[0].oid, repetitions);
    let response = ResponsePdu::success(Version::V2c, pdu.request_id(), rows).unwrap();
    CommunityMessage::v2c(Community::from("public"), response).unwrap().encode().unwrap().to_vec()
}

/// The object identifier of a row.
pub fn row(column: &[u32], index: u32) -> Oid {
    Oid::new(column.iter().copied().chain([index]))
}

/// A row with a text.
pub fn text(oid: Oid, text: &str) -> VarBind {
    VarBind::new(oid, Value::OctetString(text.as_bytes().to_vec().into()))
}

/// The column of an object identifier that was asked for, and the index after which to go on.
pub fn split(oid: &Oid) -> (Vec<u32>, u32) {
    let arcs = oid.arcs();
    let length = if arcs.starts_with(&[1, 3, 6, 1, 2, 1, 31]) { 11 } else { 10 };
    (arcs[..length].to_vec(), arcs.get(length).copied().unwrap_or(0))
}
