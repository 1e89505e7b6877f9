//! Flows that say what a test wants, and their rows in ClickHouse.

use std::net::{SocketAddr, UdpSocket};

use tidegate::app::App;
use tidegate::devserver::DevServer;

use super::{Scrape, query_row, wait_until};

/// A flow of NetFlow v5.
#[derive(Clone, Copy)]
pub struct Flow {
    pub from: [u8; 4],
    pub to: [u8; 4],
    pub interfaces: (u16, u16),
    pub ports: (u16, u16),
    pub protocol: u8,
    pub systems: (u16, u16),
    pub bytes: u32,
}

pub const FLOW: Flow = Flow {
    from: [10, 1, 2, 3],
    to: [203, 0, 113, 9],
    interfaces: (1, 2),
    ports: (51_000, 443),
    protocol: 6,
    systems: (0, 0),
    bytes: 1_000,
};

/// One datagram of these flows.
pub fn v5(flows: &[Flow]) -> Vec<u8> {
    let now_s = u32::try_from(tidegate::telemetry::unix_ms() / 1_000).unwrap();
    let mut out = vec![0, 5, 0, u8::try_from(flows.len()).unwrap()];
    out.extend_from_slice(&100_000_u32.to_be_bytes());
    out.extend_from_slice(&now_s.to_be_bytes());
    out.extend_from_slice(&[0; 12]);
    for flow in flows {
        let mut record = [0; 48];
        record[0..4].copy_from_slice(&flow.from);
        record[4..8].copy_from_slice(&flow.to);
        record[12..14].copy_from_slice(&flow.interfaces.0.to_be_bytes());
        record[14..16].copy_from_slice(&flow.interfaces.1.to_be_bytes());
        record[16..20].copy_from_slice(&1_u32.to_be_bytes());
        record[20..24].copy_from_slice(&flow.bytes.to_be_bytes());
        record[24..28].copy_from_slice(&99_000_u32.to_be_bytes());
        record[28..32].copy_from_slice(&99_500_u32.to_be_bytes());
        record[32..34].copy_from_slice(&flow.ports.0.to_be_bytes());
        record[34..36].copy_from_slice(&flow.ports.1.to_be_bytes());
        record[38] = flow.protocol;
        record[40..42].copy_from_slice(&flow.systems.0.to_be_bytes());
        record[42..44].copy_from_slice(&flow.systems.1.to_be_bytes());
        out.extend_from_slice(&record);
    }
    out
}

pub fn send(to: SocketAddr, flows: &[Flow]) {
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&v5(flows), to).unwrap();
}

pub fn wait_for_rows(server: &DevServer, app: &App, rows: u64) {
    wait_until("the rows are stored", || {
        Scrape::of(app).sum("tidegate_batch_stored_rows_total", &[]) == rows
    });
    assert_eq!(query_row(server, "SELECT count() FROM tidegate.flows"), [rows.to_string()]);
}

/// A row's columns, of the flow with so many bytes.
pub fn row(server: &DevServer, columns: &str, bytes: u32) -> Vec<String> {
    query_row(server, &format!("SELECT {columns} FROM tidegate.flows WHERE bytes = {bytes}"))
}
