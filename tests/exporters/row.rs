//! A row of ClickHouse.

use std::net::Ipv6Addr;

use serde::Deserialize;
use tidegate::devserver::DevServer;

use crate::flows::{Flow, Key};

/// What is read of a row.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub flow_protocol: String,
    src_addr: Ipv6Addr,
    dst_addr: Ipv6Addr,
    src_port: u16,
    dst_port: u16,
    protocol: u8,
    tos: u8,
    tcp_flags: u16,
    icmp_type: u8,
    vlan: u16,
    pub bytes: u64,
    pub packets: u64,
    first_ms: i64,
    last_ms: i64,
    pub clock_correction: i64,
    pub reverse_bytes: u64,
    pub reverse_packets: u64,
    src_mac: u64,
    dst_mac: u64,
    pub input_snmp: u32,
    pub output_snmp: u32,
    pub direction: String,
    pub sampling_interval: f64,
    pub sampling_provenance: String,
}

const COLUMNS: &str = "flowProtocol, srcAddr, dstAddr, srcPort, dstPort, protocol, tos, \
     tcpFlags, icmpType, vlan, bytes, packets, toUnixTimestamp64Milli(firstSwitched) AS firstMs, \
     toUnixTimestamp64Milli(lastSwitched) AS lastMs, clockCorrection, reverseBytes, \
     reversePackets, srcMac, dstMac, inputSnmp, outputSnmp, direction, samplingInterval, \
     samplingProvenance";
const FORMAT: &str = "SETTINGS output_format_json_quote_64bit_integers = 0 FORMAT JSONEachRow";

impl Row {
    /// ICMP has no ports here; exporters put its type there.
    pub fn key(&self) -> Key {
        let key = Key {
            source: self.src_addr.to_canonical(),
            destination: self.dst_addr.to_canonical(),
            protocol: self.protocol,
            source_port: self.src_port,
            destination_port: self.dst_port,
        };
        match key.is_icmp() {
            true => Key { source_port: 0, destination_port: 0, ..key },
            false => key,
        }
    }

    /// With times by the exporter's clock.
    pub fn flow(&self) -> Flow {
        Flow {
            packets: self.packets,
            bytes: self.bytes,
            tos: self.tos,
            tcp_flags: self.tcp_flags,
            // The versions with a fixed record have no field for it but the upper byte of the port.
            icmp_type: match self.flow_protocol.as_str() {
                "NetflowV1" | "NetflowV5" | "NetflowV7" if self.key().is_icmp() => {
                    self.dst_port.to_be_bytes()[0]
                }
                _ => self.icmp_type,
            },
            vlan: self.vlan,
            macs: (self.src_mac, self.dst_mac),
            first_ms: self.first_ms - self.clock_correction,
            last_ms: self.last_ms - self.clock_correction,
        }
    }
}

/// All rows of a database.
pub fn rows(server: &DevServer, database: &str) -> Vec<Row> {
    let answer = server.query(&format!("SELECT {COLUMNS} FROM {database}.flows {FORMAT}")).unwrap();
    answer.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
